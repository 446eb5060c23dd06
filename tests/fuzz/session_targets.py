"""Fuzz targets of engines and sessions: hostile streams, with calls in flight and functions of all kinds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable
from typing import Any, Final

from jsonrpc_fast import JSONRPC, LSP, MCP_2025_11_25, Decoder, Notification, Profile
from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Call, Convention, InboundRequest, LspConvention, McpConvention, Session
from jsonrpc_fast.session.conventions import Withdrawn, look_ahead

from ..support.engines import Cancelled, End, Fault
from ..support.waiting import results_of
from .codec_targets import chunks, head
from .differential import seeds
from .mutate import message
from .target import CANARY, Target, check
from .wire import Replies, WireTransport, check_replies, lines, read_items, run

_SEEDS: Final = seeds()
_KINDS: Final[tuple[tuple[type[Convention], Profile], ...]] = (
    (Convention, JSONRPC),
    (LspConvention, LSP.replace(batches=True)),
    (McpConvention, MCP_2025_11_25),
    (McpConvention, MCP_2025_11_25.replace(batches=True)),
)
_CONVERSATION: Final = (
    b'{"jsonrpc":"2.0","id":%d,"result":{}}',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"c4n4ry"}}',
    b'{"jsonrpc":"2.0","id":%d}',
    b'{"jsonrpc":"2.0","id":%d,"result":1,"error":null}',
    b'{"jsonrpc":"2.0","id":%d,"method":"aa","params":{"c4n4ry":1}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"echo"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"fail!","params":["c4n4ry"]}',
    b'{"jsonrpc":"2.0","id":%d,"method":"refuses"}',
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}',
    b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":%d,"value":"c4n4ry"}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}%.0d',
)


def engine(data: bytes) -> Hashable:
    """Each request gets one response, no other message gets one, and each call settles once."""
    if len(data) < 2:
        return None
    make_convention, profile = _KINDS[data[0] % 4]
    answers_late = bool(data[0] & 4)
    convention = make_convention()
    end = End(
        decoder=Decoder("newline", profile),
        convention=convention,
        response_policy="never" if data[0] & 16 else "always",
    )
    calls = [end.call("method", None, 0.0, on_progress=str)[0] for _ in range(3)]
    end.engine.calls.cancel(calls[2])
    batch, _ = end.call_batch([("one", None), Notification("two"), ("three", [])], 0.0)
    calls += [call for call in batch if call is not None]
    sent = bytearray()
    open_requests: list[InboundRequest] = []
    settled: list[Call] = []
    dropped = 0
    kinds = set()

    def handle(step: Any) -> None:
        nonlocal dropped
        kinds.add(type(step).__name__)
        if isinstance(step, InboundRequest):
            if answers_late:
                open_requests.append(step)
            else:
                dropped += step.is_cancelled and convention.cancelled_error is None
                sent.extend(end.answer(step, {"result": True}))
        elif isinstance(step, Fault):
            check(CANARY not in str(step.error), "the input is in a fault")
            kinds.add(str(getattr(step.error, "code", "")))
            sent.extend(step.response)
        elif isinstance(step, Cancelled):
            check(step.request.is_cancelled, "not cancelled")
        elif isinstance(step, Call):
            settled.append(step)
        elif isinstance(step, bytes):
            sent.extend(step)

    stream = data[2:]
    for number, piece in enumerate(chunks(stream, data[1])):
        for step in end.receive(piece, float(number)):
            handle(step)
    for step in end.receive_end():
        handle(step)
    for request in open_requests:
        if request.is_cancelled:
            dropped += convention.cancelled_error is None
            sent += end.respond_cancelled(request)
        else:
            sent += end.answer(request, None)
    check(len(settled) == len(set(map(id, settled))), "a call settled twice", settled)
    check(not len(end.serving), "requests are left", len(end.serving))
    settled += end.lose()
    check({id(call) for call in settled} == {id(call) for call in calls} - {id(calls[2])}, "calls", settled)
    if convention.cancelled_error is None:
        dropped += _withdrawn_in_batches(stream, profile, convention)
    check_replies(read_items(stream, profile), Replies(bytes(sent)), dropped)
    return frozenset(kinds)


def _withdrawn_in_batches(stream: bytes, profile: Profile, convention: Convention) -> int:
    """Return how many requests never begin, because their cancellation follows in the same batch."""
    decoder = Decoder("newline", profile)
    batches = [item for item in [*decoder.feed(stream), *decoder.close()] if isinstance(item, list)]
    for batch in batches:
        look_ahead(convention, batch)
    return sum(isinstance(item, Withdrawn) for batch in batches for item in batch)


class _AnyMethod(Handlers):
    """A function for every method, of a kind that depends on the length of its name."""

    def find(self, method: str) -> Any:
        return super().find(("sync", "async", "failing", "refusing", "unknown")[len(method) % 5])


def _sync(*_: Any, **__: Any) -> Any:
    return {"text": "é\n"}


async def _async(*_: Any, **__: Any) -> Any:
    for _turn in range(3):
        await asyncio.sleep(0)
    return [1.5, None]


async def _failing(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("failed")


def _refusing(*_: Any, **__: Any) -> Any:
    raise RpcError(-32000, "refused", {"why": object()})


HANDLERS: Final = _AnyMethod({"sync": _sync, "async": _async, "failing": _failing, "refusing": _refusing})
"""Functions for methods of any name."""


def session(data: bytes) -> Hashable:
    """Like `engine`, with a session and its functions, which leave no task and no timer."""
    return run(_session(data)) if len(data) >= 2 else None


async def _session(data: bytes) -> Hashable:
    make_convention, profile = _KINDS[data[0] % 4]
    wire = WireTransport(profile)
    served = Session(
        wire,
        HANDLERS,
        convention=make_convention(),
        response_policy="never" if data[0] & 16 else "always",
        max_handlers=2 if data[0] & 32 else 256,
        max_inbox=3 if data[0] & 64 else 1000,
        timeout=None,
    )
    await served.start()
    calls = [asyncio.ensure_future(served.call("method", on_progress=_ignore)) for _ in range(3)]
    await asyncio.sleep(0)
    calls[2].cancel()
    await asyncio.sleep(0)
    await wire.play(data[2:], data[1])
    await served.wait_closed()
    outcomes = await results_of(*calls)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            allowed = (RpcError, ConnectionLost, asyncio.CancelledError, ValueError)
            check(isinstance(outcome, allowed), "not a documented exception", outcome)
    replies = Replies(bytes(wire.sent))
    items = read_items(data[2:], profile)
    cancels = sum(isinstance(item, Notification) and item.method == "notifications/cancelled" for item in items)
    check_replies(items, replies, cancels)
    check(served.dropped_requests == 0, "dropped_requests", served.dropped_requests)
    kinds = {str(getattr(item, "code", type(item).__name__)) for item in items}
    return tuple(sorted(kinds)[:4]), tuple(type(outcome).__name__ for outcome in outcomes), data[0] & 0x6F


def _ignore(_: Any) -> None:
    pass


def make_stream(rng: random.Random) -> bytes:
    """Make a stream of messages that refer to each other's ids."""
    messages = []
    for _ in range(rng.randrange(1, 7)):
        if rng.random() < 0.7:
            texts = [rng.choice(_CONVERSATION) % rng.randrange(8) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
            messages.append(texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]")
        else:
            messages.append(message(rng, _SEEDS))
    return head(rng) + lines(rng, messages)


TARGETS: Final[dict[str, Target]] = {"engine": Target(engine, make_stream), "session": Target(session, make_stream)}
"""The targets of sessions, by name."""
