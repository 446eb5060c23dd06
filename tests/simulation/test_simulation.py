"""Conversations from seeds. `python -m tests.isolated.simulation` runs a million, and repeats one with its events."""

from __future__ import annotations

import contextlib

import pytest

from ..support.examples import seeds
from ..support.tables import rows
from .conversation import Conversation
from .sessions import Talk
from .world import Violation

CONVERSATIONS = 500


@pytest.mark.ci
def test_the_invariants_hold_whatever_happens() -> None:
    for seed in range(CONVERSATIONS):
        try:
            Conversation(seed).run()
        except Exception as error:
            pytest.fail(f"{error} (python -m tests.isolated.simulation --seed {seed} --trace)")


@pytest.mark.ci
def test_a_seed_gives_the_same_events_each_time() -> None:
    for seed in range(60):
        one, other = Conversation(seed, is_traced=True), Conversation(seed, is_traced=True)
        assert one.run() == other.run()
        assert one.trace == other.trace
        assert one.trace
    assert Conversation(1).world.random.random() != Conversation(2).world.random.random()


def test_a_violation_inside_a_handler_is_not_lost() -> None:
    conversation = Conversation(0)
    world = conversation.world

    def fail() -> None:
        with contextlib.suppress(Violation):  # as an engine, which catches everything
            world.fail("found by a handler")

    world.soon(fail)
    with pytest.raises(Violation, match="found by a handler"):
        conversation.run()


@rows("seed", seeds(100))
@pytest.mark.virtual_time
@pytest.mark.ci
async def test_sessions_over_a_channel_whose_bytes_are_late(seed: int) -> None:
    await Talk(seed).run()


@pytest.mark.virtual_time
async def test_two_sessions_of_a_seed_do_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # A turn of a connection ends by the real clock: on a busy machine it delivers less.
    monkeypatch.setattr("jsonrpc_fast.transports.connection.monotonic", lambda: 0.0)
    for seed in range(10):
        one, other = Talk(seed), Talk(seed)
        await one.run()
        await other.run()
        assert [line.split(" ", 1)[-1] for line in one.trace] == [line.split(" ", 1)[-1] for line in other.trace]
