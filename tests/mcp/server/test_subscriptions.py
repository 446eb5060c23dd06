"""The subscriptions of one connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.capabilities import ListChanged, Resources, ServerCapabilities
from jsonrpc_fast.mcp.server.subscriptions import MAX_STREAMS, MAX_URIS, ClientSubscriptions

ALL = ServerCapabilities(
    prompts=ListChanged(list_changed=True),
    resources=Resources(subscribe=True, list_changed=True),
    tools=ListChanged(list_changed=True),
)
UPDATED = "notifications/resources/updated"


def test_a_filter_keeps_what_the_server_declared() -> None:
    filter = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": False,
        "resourceSubscriptions": ["a:b"],
        "laterListChanged": True,
    }
    assert ClientSubscriptions(ALL).open(1, filter).filter == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["a:b"],
    }
    some = ServerCapabilities(prompts=ListChanged(), resources=Resources(list_changed=True))
    assert ClientSubscriptions(some).open(1, filter).filter == {}


def test_a_legacy_client_has_one_set_of_uris() -> None:
    subscriptions = ClientSubscriptions(ALL)
    subscriptions.subscribe("a:b")
    assert list(subscriptions.resource_updated("a:b", is_legacy=True)) == [Notification(UPDATED, {"uri": "a:b"})]
    assert list(subscriptions.resource_updated("a:b", is_legacy=False)) == []
    subscriptions.unsubscribe("a:b")
    subscriptions.unsubscribe("a:b")
    assert list(subscriptions.resource_updated("a:b", is_legacy=True)) == []
    stream = subscriptions.open(1, {"resourceSubscriptions": ["a:b"]})
    assert subscriptions.has("a:b")
    subscriptions.close(stream)
    assert not subscriptions.has("a:b")


class Visited(list[str]):
    """A list that must not be iterated."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the list was iterated")


def test_the_limits() -> None:
    subscriptions = ClientSubscriptions(ALL)
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
