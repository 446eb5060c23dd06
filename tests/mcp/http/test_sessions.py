"""The table of sessions: what ends, what stays, and what a check costs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast.mcp.http import sessions as module
from jsonrpc_fast.mcp.http.sessions import SessionTable


class FakeSession:
    """A session that counts how many times the table asks whether it is idle."""

    looks = 0

    def __init__(self, number: int, used: float) -> None:
        self.id = str(number)
        self.used = used
        self.is_busy = True

    @property
    def is_idle(self) -> bool:
        FakeSession.looks += 1
        return not self.is_busy


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> tuple[SessionTable, list[Any], list[Any], SimpleNamespace]:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: clock.now))
    monkeypatch.setattr(FakeSession, "looks", 0)
    ended: list[Any] = []
    table = SessionTable(5000, None, ended.append)
    sessions: list[Any] = [FakeSession(number, 0.0) for number in range(5000)]
    for session in sessions:
        table.add(session)
    return table, sessions, ended, clock


def test_busy_sessions_cost_a_look_once(table: Any) -> None:
    sessions_table, _, ended, clock = table
    answers = [sessions_table.has_room() for _ in range(1000)]
    assert (any(answers), ended, FakeSession.looks) == (False, [], 5000)
    clock.now += module.MIN_IDLE_SECONDS + 1
    assert not sessions_table.has_room()
    assert FakeSession.looks == 6000


def test_an_idle_session_behind_busy_ones_is_found(table: Any) -> None:
    sessions_table, sessions, ended, _ = table
    sessions[4321].is_busy = False
    assert [sessions_table.has_room() for _ in range(6)] == [False, False, False, False, True, True]
    assert (ended, len(sessions_table)) == ([sessions[4321]], 4999)
