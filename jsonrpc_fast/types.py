"""Types and constants of the protocol: the kinds of messages, their members, ids."""

from __future__ import annotations

import enum
from types import CoroutineType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # before Python 3.13

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["request", "notification", "result", "error", "batch", "invalid"]

ENVELOPE_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
"""The members of any message (sections 4 and 5)."""

ERROR_MEMBERS: Final = frozenset({"code", "message", "data"})
"""The members of an error object (section 5.1)."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""U+FEFF in UTF-8: dropped at the start of a stream, never written."""


class Classification(NamedTuple):
    """The kind of a message, its method and its id.

    `method` and `id` are None if the message has none. An invalid message may have an id.
    """

    kind: Kind
    method: str | None = None
    id: MessageId = None


class NotJson:
    """The value of `UNSET`. orjson writes an enum as its value, and refuses this one."""


class Unset(enum.Enum):
    """The type of `UNSET`, which means an absent member (None is JSON's null). It cannot be written as JSON."""

    # An enum of one member, because type checkers narrow `value is UNSET` for a literal of an enum, not for an object.
    UNSET = NotJson()

    def __reduce_ex__(self, _: object) -> str:  # type: ignore[override]  # as `object` allows
        # A str names a global of this module, so unpickling returns the same object, and `is UNSET` holds.
        return "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final[Literal[Unset.UNSET]] = Unset.UNSET


MessageId = int | str | float | None
"""The id of a message. None is JSON's null, or an absent id where the class says so."""

IdKey: TypeAlias = "tuple[type, MessageId]"
"""What `id_key` returns."""


def id_key(id: MessageId) -> IdKey:
    """Return a key for an id: 1, 1.0 and True are equal in Python, but they are different ids."""
    return type(id), id


TIMEOUT_SECONDS: Final = 300.0
"""Seconds until a call times out, by default: in sessions, over HTTP and over NATS."""
TURN_SECONDS: Final = 0.0005
"""After this time of a turn of the loop, a connection continues in a later turn."""
CANCEL_SECONDS: Final = 5.0
"""How long closing waits for a user's function that was cancelled."""


NEVER_AWAITABLE: Final = frozenset({dict, list, str, int, float, bool, type(None)})
"""The types of most results: a quick check before the look-up of `__await__`."""


def is_awaitable(result: object) -> bool:
    """Return whether `await` accepts a result. Like `await`, check the type: an attribute of a result may run code."""
    kind = type(result)
    return kind is CoroutineType or (kind not in NEVER_AWAITABLE and hasattr(kind, "__await__"))


def has_type(value: object, kind: type[T]) -> TypeIs[T]:
    """Like `isinstance`, but check only the type, as the core does: the `__class__` of a value may name another class,
    or raise."""
    return issubclass(type(value), kind)


def plain_int(value: int) -> int:
    """Return an int of a subclass as a plain int, without calling methods of the subclass."""
    return value if type(value) is int else int.__add__(value, 0)  # PyPy's `int.__int__` consults the class
