"""Selects the twin: the compiled core where it can be imported, else the one in plain Python.

`JSONRPC_FAST_PURE=1` in the environment asks for plain Python. Type checkers always see that one.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Literal

BACKEND: Literal["cython", "python"] = "python"
CORE_FAULT: str | None = None
"""Why the core is not in use, or None."""

if TYPE_CHECKING:
    from . import _pure as backend
elif os.environ.get("JSONRPC_FAST_PURE", "") not in ("", "0"):
    from . import _pure as backend

    CORE_FAULT = "JSONRPC_FAST_PURE is set"
else:
    try:
        # A missing module named as such: `from . import` would speak of a circular import instead.
        backend = importlib.import_module("._core", __package__)
        BACKEND = "cython"
    except ImportError as error:
        from . import _pure as backend

        CORE_FAULT = str(error)

if TYPE_CHECKING:
    from ._pure import (
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
        answer,
        classify,
        decode,
        encode,
        encode_error,
        encode_many,
        encode_notification,
        encode_request,
        encode_result,
        parse,
    )
    from ._pure import (
        _too_large as _too_large,
    )
else:
    Request = backend.Request
    Notification = backend.Notification
    Response = backend.Response
    Error = backend.Error
    ParseError = backend.ParseError
    Raw = backend.Raw
    Decoder = backend.Decoder
    decode = backend.decode
    parse = backend.parse
    classify = backend.classify
    encode = backend.encode
    encode_many = backend.encode_many
    encode_request = backend.encode_request
    encode_notification = backend.encode_notification
    encode_result = backend.encode_result
    encode_error = backend.encode_error
    answer = backend.answer
    _too_large = backend._too_large
    Message = Request | Notification | Response | ParseError
    RawMessage = Request[Raw | None] | Notification[Raw | None] | Response[Raw] | ParseError
    Params = dict[str, Any] | list[Any] | Raw | None

__all__ = [
    "BACKEND",
    "CORE_FAULT",
    "Decoder",
    "Error",
    "Message",
    "Notification",
    "Params",
    "ParseError",
    "Raw",
    "RawMessage",
    "Request",
    "Response",
    "answer",
    "backend",
    "classify",
    "decode",
    "encode",
    "encode_error",
    "encode_many",
    "encode_notification",
    "encode_request",
    "encode_result",
    "parse",
]
