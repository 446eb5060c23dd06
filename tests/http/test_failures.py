"""User functions that fail in an endpoint: the server gets an exception, and responds with the status 500."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.http import Endpoint, Refusal, WsgiEndpoint

from ..support.asgi import Client, post
from ..support.failing import FAILING, FAILING_ASYNC, FAILING_SYNC
from ..support.tables import rows
from .test_wsgi import Answer as WsgiAnswer

ADD = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = b'{"jsonrpc":"2.0","id":1,"result":3}'
FAILED = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}'
NO_RESPOND = [
    lambda context, reply: None,
    lambda context, reply: 200,
    lambda context, reply: ("200", []),
    lambda context, reply: (True, []),
    lambda context, reply: (99, []),
    lambda context, reply: (200, None),
    lambda context, reply: (200, {b"a": b"b"}),
    lambda context, reply: (200, ["ab"]),
    lambda context, reply: (200, [("a", "b")]),
    lambda context, reply: (200, [(b"a", b"b", b"c")]),
    lambda context, reply: asyncio.sleep(0),
]
pytestmark = [
    pytest.mark.virtual_time,
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


def add(a: int, b: int) -> int:
    return a + b


@rows(
    ("option", "function"),
    [
        *[("context", function) for function in FAILING],
        *[("respond", function) for function in (*FAILING_SYNC, *NO_RESPOND)],
    ],
)
async def test_a_function_that_fails_raises_an_exception(option: str, function: Any) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        await post(Endpoint({"add": add}, **{option: function}), ADD)  # type: ignore[misc]


@rows(
    ("option", "function"),
    [("context", lambda environ: asyncio.sleep(0)), *[("respond", function) for function in NO_RESPOND]],
)
def test_a_result_of_another_type_over_wsgi(option: str, function: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        WsgiAnswer(WsgiEndpoint({"add": add}, **{option: function}), ADD)  # type: ignore[misc]


@rows(
    ("kind", "options"),
    [
        (Endpoint, {"respond": FAILING_ASYNC[0]}),
        (Endpoint, {"respond": 200}),
        (Endpoint, {"context": {}}),
        (WsgiEndpoint, {"respond": FAILING_ASYNC[0]}),
        (WsgiEndpoint, {"context": FAILING_ASYNC[0]}),
    ],
)
def test_a_function_of_the_wrong_kind_is_refused(kind: Any, options: Any) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        kind({}, **options)


@rows(
    ("arguments", "error"),
    [
        (("503", "busy"), TypeError),
        ((True, "busy"), TypeError),
        ((200, "busy"), ValueError),
        ((600, "busy"), ValueError),
        ((503, b"busy"), TypeError),
        ((503, "busy", [("retry-after", "1")]), TypeError),
        ((503, "busy", {"retry-after": "1"}), TypeError),
    ],
)
def test_a_refusal_with_an_invalid_argument(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Refusal(*arguments)


@rows("function", FAILING)
async def test_a_method_that_fails(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint({"fail": function})
    fail = ADD.replace(b"add", b"fail")
    assert (await post(endpoint, fail)).body == FAILED
    assert (await post(endpoint, fail.replace(b'"id":1,', b""))).status == 204
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


@rows("function", FAILING)
async def test_a_method_of_a_batch_that_fails(function: Any) -> None:
    endpoint = Endpoint({"fail": function, "add": add})
    fail = ADD.replace(b"add", b"fail")
    batch = b"[%s,%s]" % (fail, ADD)
    if function in FAILING_SYNC[2:]:  # it raises CancelledError
        with pytest.raises(RuntimeError, match="a function raised CancelledError"):
            await post(endpoint, batch)
    else:
        assert (await post(endpoint, batch)).body == b"[%s,%s]" % (FAILED, SUM)


@rows("option", ["context", "method"])
async def test_the_cancellation_of_a_request_passes_on(option: str, caplog: pytest.LogCaptureFixture) -> None:
    entered = asyncio.Event()

    async def wait(*arguments: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    endpoint = Endpoint({"add": wait if option == "method" else add}, context=wait if option == "context" else None)
    client = Client(ADD)
    running = asyncio.create_task(endpoint(client.scope, client.receive, client.send))
    await asyncio.wait_for(entered.wait(), 20)
    running.cancel()
    await asyncio.wait([running], timeout=20)
    assert running.cancelled()
    assert caplog.records == []
