"""Spans and durations, as an exporter receives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, Notification, Raw, Request
from jsonrpc_fast.errors import CallTimeout, EncodeError, RpcError
from jsonrpc_fast.session import Convention, McpConvention, Session, SessionContext
from jsonrpc_fast.transports import memory_pair

from ..support.session_pairs import session_and_wire, sessions
from ..support.waiting import settle

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jsonrpc_fast.adapters.opentelemetry import OpenTelemetryHooks, TraceContextHooks

pytestmark = pytest.mark.usefixtures("loop")


class Telemetry:
    """Hooks, and what they exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.hooks = OpenTelemetryHooks(
            tracer_provider=self.tracers, meter_provider=self.meters, attributes={"server.address": "memory"}
        )

        self.tracing = TraceContextHooks(tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.kind is kind]

    def points(self) -> dict[tuple[str, str], Any]:
        """Measurements by metric and method."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            (metric.name, str((point.attributes or {})["rpc.method"])): point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    found = Telemetry()
    yield found
    found.tracers.shutdown()
    found.meters.shutdown()


async def test_spans_of_a_call(telemetry: Telemetry) -> None:
    async def work(context: SessionContext, depth: int) -> int:
        await asyncio.sleep(0)
        return 0 if depth == 0 else 1 + await context.session.call("work", [depth - 1])

    options = {"hooks": telemetry.hooks}
    async with sessions({"work": work}, {"work": lambda depth: depth}, options, **options) as (client, _):
        assert await client.call("work", [1]) == 1
    inner, outer = telemetry.spans(SpanKind.CLIENT)
    inner_server, outer_server = telemetry.spans(SpanKind.SERVER)
    assert {span.name for span in (inner, outer, inner_server, outer_server)} == {"work"}
    expected = {
        "rpc.system.name": "jsonrpc",
        "rpc.method": "work",
        "jsonrpc.protocol.version": "2.0",
        "jsonrpc.request.id": "1",
        "server.address": "memory",
    }
    assert dict(outer.attributes or {}) == dict(outer_server.attributes or {}) == expected
    assert outer.status.status_code is StatusCode.UNSET
    # The calls of a handler are children of the request that it serves, and no others are.
    assert inner.parent is not None
    assert outer_server.context is not None
    assert inner.parent.span_id == outer_server.context.span_id
    assert outer.parent is outer_server.parent is inner_server.parent is None


async def test_errors(telemetry: Telemetry) -> None:
    def refuse() -> None:
        raise RpcError(-32001, "sesame", "sesame")

    options = {"hooks": telemetry.hooks}
    async with sessions({"refuse": refuse}, None, options, **options) as (client, _):
        for method in ("refuse", "made up"):
            with pytest.raises(RpcError):
                await client.call(method)
    client_spans, server_spans = telemetry.spans(SpanKind.CLIENT), telemetry.spans(SpanKind.SERVER)
    for span, code in zip([*client_spans, *server_spans], ["-32001", "-32601"] * 2, strict=True):
        assert span.attributes is not None
        assert span.attributes["rpc.response.status_code"] == span.attributes["error.type"] == code
        assert span.status.status_code is StatusCode.ERROR
        assert "sesame" not in span.to_json()
    assert [span.name for span in server_spans] == ["refuse", "_OTHER"]
    assert (server_spans[1].attributes or {})["rpc.method_original"] == "made up"


@pytest.mark.virtual_time
async def test_local_faults(telemetry: Telemetry) -> None:
    async with session_and_wire(hooks=telemetry.hooks) as (session, _):
        with pytest.raises(CallTimeout):
            await session.call("timeout", timeout=0)
        session.cancel(session.call_soon("cancelled"))
        session.call_soon("lost")
    assert [(span.attributes or {})["error.type"] for span in telemetry.spans(SpanKind.CLIENT)] == [
        "jsonrpc_fast.errors.CallTimeout",
        "jsonrpc_fast.errors.CallCancelled",
        "jsonrpc_fast.errors.ConnectionLost",
    ]


@pytest.mark.virtual_time
async def test_durations(telemetry: Telemetry) -> None:
    options = {"hooks": telemetry.hooks}
    async with sessions({"wait": lambda: asyncio.sleep(0.02)}, None, options, **options) as (caller, _):
        for _ in range(3):
            await caller.call("wait")
        await caller.notify("wait")
    points = telemetry.points()
    client = points["rpc.client.call.duration", "wait"]
    server = points["rpc.server.call.duration", "wait"]
    assert (client.count, server.count) == (3, 4)
    assert client.sum == pytest.approx(0.06)
    assert client.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert dict(client.attributes) == {"rpc.system.name": "jsonrpc", "rpc.method": "wait", "server.address": "memory"}


# The trace context.

KEEP = JSONRPC.replace(extra_members="keep")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE_ID, SPAN_ID = int(PARENT[3:35], 16), int(PARENT[36:52], 16)
WHERE = [(Convention(), "beside"), (McpConvention(), "meta")]


def carried(message: Any, where: str) -> dict[str, Any]:
    """Return the trace context of a received message."""
    found = message.extra if where == "beside" else (message.params or {}).get("_meta")
    return {name: value for name, value in (found or {}).items() if name.startswith("trace")}


def parent_in(traceparent: str) -> tuple[int, int]:
    version, trace_id, span_id, _ = traceparent.split("-")
    assert version == "00"
    return int(trace_id, 16), int(span_id, 16)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("convention", "where"), WHERE)
async def test_calls_and_notifications_carry_the_trace_context(
    telemetry: Telemetry, convention: Convention, where: str
) -> None:
    async with session_and_wire(hooks=telemetry.tracing, convention=convention, timeout=0, profile=KEEP) as (
        session,
        wire,
    ):
        with telemetry.tracers.get_tracer("test").start_as_current_span("outer") as outer:
            with pytest.raises(CallTimeout):
                await session.call("call", {"a": 1, "_meta": {"b": 2}})
            session.notify_soon("notify")
            await session.call_batch([("first", {}), Notification("second"), ("third", None)])
        received = []
        while len(received) < 3:
            received.append(await wire.next())
            if getattr(received[-1], "method", "") == "notifications/cancelled":
                received.pop()
    call, notification, batch = received
    spans = {span.name: span for span in telemetry.spans(SpanKind.CLIENT)}
    assert spans.keys() == {"call", "first", "third"}
    for message in (call, batch[0], batch[2]):
        span = spans[message.method].context
        assert span is not None
        assert parent_in(carried(message, where)["traceparent"]) == (span.trace_id, span.span_id)
        assert span.trace_id == outer.get_span_context().trace_id
    for message in (notification, batch[1]):
        expected = outer.get_span_context().trace_id, outer.get_span_context().span_id
        assert parent_in(carried(message, where)["traceparent"]) == expected
    assert call.params["a"] == 1
    assert call.params["_meta"]["b"] == 2


@pytest.mark.parametrize(("convention", "where"), WHERE)
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_both_sides_are_in_one_trace(
    telemetry: Telemetry, convention: Convention, where: str, raw: bool, is_async: bool
) -> None:
    async def later(**_: Any) -> int:
        await asyncio.sleep(0)
        return 5

    one, other = memory_pair(profile=KEEP, raw=raw)
    options: Any = {"hooks": telemetry.tracing, "convention": convention}
    handlers = {"work": later if is_async else lambda **_: 5}
    async with Session(one, handlers, **options), Session(other, **options) as client:
        result: Any = await client.call("work")
        assert (result.decode() if isinstance(result, Raw) else result) == 5
        assert len(await client.call_batch([("work", None)])) == 1
    client_spans, server_spans = telemetry.spans(SpanKind.CLIENT), telemetry.spans(SpanKind.SERVER)
    assert len(client_spans) == len(server_spans) == 2
    for span, parent in zip(server_spans, client_spans, strict=True):
        assert span.parent is not None
        assert parent.context is not None
        assert (span.parent.trace_id, span.parent.span_id) == (parent.context.trace_id, parent.context.span_id)
        assert span.parent.is_remote


@pytest.mark.parametrize(
    ("members", "is_read", "state"),
    [
        ({"traceparent": PARENT}, True, {}),
        ({"traceparent": PARENT, "tracestate": "a=1,b=2"}, True, {"a": "1", "b": "2"}),
        ({"traceparent": PARENT, "tracestate": "a=" + "1" * 600}, True, {}),
        ({"traceparent": PARENT, "tracestate": 5}, True, {}),
        ({"traceparent": PARENT.upper()}, False, {}),
        ({"traceparent": "00-" + "0" * 32 + PARENT[35:]}, False, {}),
        ({"traceparent": PARENT * 1000}, False, {}),
        ({"traceparent": 5}, False, {}),
        ({"traceparent": [PARENT]}, False, {}),
        ({"tracestate": "a=1"}, False, {}),
        ({}, False, {}),
    ],
)
@pytest.mark.parametrize(("convention", "where"), WHERE)
async def test_what_a_peer_sends(
    telemetry: Telemetry, convention: Convention, where: str, members: Any, is_read: bool, state: Any
) -> None:
    async with session_and_wire({"m": lambda **_: 1}, hooks=telemetry.tracing, convention=convention, profile=KEEP) as (
        _,
        wire,
    ):
        for kind in (lambda *rest, **extra: Request(1, *rest, **extra), Notification):
            if where == "beside":
                wire.transport.send(kind("m", None, extra=members or None))
            else:
                wire.transport.send(kind("m", {"_meta": members}))
        await wire.next()
        await settle()
    spans = telemetry.spans(SpanKind.SERVER)
    assert len(spans) == 2
    for span in spans:
        if is_read:
            assert span.parent is not None
            assert (span.parent.trace_id, span.parent.span_id) == (TRACE_ID, SPAN_ID)
            assert dict(span.parent.trace_state) == state
        else:
            assert span.parent is None


@pytest.mark.parametrize("params", [{"_meta": 5}, [1], None])
async def test_params_without_a_place_for_it_stay_as_they_are(telemetry: Telemetry, params: Any) -> None:
    received = []
    async with session_and_wire(hooks=telemetry.tracing, convention=McpConvention()) as (session, wire):
        session.notify_soon("m", params)
        received.append(await wire.next())
    assert received == [Notification("m", params)]  # without a current span there is nothing to carry


async def test_without_these_hooks_nothing_is_added(telemetry: Telemetry) -> None:
    with telemetry.tracers.get_tracer("test").start_as_current_span("outer"):
        async with session_and_wire(hooks=telemetry.hooks, profile=KEEP) as (session, wire):
            session.call_soon("m", [1])
            request = await wire.next()
            wire.transport.send(Request(1, "m", extra={"traceparent": PARENT}))
    assert (request.params, request.extra) == ([1], None)


async def test_a_call_that_cannot_be_sent(telemetry: Telemetry) -> None:
    async with session_and_wire(hooks=telemetry.tracing, default=None) as (session, wire):
        for params in ([1j], 5):
            with pytest.raises((EncodeError, TypeError)):
                await session.call("m", params)
        assert session.is_idle
    assert telemetry.spans(SpanKind.CLIENT) == []
    async with session_and_wire(hooks=telemetry.tracing, default=str) as (session, wire):
        session.notify_soon("m", [1j])
        assert (await wire.next()).params == ["1j"]
