"""Results that are or contain models (Structs of msgspec, models of pydantic), and the responses to failed requests.

orjson itself writes dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codec._json import Default
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import EncodeError, RpcError
from ..support import HANDLER_FAILURES
from ..types import UNSET, MessageId


def to_jsonable(value: Any) -> Any:
    """Return a model as dicts and lists: a `default` for the encoders.

    Dispatchers and sessions without a `default` try it when a result or error data cannot be encoded. If most results
    are models, pass it as their `default`, which avoids the failing first attempt.

    Args:
        value: A msgspec Struct, or a pydantic model, which is written with its aliases.

    Raises:
        TypeError: `value` is something else, is circular, or nests too deep.
    """
    kind = type(value)
    if hasattr(kind, "__struct_fields__"):
        from .json_values import builtins_of  # imports msgspec

        return builtins_of(value, to_jsonable)
    if hasattr(kind, "__pydantic_serializer__") and hasattr(kind, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{kind.__name__} cannot be written as JSON")


def encode_models(
    error: EncodeError, default: Default, encode: Callable[..., bytes], *members: Any, **options: Any
) -> bytes:
    """Encode members again, with `to_jsonable`, after encoding them without a `default` has failed.

    The error of the first attempt is raised again if there was a `default`.
    """
    if default is not None:
        raise error
    return encode(*members, default=to_jsonable, **options)


Encode = Callable[[int, str, Any], bytes]
"""A function of a code, a message and data that returns the error response, or raises."""
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
            error = unwritable(failure)
    return response_to_failure(error, method, id, encode, report)


def unwritable(error: BaseException) -> BaseException:
    """Return the failure of an encoding without the encoder's frames: a peer that sends a deep value would fill logs.

    The error of the caller's `default`, its cause, keeps them.
    """
    if type(error) is not EncodeError:
        return error
    error.__context__ = None
    return error.with_traceback(None)


def response_to_failure(
    error: BaseException, method: str, id: MessageId, encode: Encode, report: ReportFailure
) -> tuple[bytes, int]:
    """Report an exception, and return a response that does not contain its text, and the code -32603."""
    report(error, method, id)
    code = int(ErrorCode.INTERNAL_ERROR)
    return encode(code, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR], UNSET), code
