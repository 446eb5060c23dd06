"""The error for params that do not fit a function.

`data` of the error is a list of problems, each with a `path` and a `reason`. The path is a JSON pointer (RFC 6901) into
the params; an argument has its name there, also where the params are an array. Neither holds a value of the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import RpcError

IS_REQUIRED: Final = "is required"
IS_UNKNOWN: Final = "has an unknown member"


def misfit_error(problems: Iterable[tuple[str, str]]) -> RpcError:
    """Return the error -32602.

    Args:
        problems: The path and the reason of each problem.
    """
    data = [{"path": path, "reason": reason} for path, reason in problems]
    return RpcError(ErrorCode.INVALID_PARAMS, RPC_MESSAGES[ErrorCode.INVALID_PARAMS], data)


def too_many(maximum: int) -> tuple[str, str]:
    """Return the problem of an array with more arguments than a function takes."""
    if maximum < 0:
        return "", "must be an object"
    return "", f"must have at most {maximum} item" + "s" * (maximum != 1)


def pointer(parts: Iterable[str | int]) -> str:
    """Return the JSON pointer to a place: the names and indexes on the way to it."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)
