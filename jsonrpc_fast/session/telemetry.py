"""The OpenTelemetry hooks under the name that sessions gave them; their home is `jsonrpc_fast.telemetry`."""

from __future__ import annotations

from ..telemetry import OpenTelemetryHooks, TraceContextHooks

__all__ = ["OpenTelemetryHooks", "TraceContextHooks"]
