"""Responses: the examples of section 7 of the specification, and the response to everything that decoding returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.errors import EncodeError, RpcError
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, Limits

from ..support.places import SPEC
from ..support.tables import rows

EXAMPLES = json.loads((SPEC / "jsonrpc20_examples.json").read_bytes())


def server(impl: ModuleType, call: Any) -> Any:
    """The methods that the examples call."""
    match call.method, call.params:
        case "subtract", [minuend, subtrahend]:
            result = minuend - subtrahend
        case "subtract", {"minuend": minuend, "subtrahend": subtrahend}:
            result = minuend - subtrahend
        case "sum", list(numbers):
            result = sum(numbers)
        case "get_data", None:
            result = ["hello", 5]
        case _:
            if type(call) is impl.Notification:
                return None
            return impl.Response(call.id, error=impl.Error(-32601, "Method not found"))
    return impl.Response(call.id, result)


@rows("example", EXAMPLES, ids=lambda example: example["name"])
def test_examples_of_the_specification(impl: ModuleType, example: dict[str, Any]) -> None:
    reply = impl.respond(impl.decode(example["raw"]), lambda call: server(impl, call))
    if example["response"] is None:
        assert reply == b""
    else:
        assert json.loads(reply) == example["response"]
        assert reply.endswith(b"\n")
        assert reply.count(b"\n") == 1


def test_there_are_fifteen_examples() -> None:
    assert len(EXAMPLES) == 15


def test_elements_of_the_examples(impl: ModuleType) -> None:
    for example in EXAMPLES:
        decoded = impl.decode(example["raw"])
        assert isinstance(decoded, list) is (example["top"] == "batch")
        items = decoded if isinstance(decoded, list) else [decoded]
        if not example["elements"]:
            assert [item.rpc_code for item in items] == [-32700 if example["top"] == "parse_error" else -32600]
            continue
        for item, element in zip(items, example["elements"], strict=True):
            if element["kind"] == "invalid":
                assert (item.rpc_code, item.id) == (element["error_code"], element["id"])
            else:
                expected = {key: value for key, value in element.items() if key != "kind" and value != "absent"}
                assert type(item).__name__.lower() == element["kind"]
                assert item.to_dict() == {"jsonrpc": "2.0", **expected}


def echo(impl: ModuleType) -> Any:
    return lambda call: impl.Response(call.id, call.params) if type(call) is impl.Request else None


REPLIES = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', b'{"jsonrpc":"2.0","id":1,"result":[1]}\n'),
    ('{"jsonrpc":"2.0","id":null,"method":"m"}', b'{"jsonrpc":"2.0","id":null,"result":null}\n'),
    (
        '{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}',
        b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":null}\n',
    ),
    ('{"jsonrpc":"2.0","method":"m"}', b""),
    ('{"jsonrpc":"2.0","id":1,"result":1}', b""),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', b""),
    ('{"jsonrpc":"2.0","id":1,"error":{}}', b""),
    ('{"jsonrpc":"2.0","id":1,"method":"m","result":1}', b""),
    ('{"jsonrpc":"2.0","method":"m","params":1}', b""),
    ("{", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'),
    ("[]", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}\n'),
    (
        '{"jsonrpc":"2.0","id":"x","method":1}',
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"Invalid Request"}}\n',
    ),
    ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', b'[{"jsonrpc":"2.0","id":1,"result":null}]\n'),
    ('[{"jsonrpc":"2.0","method":"m"},{"jsonrpc":"2.0","method":"n"}]', b""),
    ('[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","method":"n"}]', b""),
    (
        (
            '[{"jsonrpc":"2.0","id":2,"method":"m","params":{}},{"jsonrpc":"2.0","method":"n"},1,'
            '{"jsonrpc":"2.0","id":9,"result":1},{"jsonrpc":"2.0","id":1,"method":"m"}]'
        ),
        (
            b'[{"jsonrpc":"2.0","id":2,"result":{}},'
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}},'
            b'{"jsonrpc":"2.0","id":1,"result":null}]\n'
        ),
    ),
]


@rows(("text", "reply"), REPLIES)
def test_replies(impl: ModuleType, text: str, reply: bytes) -> None:
    assert impl.respond(impl.decode(text), echo(impl)) == reply
    assert impl.respond(impl.decode(text), echo(impl), delimited=False) == reply.removesuffix(b"\n")


def test_replies_to_messages_over_a_limit(impl: ModuleType) -> None:
    tiny = JSONRPC.replace(limits=Limits(message_bytes=60, method_bytes=1, batch_items=1))
    refusal = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32600,"message":"Invalid Request"}}\n'
    for text, id in (('{"jsonrpc":"2.0","id":1,"method":"long"}', b"1"), ("[1,2]", b"null"), (" " * 61, b"null")):
        assert impl.respond(impl.decode(text, tiny), echo(impl)) == refusal % id
    assert impl.respond(impl.decode("[{}]", MCP_2025_11_25), echo(impl)) == refusal % b"null"


def test_the_handler_gets_only_calls_in_order(impl: ModuleType) -> None:
    seen: list[Any] = []

    def handler(call: Any) -> Any:
        seen.append(call)
        return impl.Response(getattr(call, "id", None), 1)

    batch = [impl.Request(1, "a"), impl.Response(2, 1), impl.decode("1"), impl.Notification("b"), impl.Request(3, "c")]
    reply = json.loads(impl.respond(batch, handler))
    assert seen == [batch[0], batch[3], batch[4]]
    assert [each["id"] for each in reply] == [1, None, 3]


def test_the_result_of_a_notification_is_dropped(impl: ModuleType) -> None:
    for returned in (None, 1, impl.Response(1, 1)):
        assert impl.respond(impl.Notification("m"), lambda _, returned=returned: returned) == b""


INTERNAL = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}'
SERVED = b'{"jsonrpc":"2.0","id":2,"result":null}'


def check_failure(impl: ModuleType, failing: Callable[[Any], Any], error: bytes, **options: Any) -> None:
    """A failing request affects no other item of its batch, and a failing notification gets no response."""

    def handler(message: Any) -> Any:
        return impl.Response(2) if message == impl.Request(2, "m") else failing(message)

    batch = [impl.Notification("m"), impl.Request(1, "m"), impl.Request(2, "m"), impl.Notification("m")]
    assert impl.respond(impl.Request(1, "m"), handler, **options) == error + b"\n"
    assert impl.respond(impl.Notification("m"), handler, **options) == b""
    assert impl.respond(batch, handler, **options) == b"[" + error + b"," + SERVED + b"]\n"


def raising(error: BaseException | type[BaseException]) -> Callable[[Any], Any]:
    def handler(message: object) -> Any:
        raise error

    return handler


@rows("returned", [None, 1, {}, b"{}"])
def test_a_request_needs_a_response(impl: ModuleType, caplog: pytest.LogCaptureFixture, returned: object) -> None:
    check_failure(impl, lambda _: returned, INTERNAL)
    expected = f"TypeError: the handler must return a Response to a request, not {type(returned).__name__}\n"
    assert caplog.text.count(expected) == 2


@rows("failure", [LookupError, SystemExit, EncodeError, RecursionError])
def test_exceptions_of_the_handler(
    impl: ModuleType, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    check_failure(impl, raising(failure("of the handler")), INTERNAL)
    assert caplog.text.count(f"{failure.__name__}: of the handler\n") == 5
    assert [record.getMessage() for record in caplog.records] == [
        f"the handler of 'm' failed, id {id}" for id in (1, None, None, 1, None)
    ]


@rows(
    ("error", "reply"),
    [
        (RpcError(4, "refused"), b'{"code":4,"message":"refused"}'),
        (RpcError(4, "refused", None), b'{"code":4,"message":"refused","data":null}'),
        (RpcError(-32602, "Invalid params", [1]), b'{"code":-32602,"message":"Invalid params","data":[1]}'),
    ],
)
def test_an_rpc_error_becomes_the_error_response(
    impl: ModuleType, caplog: pytest.LogCaptureFixture, error: RpcError, reply: bytes
) -> None:
    check_failure(impl, raising(error), b'{"jsonrpc":"2.0","id":1,"error":%b}' % reply)
    assert caplog.records == []


@rows("failure", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_keyboard_interrupt_and_cancellations_pass_on(impl: ModuleType, failure: type[BaseException]) -> None:
    for received in (impl.Request(1, "m"), impl.Notification("m"), [impl.Notification("m")]):
        with pytest.raises(failure):
            impl.respond(received, raising(failure))


def test_results_that_cannot_be_written(impl: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    check_failure(impl, lambda message: impl.Response(message.id, object()), INTERNAL)
    check_failure(impl, lambda message: impl.Response(message.id, error=impl.Error(1, "m", object())), INTERNAL)
    check_failure(impl, raising(RpcError(1, "m", object())), INTERNAL)
    check_failure(impl, lambda _: impl.Response(1, 1j), INTERNAL, default=raising(SystemExit))
    check_failure(impl, lambda _: impl.Response(1, 1j), b'{"jsonrpc":"2.0","id":1,"result":"1j"}', default=repr)
    assert "EncodeError: Type is not JSON serializable: object\n" in caplog.text


def test_an_option_that_breaks_lines(impl: ModuleType) -> None:
    for received in (impl.Request(1, "m"), impl.Notification("m"), []):
        with pytest.raises(ValueError, match="framing"):
            impl.respond(received, echo(impl), option=1)


@rows("received", [None, 1, b"{}", {}, (), [1], [[]]])
def test_arguments_that_decode_does_not_return(impl: ModuleType, received: Any) -> None:
    inner = received[0] if isinstance(received, list) else received
    with pytest.raises(TypeError, match=f"^received must be what decode returned, not {type(inner).__name__}$"):
        impl.respond(received, echo(impl))
