"""A JSON-RPC 2.0 codec: bytes in, validated messages out, and back.

    from jsonrpc_fast import Request, decode, encode_result

    message = decode(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')
    if isinstance(message, Request):
        response = encode_result(message.id, sum(message.params))

Nothing here does IO. `BACKEND` is the backend in use: "cython" or "python".
"""

from __future__ import annotations

from ._version import __version__
from .codec import (
    BACKEND,
    Decoder,
    Error,
    Message,
    Notification,
    Params,
    ParseError,
    Raw,
    RawMessage,
    Request,
    Response,
    classify,
    decode,
    decode_dict,
    encode,
    encode_dict,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse,
)
from .codes import ErrorCode, Hint, LspErrorCode, McpErrorCode, ParseErrorCode
from .errors import CallCancelled, CallTimeout, ConnectionLost, EncodeError, HandshakeError, RpcError, StateError
from .framing.frames import Framing
from .profile import (
    CLIENT,
    JSONRPC,
    JSONRPC_1,
    LENIENT,
    LSP,
    MCP_2024_11_05,
    MCP_2025_03_26,
    MCP_2025_06_18,
    MCP_2025_11_25,
    MCP_2026_07_28,
    PRESETS,
    Limits,
    Profile,
)
from .types import UNSET, Classification, MessageId, Unset

__all__ = [
    "BACKEND",
    "CLIENT",
    "JSONRPC",
    "JSONRPC_1",
    "LENIENT",
    "LSP",
    "MCP_2024_11_05",
    "MCP_2025_03_26",
    "MCP_2025_06_18",
    "MCP_2025_11_25",
    "MCP_2026_07_28",
    "PRESETS",
    "UNSET",
    "CallCancelled",
    "CallTimeout",
    "Classification",
    "ConnectionLost",
    "Decoder",
    "EncodeError",
    "Error",
    "ErrorCode",
    "Framing",
    "HandshakeError",
    "Hint",
    "Limits",
    "LspErrorCode",
    "McpErrorCode",
    "Message",
    "MessageId",
    "Notification",
    "Params",
    "ParseError",
    "ParseErrorCode",
    "Profile",
    "Raw",
    "RawMessage",
    "Request",
    "Response",
    "RpcError",
    "StateError",
    "Unset",
    "__version__",
    "classify",
    "decode",
    "decode_dict",
    "encode",
    "encode_dict",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "parse",
]
