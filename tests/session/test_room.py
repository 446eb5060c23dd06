"""The account of an inbox: its bounds are exact, and one message always has room."""

from __future__ import annotations

from jsonrpc_fast.session.room import Bounds, Room

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
def test_what_is_served_alongside_is_bounded(kept: list[int], size: int, has_room: bool) -> None:
    room = Room(Bounds(max_inbox=3, inbox_bytes=100))
    for each in kept:
        assert room.begin_alongside(each)
    assert room.begin_alongside(size) is has_room
    assert (room.alongside, room.alongside_bytes) == (len(kept) + has_room, sum(kept) + size * has_room)


@rows(
    ("items", "kept", "size", "has_room"),
    [(0, 0, 1000, True), (1, 60, 40, True), (1, 60, 41, False), (2, 2, 1, True), (3, 3, 1, False)],
)
def test_what_waits_is_bounded(items: int, kept: int, size: int, has_room: bool) -> None:
    room = Room(Bounds(max_inbox=3, inbox_bytes=100))
    room.keep(kept)
    assert room.has_room(items, size) is has_room


def test_an_overload_ends_when_half_of_the_room_is_free() -> None:
    room = Room(Bounds(max_inbox=4))
    room.is_overloaded = True
    assert [(room.has_room(items, 0), room.is_overloaded) for items in (4, 3, 2)] == [
        (False, True),
        (True, True),
        (True, False),
    ]
