"""The subscriptions of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.capabilities import ListChanged, Resources, ServerCapabilities
from jsonrpc_fast.mcp.server.subscriptions import MAX_STREAMS, MAX_URIS, Announcer, ClientSubscriptions

ALL = ServerCapabilities(
    prompts=ListChanged(list_changed=True),
    resources=Resources(subscribe=True, list_changed=True),
    tools=ListChanged(list_changed=True),
)
UPDATED = "notifications/resources/updated"


class Reader:
    """A client that reads, or not."""

    def __init__(self) -> None:
        self.is_blocked = False
        self.told: list[Notification] = []

    def push(self, notifications: Iterable[Notification], destination: Any = None, texts: Any = None) -> None:
        self.told += notifications

    def notifications_of(self, method: str, subject: str) -> list[Notification]:
        return [Notification(method, {"of": subject})]


def subscriptions_of(capabilities: ServerCapabilities, client: Reader | None = None) -> ClientSubscriptions:
    return ClientSubscriptions(capabilities, client or Reader(), Announcer(0.5))


@pytest.mark.virtual_time
async def test_changes_are_sent_once_when_the_client_reads() -> None:
    client = Reader()
    subscriptions = subscriptions_of(ALL, client)
    subscriptions.subscribe("a:b")
    for _ in range(3):
        subscriptions.list_changed("tools")
        subscriptions.resource_updated("a:b")
        subscriptions.resource_updated("a:other")
    client.is_blocked = True
    await asyncio.sleep(2)
    assert client.told == []
    client.is_blocked = False
    await asyncio.sleep(1)
    assert client.told == [
        Notification("notifications/tools/list_changed", {"of": "tools"}),
        Notification(UPDATED, {"of": "a:b"}),
    ]
    assert not subscriptions.changes


def test_a_filter_keeps_what_the_server_declared() -> None:
    filter = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": False,
        "resourceSubscriptions": ["a:b"],
        "laterListChanged": True,
    }
    assert subscriptions_of(ALL).open(1, filter).filter == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["a:b"],
    }
    some = ServerCapabilities(prompts=ListChanged(), resources=Resources(list_changed=True))
    assert subscriptions_of(some).open(1, filter).filter == {}


def test_a_legacy_client_has_one_set_of_uris() -> None:
    subscriptions = subscriptions_of(ALL)
    subscriptions.subscribe("a:b")
    assert list(subscriptions.changed(UPDATED, "a:b", is_legacy=True)) == [Notification(UPDATED, {"uri": "a:b"})]
    assert list(subscriptions.changed(UPDATED, "a:b", is_legacy=False)) == []
    subscriptions.unsubscribe("a:b")
    subscriptions.unsubscribe("a:b")
    assert list(subscriptions.changed(UPDATED, "a:b", is_legacy=True)) == []
    stream = subscriptions.open(1, {"resourceSubscriptions": ["a:b"]})
    assert subscriptions.has("a:b")
    subscriptions.close(stream)
    assert not subscriptions.has("a:b")


class Visited(list[str]):
    """A list that must not be iterated."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the list was iterated")


def test_the_limits() -> None:
    subscriptions = subscriptions_of(ALL)
    with pytest.raises(RpcError, match="notifications/resourceSubscriptions is too large"):
        subscriptions.open(1, {"resourceSubscriptions": Visited(["a:b"] * (MAX_URIS + 1))})
    for number in range(MAX_URIS):
        subscriptions.subscribe(f"a:{number}")
    subscriptions.subscribe("a:0")  # already subscribed
    with pytest.raises(RpcError, match="too many subscriptions"):
        subscriptions.subscribe("a:b")
    for number in range(MAX_STREAMS):
        subscriptions.open(number, {})
    with pytest.raises(RpcError, match="too many subscriptions"):
        subscriptions.open(MAX_STREAMS, {})


@pytest.mark.virtual_time
async def test_changes_of_many_clients_take_several_turns_and_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.mcp.server.subscriptions.NOTIFY_SECONDS", 0.0)
    announcer = Announcer(0.0)
    told: list[Any] = []

    class Listener(Reader):
        def push(self, notifications: Iterable[Notification], destination: Any = None, texts: Any = None) -> None:
            told.append(texts)
            texts["form"] = b"x"

    for _ in range(5):
        ClientSubscriptions(ALL, Listener(), announcer).list_changed("tools")
    counts = []
    while len(told) < 5:
        counts.append(len(told))
        await asyncio.sleep(0)
    assert sorted(set(counts)) == [0, 1, 2, 3, 4]
    assert all(texts is told[0] for texts in told)


@pytest.mark.virtual_time
async def test_a_client_that_cannot_be_notified_keeps_no_other_from_its_changes() -> None:
    class Broken(Reader):
        def push(self, notifications: Iterable[Notification], destination: Any = None, texts: Any = None) -> None:
            raise ZeroDivisionError

    reports: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["exception"]))
    announcer, client = Announcer(0.0), Reader()
    ClientSubscriptions(ALL, Broken(), announcer).list_changed("tools")
    ClientSubscriptions(ALL, client, announcer).list_changed("tools")
    await asyncio.sleep(1)
    assert [type(error) for error in reports] == [ZeroDivisionError]
    assert len(client.told) == 1
