"""The public names as type checkers see them. `test_typing.py` checks this file and never runs it.

A line that must be an error has the `ignore` comments of both checkers, which report a comment without an error.
"""

from __future__ import annotations

from typing import Any, assert_type

from jsonrpc_fast import (
    JSONRPC,
    UNSET,
    Classification,
    Decoder,
    Error,
    Framing,
    Message,
    MessageId,
    Notification,
    Params,
    ParseError,
    ParseErrorCode,
    Raw,
    RawMessage,
    Request,
    Response,
    RpcError,
    classify,
    decode,
    encode,
    encode_result,
    parse,
)
from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext
from jsonrpc_fast.hooks import Hooks, Outcome
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient
from jsonrpc_fast.mcp import BlockingClient
from jsonrpc_fast.session import BlockingSession, ReconnectingSession, Session, SessionContext, Stream
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.validator import JsonRpcValidator, Report


def decoding(data: bytes, raw: bool) -> None:
    assert_type(decode(data), Message | list[Message])
    assert_type(decode(data, JSONRPC, raw=False), Message | list[Message])
    assert_type(decode(data, raw=True), RawMessage | list[RawMessage])
    assert_type(decode(data, raw=raw), Message | RawMessage | list[Message] | list[RawMessage])
    assert_type(parse({}), Message | list[Message])
    assert_type(classify(data), Classification)
    decode(1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    decode(data, "lsp")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def eager(item: Message) -> None:
    match item:
        case Request(id, method, params):
            assert_type(id, MessageId)
            assert_type(method, str)
            assert_type(params, dict[str, Any] | list[Any] | None)
        case Notification(method, params):
            assert_type(params, dict[str, Any] | list[Any] | None)
        case Response(id, result, None):
            assert_type(result, Any)
        case Response(id, error=error):
            assert_type(error.code, int | Any)
            print(error.text)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
        case ParseError(code, reason) if item.reply_expected:
            assert_type(code, ParseErrorCode)
            assert_type(reason, str)
            assert_type(item.to_response(), Response)
        case _:
            pass


def raw(item: RawMessage) -> None:
    match item:
        case Request(id, _, params):
            assert_type(id, MessageId)
            assert_type(params, Raw | None)
            if params is not None:
                assert_type(params.decode(len), int)
        case Notification(params=params):
            assert_type(params, Raw | None)
        case Response(result=result, error=None):
            assert_type(bytes(result), bytes)
            print(result.text)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
        case _:
            pass


def narrowing(item: Message | list[Message]) -> Any:
    print(item.id)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(item, Request):
        assert_type(item, Request)
        item.params.keys()  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        if isinstance(item.params, list):
            return sum(item.params)
    if isinstance(item, Response) and item.error is not None:
        return item.error.message
    return None


def read_only(request: Request, response: Response, error: Error, fault: ParseError) -> None:
    request.id = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    request.params = None  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    response.result = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    error.code = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    fault.id = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def construction(params: Params, gone: RpcError) -> None:
    assert_type(Request(1, "m"), Request[None])
    assert_type(Request("a", "m", Raw(b"[]")), Request[Raw])
    assert_type(Request(1, "m", params).params, Params)
    assert_type(Response(1, "x").result, str | Any)
    Response(1, error=Error(1, "m", None))
    Notification("m", {"a": 1})
    Error(gone.code, gone.message, UNSET)
    Request(1, 2)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Request([], "m")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Request(1, "m", "text")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    Notification("m", 5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    Error("1", "m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def takes_any_request(request: Request) -> MessageId:
    return request.id


def encoding(eagerly: Message, rawly: Request[Raw | None]) -> None:
    assert_type(encode(rawly), bytes)
    assert_type(encode([rawly, Response(1, 2)], delimited=False, default=str), bytes)
    assert_type(encode_result(1, rawly.params), bytes)
    assert_type(takes_any_request(Request(1, "m", [2])), MessageId)
    encode(eagerly)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    encode_result(b"1", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def streams(chunk: bytes, framing: Framing) -> None:
    assert_type(Decoder().feed(chunk), list[Message | list[Message]])
    assert_type(Decoder(framing, raw=True).feed(chunk), list[RawMessage | list[RawMessage]])
    assert_type(Decoder(framing, raw=False).close(), list[Message | list[Message]])
    Decoder("lines")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def dispatching(data: str, context: RequestContext, session: SessionContext) -> None:
    handlers = Handlers({"add": lambda a, b: a + b})

    @handlers.register("double")
    def double(value: int) -> int:
        return 2 * value

    @handlers.register("half", typed=True, timeout=5, thread=True)
    def half(value: int) -> float:
        return value / 2

    async def middleware(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        return await call_next(params)

    Handlers(middleware=[middleware], timeout=5)
    handlers.register("m", half, threads=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    assert_type(half(2), float)
    assert_type(double(2), int)
    assert_type(handlers.dispatch(data, JSONRPC, context={}), bytes)
    assert_type(handlers.dispatch(decode(data)), bytes)
    assert_type(await handlers.dispatch_async(data, raw=True), bytes)
    assert_type(context.id, MessageId)
    assert_type(session.is_cancelled, bool)
    handlers.dispatch(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Counter:
    def __init__(self) -> None:
        self.faults = 0

    def fault(self, error: BaseException) -> None:
        self.faults += 1


class NamedFaults:
    def fault(self, error: BaseException, method: str | None, id: MessageId) -> None:
        print(method, id)


class Timer:
    def request_started(self, id: MessageId, method: str) -> str:
        return method

    def request_served(
        self, trace: str | None, id: MessageId, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        print(trace, seconds)


class WrongHooks:
    def fault(self) -> None: ...


async def hooks() -> Hooks:
    one, other = memory_pair()
    Session(one, hooks=Counter())
    Session(one, hooks=NamedFaults())
    Session(other, hooks=Timer())
    Session(other, hooks=None)
    Session(other, hooks=WrongHooks())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Session(other, hooks=print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return Timer()


async def calling(session: Session, client: HttpClient, other: AsyncHttpClient, again: ReconnectingSession) -> None:
    assert_type(await session.call("m"), Any)
    assert_type(await session.call("m", [1], timeout=5), Any)
    assert_type(await session.call("m", {"a": 1}, returns=int, timeout=5), int)
    assert_type(await session.call("m", returns=list[Counter]), list[Counter])
    assert_type(await again.call("m", returns=list[Counter], idle_timeout=1), list[Counter])
    assert_type(client.call("m", returns=dict[str, Counter], headers={}), dict[str, Counter])
    assert_type(await other.call("m", returns=Counter), Counter)
    assert_type(await other.call("m"), Any)
    await session.call("m", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await again.call("m", "a")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    client.call("m", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await session.call("m", wait=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await session.notify("m", 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.notify("m", idle_timeout=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert_type(await again.call_batch([("m", [1]), Notification("n")], extra={}), list[Any])
    assert_type(session.stream("m", max_items=5), Stream)


def waiting(session: BlockingSession, client: HttpClient, mcp: BlockingClient) -> None:
    assert_type(session.call("m", [1], timeout=5), Any)
    assert_type(session.call("m", returns=list[Counter], on_progress=print), list[Counter])
    assert_type(client.call_batch([("m", [1])], returns=int, headers={}), list[Any])
    assert_type(mcp.call("m", returns=int), int)
    assert_type(mcp.call_tool("add", {"a": 1}, timeout=5), dict[str, Any])
    assert_type(mcp.list_tools(), list[dict[str, Any]])
    session.notify("m")
    for _ in session.stream("m", idle_timeout=5):
        pass
    session.call("m", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    session.stream("m", items=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    mcp.call_tool("add", wait=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def validating(obj: object) -> None:
    assert_type(JsonRpcValidator(JSONRPC).validate_request(obj), Report)
    assert_type(JsonRpcValidator.validate_request(obj), Report)
    assert_type(JsonRpcValidator.validate_batch(obj)["valid"], bool)


def raising() -> None:
    try:
        encode_result(1, object())
    except EncodeError as error:
        assert_type(str(error), str)
