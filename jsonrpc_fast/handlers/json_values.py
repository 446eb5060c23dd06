"""Conversion of results of functions to JSON types by msgspec, and of strings that contain JSON to values.

Up to Python 3.11 msgspec relies on the recursion limit. Libraries such as py_ecc, which web3 imports, raise that limit
so far that a circular value overflows the C stack before the limit is reached. So the depth is checked first. Later
versions of Python limit the depth of calls in C separately.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, Final

from ..codec._backend import Raw
from ..errors import EncodeError
from .params.annotations import is_from_pydantic
from .params.types import msgspec_module

_msgspec = msgspec_module()

_TOO_DEEP: Final = "the value is circular, or nests too deep"

_SCALARS: Final = frozenset(
    {str, int, float, bool, type(None), bytes, bytearray, memoryview, uuid.UUID}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal}
)


def to_json(value: Any) -> Any:
    """Convert a value to JSON types: dicts, lists or tuples, strings, numbers, booleans, None. Containers are copied.

    Raises:
        EncodeError: The value has no JSON form.
    """
    try:
        return builtins_of(value, _to_basic)
    except (TypeError, ValueError) as error:
        raise EncodeError(str(error)) from error


def builtins_of(value: Any, hook: Callable[[Any], Any]) -> Any:
    """Convert a value to JSON types by msgspec, whose `enc_hook` converts values of types that msgspec does not write.

    Raises EncodeError if the value is circular, or nests too deep, and whatever msgspec or the hook raises.
    """
    try:
        _check_depth(value, hook)
        return _msgspec.to_builtins(value, str_keys=True, enc_hook=hook)
    except RecursionError as error:
        raise EncodeError(_TOO_DEEP) from error


def json_of(text: str) -> Any:
    """Return the value of a string that is JSON, or Python's True, False or None; any other string unchanged."""
    try:
        value = _PYTHON_TEXTS[text] if text in _PYTHON_TEXTS else Raw(text.encode()).decode()
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def _to_basic(value: Any) -> Any:
    """Convert a value that msgspec cannot write to one that it can write."""
    core = sys.modules.get("pydantic_core")
    if core is not None and is_from_pydantic(type(value)):
        return core.to_jsonable_python(value)
    # msgspec writes only the exact types, so subclasses and other containers are converted here.
    for base, convert in _BASES.items():
        if isinstance(value, base):
            return convert(value)
    raise TypeError(f"{type(value).__qualname__} is not a JSON value")


_PYTHON_TEXTS: Final = {"True": True, "False": False, "None": None}
"""Literals of Python that language models write in place of JSON's true, false and null."""

# The order matters: a str is a Sequence, too.
_BASES: Final[dict[type, Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Mapping: dict,
    AbstractSet: list,
    deque: list,
    Sequence: list,
    PurePath: str,
}


def _check_depth(value: Any, hook: Callable[[Any], Any]) -> None:
    """Check that a value is not circular, if msgspec would not notice. Raises EncodeError beyond a depth of 1000."""
    # msgspec itself refuses such a value with a recursion limit up to this one.
    if sys.getrecursionlimit() <= (1000 if sys.version_info < (3, 12) else sys.maxsize):
        return
    # Depth first, so that a circular value grows the stack up to the bound and no further, however wide it is.
    stack: list[Iterator[Any]] = [iter((value,))]
    while stack:
        for container in stack[-1]:
            inner = _parts_of(container, hook)
            if not _SCALARS.issuperset(map(type, inner)):
                containers = [each for each in inner if type(each) not in _SCALARS]
                if len(stack) >= 1000:
                    raise EncodeError(_TOO_DEEP)
                stack.append(iter(containers))
                break
        else:
            stack.pop()


def _parts_of(value: Any, hook: Callable[[Any], Any]) -> Iterable[Any]:
    """Return the values inside a value. Attributes that msgspec does not write are left out: they may be circular."""
    kind: Any = type(value)
    if issubclass(kind, (enum.Enum, type)):
        return ()
    if issubclass(kind, (list, tuple, set, frozenset)):
        return value  # type: ignore[no-any-return]
    if issubclass(kind, dict):
        # Keys too: msgspec writes them through the same functions, so a key may be a deep tuple.
        return [*dict.values(value), *(key for key in dict.keys(value) if type(key) is not str)]
    own = getattr(value, "__dict__", {})
    names: Iterable[str]
    if hasattr(kind, "__struct_fields__"):
        names = kind.__struct_fields__
    elif isinstance(fields := getattr(kind, "__dataclass_fields__", None), dict):
        # Attributes of the class, such as a ClassVar, are not written.
        names = [name for name in fields if name in own or hasattr(getattr(kind, name, None), "__set__")]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [name for name in (*own, *(each.name for each in kind.__attrs_attrs__)) if not name.startswith("_")]
    elif hasattr(kind, "__pydantic_serializer__"):
        return ()  # pydantic has its own limit
    elif isinstance(fields := _attribute(value, "__dataclass_fields__"), dict):  # also a proxy of a dataclass
        names = fields
    else:
        return (hook(value),)
    return [_attribute(value, name) for name in names]


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute. msgspec leaves out those that raise an exception."""
    try:
        return getattr(value, name)
    except Exception:
        return None
