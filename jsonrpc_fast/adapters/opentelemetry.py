"""OpenTelemetry hooks: a span and a duration for each call and each request of a session. Needs the extra `otel`.

    Session(transport, handlers, hooks=OpenTelemetryHooks())

Names follow the semantic conventions for JSON-RPC (https://opentelemetry.io/docs/specs/semconv/rpc/json-rpc/), in the
version in which `rpc.system.name` has replaced `rpc.system`: spans of kind CLIENT and SERVER, named after the method,
and the histograms `rpc.client.call.duration` and `rpc.server.call.duration`, in seconds. Payloads and error texts are
not recorded. Requests that no handler served are recorded under the method `_OTHER`, because a peer can invent any
number of method names.

`TraceContextHooks` also connects the spans of both sides: calls and notifications carry `traceparent` and `tracestate`
(https://www.w3.org/TR/trace-context/), and the spans of requests continue the trace of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as _missing:
    raise ImportError('OpenTelemetry needs the extra `otel`: pip install "jsonrpc_fast[otel]"') from _missing

from ..errors import CallCancelled, CallTimeout, ConnectionLost, ParseError
from ..hooks import Outcome
from ..types import MessageId

__all__ = ["OpenTelemetryHooks", "TraceContextHooks"]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.40.0"
_OTHER: Final = "_OTHER"
# The bucket boundaries that the semantic conventions recommend for durations of calls.
_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_ERROR_TYPES: Final = {
    outcome: f"{error.__module__}.{error.__qualname__}"
    for outcome, error in {
        Outcome.FAULT: ParseError,
        Outcome.TIMEOUT: CallTimeout,
        Outcome.CANCELLED: CallCancelled,
        Outcome.LOST: ConnectionLost,
    }.items()
}


class OpenTelemetryHooks:
    """Hooks for one or more sessions.

    Args:
        tracer_provider: The tracer provider; by default the application's own.
        meter_provider: The meter provider; by default the application's own.
        attributes: Added to every span and measurement, such as `server.address`.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        attributes: Mapping[str, str | int] | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("jsonrpc_fast", None, tracer_provider, _SCHEMA)
        meter = metrics.get_meter("jsonrpc_fast", "", meter_provider, _SCHEMA)
        self._attributes: dict[str, Any] = {"rpc.system.name": "jsonrpc", **(attributes or {})}
        self._client_duration = meter.create_histogram(
            "rpc.client.call.duration",
            "s",
            "Measures the duration of an outgoing Remote Procedure Call (RPC).",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._server_duration = meter.create_histogram(
            "rpc.server.call.duration",
            "s",
            "Measures the duration of an incoming Remote Procedure Call (RPC).",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )

    def call_started(self, id: int | str, method: str) -> Span:
        return self._start(id, method, SpanKind.CLIENT)

    def call_settled(
        self, span: Span, id: int | str, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        self._end(span, method, outcome, code, seconds, self._client_duration)

    def request_started(self, id: MessageId, method: str) -> Span:
        return self._serve(id, method, None)

    def _serve(self, id: MessageId, method: str, parent: Context | None) -> Span:
        span = self._start(id, method, SpanKind.SERVER, parent)
        # The session runs the handler in its own `contextvars` context, which ends with the handler, so nothing has to
        # be detached.
        context.attach(trace.set_span_in_context(span))
        return span

    def request_served(
        self, span: Span | None, id: MessageId, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        # No handler ran: the peer may have invented the method, which would create another time series.
        if span is None:
            span = self._start(id, _OTHER, SpanKind.SERVER)
            span.set_attribute("rpc.method_original", method)
            method = _OTHER
        self._end(span, method, outcome, code, seconds, self._server_duration)

    def _start(self, id: MessageId, method: str, kind: SpanKind, parent: Context | None = None) -> Span:
        attributes = {**self._attributes, "rpc.method": method, "jsonrpc.protocol.version": "2.0"}
        if id is not None:
            attributes["jsonrpc.request.id"] = str(id)
        return self._tracer.start_span(method, context=parent, kind=kind, attributes=attributes)

    def _end(
        self, span: Span, method: str, outcome: Outcome, code: int | None, seconds: float, duration: Histogram
    ) -> None:
        found: dict[str, Any] = {}
        if code is not None:
            found = {"error.type": str(code), "rpc.response.status_code": str(code)}
        elif outcome is not Outcome.RESULT:
            found = {"error.type": _ERROR_TYPES[outcome]}
        if found:
            span.set_attributes(found)
            span.set_status(StatusCode.ERROR)
        duration.record(seconds, {**self._attributes, "rpc.method": method, **found}, trace.set_span_in_context(span))
        span.end()


class TraceContextHooks(OpenTelemetryHooks):
    """Hooks that also send and read the trace context.

    It is next to the members of JSON-RPC, or where the convention of the session puts it: for MCP, in `_meta`. To read
    it next to the members of JSON-RPC, the transport needs `Profile(extra_members="keep")`. A peer that refuses unknown
    members refuses such messages, and an untrusted peer can choose the trace to which its requests belong.
    """

    def call_prepared(self, id: int | str | None, method: str) -> tuple[Span | None, dict[str, str]]:
        span = None if id is None else self._start(id, method, SpanKind.CLIENT)
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, None if span is None else trace.set_span_in_context(span))
        return span, carrier

    def request_received(self, id: MessageId, method: str, carrier: dict[str, str]) -> Span:
        # Maximum characters of a member: W3C Trace Context does not require more.
        carrier = {name: value for name, value in carrier.items() if len(value) <= 512}
        # Without a carrier there is nothing to parse, and an empty context would hide the current span.
        parent = _PROPAGATOR.extract(carrier) if carrier else None
        return self._serve(id, method, parent or None)
