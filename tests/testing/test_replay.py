"""A recorded server, without IO."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jsonrpc_fast import Error, Notification, Request, Response, encode
from jsonrpc_fast.codec import Raw
from jsonrpc_fast.profile import LENIENT
from jsonrpc_fast.testing import Replay
from jsonrpc_fast.testing.recordings import Recorded

from ..support.tables import rows


def line(sender: Any, message: Any) -> Recorded:
    return Recorded(time.time(), sender, Raw(encode(message, delimited=False)), line=7)


def client(*messages: Any) -> list[Recorded]:
    return [line("client", message) for message in messages]


def server(*messages: Any) -> list[Recorded]:
    return [line("server", message) for message in messages]


HELLO, NOTE, DONE = Notification("hello"), Notification("note", [1]), Notification("done")
RECORDING = [
    *server(HELLO),
    *client(Request(1, "a", [1]), Request(2, "b")),
    *server(NOTE, Response(2, "two"), Response(1, "one")),
    *client(Notification("bye")),
    *server(Request("s", "ask")),
    *client(Response("s", True)),
    *server(DONE),
]


def test_a_conversation() -> None:
    """Ids are those of the new requests, and each response follows its own request."""
    replay = Replay(RECORDING)
    assert replay.greeting == [HELLO]
    assert replay.received(Request("x", "b")) == [NOTE, Response("x", "two")]
    assert replay.received(Request(7, "a", [1])) == [Response(7, "one")]
    assert replay.received(Notification("bye")) == [Request("s", "ask")]
    assert replay.received(Response("s", False)) == [DONE]
    replay.check()


def test_errors_and_batches() -> None:
    replay = Replay(
        [*client([Request(1, "a"), Request(2, "a")]), *server([Response(1, error=Error(5, "no")), Response(2, "two")])]
    )
    assert replay.received(Request(8, "a")) == [Response(8, error=Error(5, "no"))]
    assert replay.received(Request(9, "a")) == [Response(9, "two")]
    replay.check()


@rows(
    "message, text",
    [
        (Request(1, "a", [2]), "unexpected: 'a' with [2]"),
        (Request(1, "x"), "unexpected: 'x' with None"),
        (Notification("a", [1]), "unexpected: 'a' with [1]"),
        (Response(5, 1), "unexpected: the response to 5"),
    ],
)
def test_what_does_not_fit(message: Any, text: str) -> None:
    replay = Replay(RECORDING)
    answers: list[Any] = replay.received(message)
    reason = text.replace("unexpected: ", "the recording does not have ")
    errors = [Error(-32601, reason)] if isinstance(message, Request) else []
    assert [answer.error for answer in answers] == errors
    with pytest.raises(AssertionError) as caught:
        replay.check()
    assert str(caught.value).splitlines() == [
        text,
        "missing: 'a' with [1]",
        "missing: 'b' with None",
        "missing: 'bye' with None",
        "missing: the response to 's'",
    ]


def test_what_timers_send_does_not_count() -> None:
    replay = Replay(client(Notification("rpc.goodbye")))
    [answer] = replay.received(Request(1, "rpc.ping"))
    assert isinstance(answer, Response)
    assert answer.is_error
    replay.check()


def test_params_that_differ_on_purpose() -> None:
    recording = [*client(Request(1, "a", {"at": 1, "x": 2})), *server(Response(1, 3))]
    replay = Replay(recording, fits=lambda recorded, present: recorded["x"] == present["x"])
    assert replay.received(Request(1, "a", {"at": 5, "x": 2})) == [Response(1, 3)]


def test_recordings_that_cannot_be_replayed() -> None:
    with pytest.raises(TypeError, match=r"^fits must be callable"):
        Replay([], fits=3)  # type: ignore[arg-type]
    for message, text in ((Raw(b"{}"), "an invalid message"), (None, "no message")):
        with pytest.raises(ValueError, match=f"^line 7 of the recording has {text}$"):
            Replay([Recorded(0.0, "client", message, line=7)])
    null = Recorded(0.0, "client", Raw(b'{"jsonrpc":"2.0","id":1,"method":"a","params":null}'), line=7)
    with pytest.raises(ValueError, match="an invalid message"):
        Replay([null])
    assert Replay([null], profile=LENIENT).received(Request(1, "a")) == []
