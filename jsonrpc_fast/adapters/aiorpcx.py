"""The protocols of aiorpcX, for ElectrumX and Electrum, on this package's codec. Needs aiorpcX.

A session names the connection that it uses:

    class ServerSession(aiorpcx.RPCSession):
        def default_connection(self):
            return JSONRPCConnection(JSONRPCv2)    # both from this module; the default is JSONRPCConnection()

`install` makes sessions use these classes if they name none, or name aiorpcX's own.

Rules:
  - The classes are subclasses of aiorpcX's own. They decode messages that are valid by this package's rules. All other
    messages go to aiorpcX, so that faults, codes and texts stay the same.
  - JSON-RPC 1.0, whose responses have both members, is checked by aiorpcX, on dicts that orjson reads.
"""

from __future__ import annotations

from typing import Any, Final

from ..codec import BACKEND, Notification, Request, Response, decode
from ..profile import JSONRPC
from . import json, replace

try:
    from aiorpcx import jsonrpc  # type: ignore[import-untyped]
except ImportError as _missing:
    raise ImportError('this adapter needs aiorpcX: pip install "aiorpcX>=0.23"') from _missing

__all__ = ["JSONRPCAutoDetect", "JSONRPCConnection", "JSONRPCLoose", "JSONRPCv1", "JSONRPCv2", "install"]

# aiorpcX reads integers of any width, as the json module does.
PROFILE: Final = JSONRPC.replace(name="aiorpcx")


class _Fast(jsonrpc.JSONRPC):  # type: ignore[misc]
    """A mixin for aiorpcX's protocol classes."""

    _message_to_payload = classmethod(json.loads_or(jsonrpc.JSONRPC._message_to_payload.__func__))

    @classmethod
    def encode_payload(cls, payload: Any) -> bytes:
        """Return a payload as JSON. Raises ProtocolError."""
        text = json.to_bytes(payload)
        return super().encode_payload(payload) if text is None else text


class _FastDecoding(_Fast):
    """A mixin for the protocols that accept JSON-RPC 2.0."""

    if BACKEND == "cython":  # the pure backend is slower than aiorpcX

        @classmethod
        def message_to_item(cls, message: bytes) -> tuple[Any, Any]:
            """Return the item in a message and its id. Raises ProtocolError."""
            received: Any = decode(message, PROFILE)
            kind = type(received)
            if kind is Response:
                error = received.error
                result = received.result if error is None else jsonrpc.RPCError(error.code, error.message)
                return jsonrpc.Response(result), received.id
            # aiorpcX treats a request with the id null as a notification; its own code handles that.
            if kind is Request and received.id is not None:
                return jsonrpc.Request(received.method, [] if received.params is None else received.params), received.id
            if kind is Notification:
                return jsonrpc.Notification(received.method, [] if received.params is None else received.params), None
            return super().message_to_item(message)  # type: ignore[no-any-return]


class JSONRPCv1(_Fast, jsonrpc.JSONRPCv1):  # type: ignore[misc]
    """`aiorpcx.JSONRPCv1` on this package's codec."""


class JSONRPCv2(_FastDecoding, jsonrpc.JSONRPCv2):  # type: ignore[misc]
    """`aiorpcx.JSONRPCv2` on this package's codec."""


class JSONRPCLoose(_FastDecoding, jsonrpc.JSONRPCLoose):  # type: ignore[misc]
    """`aiorpcx.JSONRPCLoose` on this package's codec."""


class JSONRPCAutoDetect(JSONRPCv2, jsonrpc.JSONRPCAutoDetect):  # type: ignore[misc]
    """`aiorpcx.JSONRPCAutoDetect` on this package's codec."""

    @classmethod
    def detect_protocol(cls, message: bytes) -> Any:
        """Return the protocol of this module that fits a message."""
        detected = super().detect_protocol(message)
        return _FAST.get(detected, detected)


_FAST: Final[dict[Any, Any]] = {
    jsonrpc.JSONRPCv1: JSONRPCv1,
    jsonrpc.JSONRPCv2: JSONRPCv2,
    jsonrpc.JSONRPCLoose: JSONRPCLoose,
    jsonrpc.JSONRPCAutoDetect: JSONRPCAutoDetect,
}


class JSONRPCConnection(jsonrpc.JSONRPCConnection):  # type: ignore[misc]
    """`aiorpcx.JSONRPCConnection` with the protocols of this module.

    Args:
        protocol: A protocol of this module, or one of aiorpcX, which is replaced by that of this module.
    """

    def __init__(self, protocol: Any = JSONRPCAutoDetect) -> None:
        super().__init__(_FAST.get(protocol, protocol))
        self._protocol: Any

    def receive_message(self, message: bytes) -> Any:
        """Return the requests in a message. Raises ProtocolError."""
        # aiorpcX compares with its own class, and would treat this one as JSON-RPC 2.0.
        if self._protocol is JSONRPCAutoDetect:
            self._protocol = JSONRPCAutoDetect.detect_protocol(message)
        return super().receive_message(message)


def install() -> None:
    """Replace aiorpcX's classes in this process, for programs that import them and as the default of its sessions."""
    replace((jsonrpc.JSONRPCConnection, JSONRPCConnection), *_FAST.items())
