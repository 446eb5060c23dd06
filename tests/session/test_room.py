"""The account of an inbox: its bounds are exact, and one message always has room."""

from __future__ import annotations

from jsonrpc_fast.session.room import Account, Bounds, Room

from ..support.tables import rows


@rows(
    ("kept", "size", "has_room"),
    [
        ([], 1000, True),
        ([1000], 1, False),
        ([60], 40, True),
        ([60], 41, False),
        ([1, 1], 1, True),
        ([1, 1, 1], 1, False),
    ],
)
def test_an_account_is_bounded(kept: list[int], size: int, has_room: bool) -> None:
    account = Account(3, 100)
    for each in kept:
        assert account.has_room(each)
        account.keep(each)
    assert account.has_room(size) is has_room
    assert (account.items, account.size) == (len(kept), sum(kept))


@rows(
    ("others", "kept", "size", "has_room"),
    [
        ([], [50], 50, True),
        ([90], [], 50, True),
        ([90], [1], 10, False),
        ([50], [1], 49, True),
        ([0, 0], [0], 0, False),
    ],
)
def test_an_account_of_a_full_group_keeps_one_message(
    others: list[int], kept: list[int], size: int, has_room: bool
) -> None:
    shared = Account(3, 100)
    other, account = Account(9, 900, shared), Account(9, 900, shared)
    for each in others:
        other.keep(each)
    for each in kept:
        account.keep(each)
    assert account.has_room(size) is has_room
    for each in kept:
        account.drop(each)
    assert (shared.items, shared.size, account.items) == (len(others), sum(others), 0)


def test_an_overload_ends_when_half_of_the_room_is_free() -> None:
    room = Room(Bounds(max_inbox=4))
    room.is_overloaded = True
    for _ in range(4):
        room.waiting.keep(0)
    seen = []
    for _ in range(3):
        seen.append((room.has_room(0), room.is_overloaded))
        room.waiting.drop(0)
    assert seen == [(False, True), (True, True), (True, False)]
