"""Spans and durations, as an exporter receives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from jsonrpc_fast.errors import CallTimeout, RpcError
from jsonrpc_fast.session import SessionContext

from ..support.session_pairs import session_and_wire, sessions

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jsonrpc_fast.session.telemetry import OpenTelemetryHooks

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
    # What a handler calls is a part of what it serves, and nothing else is.
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
    assert 0.02 * 3 <= client.sum < 2
    assert client.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert dict(client.attributes) == {
        "rpc.system.name": "jsonrpc",
        "rpc.method": "wait",
        "server.address": "memory",
    }
