"""Results that are or contain models: Structs of msgspec and models of pydantic. orjson itself writes dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..codec._json import Default
from ..errors import EncodeError


def to_jsonable(value: Any) -> Any:
    """Return a model as dicts and lists: a `default` for the encoders.

    Dispatch and sessions try it after encoding a result or error data has failed, if they have no `default` of their
    own. Given as their `default` it is used at once, which saves that failure where most results are models.

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
    """Encode again with `to_jsonable` what could not be encoded without a `default`.

    Args:
        error: The error of the first attempt, which is raised again if there was a `default`.
        default: The `default` of the first attempt.
        encode: The encoder, such as `encode_result`.
        members: Its positional arguments.
        options: Its other arguments.
    """
    if default is not None:
        raise error
    return encode(*members, default=to_jsonable, **options)
