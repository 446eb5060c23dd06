"""Results of calls, converted into the type that the caller expects, as typed handlers convert params."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..codec._backend import decoded
from ..errors import InvalidResponse
from .params.problems import Misfit

if TYPE_CHECKING:
    from .params.types import ValueType

_MAX_TYPES: Final = 256


def result_reader(returns: Any) -> Callable[[str, Any], Any]:
    """Return the function that converts a result: called with the method and the result, a JSON value or a `Raw`.

    It raises InvalidResponse if the result has another type: the text names the method and the place, but no value.

    Args:
        returns: The type, or a `TypeAdapter` of pydantic.

    Raises:
        TypeError: The type is not supported.
        ImportError: The type needs msgspec, which is not installed.
    """
    if returns is Any:
        return _plain
    try:
        type_ = _type_of(returns)
    except TypeError:  # it is not hashable, or not supported
        type_ = _type_of.__wrapped__(returns)  # raises the explaining TypeError for an unsupported type

    def read(method: str, result: Any) -> Any:
        try:
            return type_.convert(result)
        except Misfit as misfit:
            path, reason = misfit.problems[0]
        # Outside `except`, as in `TypedHandler`. Only one problem is named, since the caller cannot correct the result.
        raise InvalidResponse(f"the result of {method} has another type: {path or 'the result'}: {reason}")

    return read


def results_reader(returns: Any, methods: Sequence[str | None]) -> Callable[[list[Any]], list[Any]]:
    """Return the function that converts the outcomes of a batch, in which exceptions stay unchanged.

    Args:
        returns: One type for all results, or a list with one for each item.
        methods: The method of each item; None for a notification.

    Raises:
        TypeError, ImportError: As in `result_reader`.
        ValueError: The number of types differs from the number of items.
    """
    types = returns if isinstance(returns, list) else [returns] * len(methods)
    if len(types) != len(methods):
        raise ValueError(f"returns has {len(types)} types for {len(methods)} items")
    readers = [
        None if method is None else (method, result_reader(each)) for method, each in zip(methods, types, strict=True)
    ]

    def read(outcomes: list[Any]) -> list[Any]:
        found = []
        for reader, outcome in zip(readers, outcomes, strict=True):
            if reader is not None and not isinstance(outcome, Exception):
                method, convert = reader
                try:
                    outcome = convert(method, outcome)
                except InvalidResponse as error:
                    outcome = error
            found.append(outcome)
        return found

    return read


# Making a decoder for a type takes longer than a call, and callers pass the same few types.
@lru_cache(_MAX_TYPES)
def _type_of(returns: Any) -> ValueType:
    from .params.types import type_of  # imported here: sessions without typed results do not need it

    return type_of(returns)


def _plain(method: str, result: Any) -> Any:
    return decoded(result)
