"""The response to a request that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import HANDLER_FAILURES, RpcError
from ..types import UNSET, MessageId

Encode = Callable[[int, str, Any], bytes]
"""Returns the error response with a code, a message and data, or raises."""
ReportFailure = Callable[[BaseException, str, MessageId], object]
"""Called with an exception that does not become the response, the method and the id."""


def response_to_error(
    error: BaseException, method: str, id: MessageId, encode: Encode, report: ReportFailure
) -> tuple[bytes, int]:
    """Return the response to a request whose handler raised, and its error code.

    An RpcError is the response. Any other exception is reported and becomes -32603 without details.
    """
    if isinstance(error, RpcError):
        try:
            code = int(error.code)
            return encode(code, error.message, error.data), code
        except HANDLER_FAILURES as failure:  # data that cannot be encoded, or a subclass without one of the fields
            error = failure
    return response_to_failure(error, method, id, encode, report)


def response_to_failure(
    error: BaseException, method: str, id: MessageId, encode: Encode, report: ReportFailure
) -> tuple[bytes, int]:
    """Report an exception, and return a response without its text and the code -32603."""
    report(error, method, id)
    code = int(ErrorCode.INTERNAL_ERROR)
    return encode(code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR], UNSET), code
