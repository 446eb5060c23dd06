"""The rules of a protocol (`Profile`), the bounds on a message (`Limits`), and the presets."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, cast, dataclass_transform, get_args

from .support import check_count

if TYPE_CHECKING:
    from inspect import Signature

MAX_DEPTH: Final = 1024  # as deep as orjson.loads reads
MAX_ID_BYTES: Final = 640  # the lowest value that `sys.set_int_max_str_digits` accepts: every id can be converted
HEAD_BYTES: Final = 1024  # how much of a message over the size limit is read for its id

WrittenForm: TypeAlias = Literal["2.0", "1.0", "unversioned"]
"""The form of messages that a profile writes."""


class _Signature:
    """The signature of a record, which is made when it is requested."""

    def __get__(self, record: _Record | None, kind: type[_Record]) -> Signature | None:
        from inspect import Parameter, Signature

        if kind.__init__ is not _Record.__init__:
            return None  # a subclass has its own: `inspect.signature` reads that
        annotations = next(base.__annotations__ for base in kind.__mro__ if "FIELDS" in vars(base))
        fields = [(name, getattr(kind, name), annotations[name]) for name in kind.FIELDS]
        return Signature(
            [Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=of) for name, value, of in fields]
        )


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Record:
    """An immutable record of named values. Its fields are annotated in its class, where they have their defaults.

    It is not a dataclass, because a dataclass compiles its methods, which took an eighth of the codec's import time.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    __signature__: ClassVar[_Signature] = _Signature()

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in self.FIELDS:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")
        self.__dict__.update(given)
        self._check()

    def _check(self) -> None:
        """Raise TypeError or ValueError for a value that is not accepted."""

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.FIELDS])

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        changed = [name for name in self.FIELDS if getattr(self, name) != getattr(type(self), name)]
        return f"{type(self).__name__}({', '.join([f'{name}={getattr(self, name)!r}' for name in changed])})"

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} is immutable: use replace")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"{type(self).__name__} is immutable: use replace")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed: `JSONRPC.replace(extra_members=False)`.

        The last ones are remembered: rules are prepared once for a profile, which takes as long as 500 messages, and a
        function may replace a field in each call.
        """
        try:
            return cast("Self", _replaced(self, **changes))
        except TypeError:  # also of a value without a hash: the check says what is wrong with it
            return type(self)(**{**self.__dict__, **changes})

    def __replace__(self, **changes: Any) -> Self:
        """Do the same for `copy.replace`."""
        return self.replace(**changes)


@functools.lru_cache(maxsize=64, typed=True)
def _replaced(record: _Record, **changes: Any) -> _Record:
    return type(record)(**{**record.__dict__, **changes})


class Limits(_Record):
    """Bounds on a message. A message over a limit gives a `ParseError`, and the stream continues.

    The default of `message_bytes` is 64 MiB with the compiled core and 16 MiB with the pure backend, which needs up to
    2.5 microseconds per byte of a hostile text on a slow machine: 42 seconds for 16 MiB. Each item of a batch takes up
    to 8 microseconds in addition.

    Args:
        message_bytes: The maximum size of a message's text, 1 or more. It is checked before the text is read.
        depth: The maximum depth of the value of one member, 1 to 1024. A flat array has depth 1.
        batch_items: The maximum number of items in a batch, 1 or more.
        method_bytes: The maximum size of the method in UTF-8, 1 or more.
        id_bytes: The maximum size of the id, 32 to 640: of a string in UTF-8, of a number as written.

    Raises:
        TypeError: A limit is not an int.
        ValueError: A limit is out of its range.
    """

    message_bytes: int = 64 * 1024 * 1024
    depth: int = MAX_DEPTH
    batch_items: int = 10_000
    method_bytes: int = 1024
    id_bytes: int = 512

    def _check(self) -> None:
        # the core adds small sizes to limits
        for name, minimum, maximum in (
            ("message_bytes", 1, sys.maxsize // 2),
            ("depth", 1, MAX_DEPTH),
            ("batch_items", 1, sys.maxsize // 2),
            ("method_bytes", 1, sys.maxsize // 2),
            ("id_bytes", 32, MAX_ID_BYTES),  # a 64-bit integer has at most 20 digits
        ):
            check_count(name, getattr(self, name), minimum, maximum, may_be_none=False)


Limits.FIELDS = tuple(Limits.__annotations__)


class Profile(_Record):
    """The rules that a protocol adds to JSON-RPC 2.0 or relaxes.

    Args:
        name: A label for people; decoding does not use it.
        null_request_ids: Accept `"id": null` in a request, as the id None.
        null_result_ids: Accept `"id": null` with a result. With an error it is always accepted.
        float_ids: Accept a number with a fraction or an exponent as an id.
        missing_ids: Accept a response without an id: an error ("errors"), or any response (True), where the exchange
            itself says which call it answers, as over HTTP or with one call in flight. Its id is None.
        optional_jsonrpc: Accept a message without `jsonrpc`, as in JSON-RPC 1.0, where a null id makes a notification.
        empty_methods: Accept `"method": ""`.
        array_params: Accept an array as `params`.
        null_members: Treat a null `params` as absent ("params"), and so a null `error` next to a result and a null
            `result` next to an error (True).
        any_errors: Accept an error of any shape but null: an array, a string, an object without a code. Unless it has a
            code and a message, as section 5.1 of the specification requires, the `Error` has the whole value as `data`;
            the code is that of the value, or 0, and the message that of the value, or else its text.
        repeated_calls: Treat a message with a result or an error as a response, although it repeats the `method` and
            the `params` of its request.
        object_results: Require `result` to be an object.
        batches: Accept an array of messages.
        extra_members: What to do with members that JSON-RPC does not define, in a message and in its error object:
            ignore them (True), keep them in `extra` ("keep"), or treat them as a fault (False).
        big_ints: Accept integers beyond 64 bits in a payload ("exact"), or refuse them ("reject"). An int is always
            exact; one with more digits than `sys.get_int_max_str_digits` is refused.
        floats: Decode numbers with a fraction or an exponent in a payload to floats ("float"), or to `decimal.Decimal`,
            with exactly the digits of the text ("decimal"): for money. Exponents of more than four digits are refused.
            A Decimal is written as the same number.
        writes: The form of messages that are written: "2.0"; "1.0", without `jsonrpc`, with the null companions and
            null ids of JSON-RPC 1.0, and always with `params`; or "unversioned", which is 2.0 without `jsonrpc`.
        limits: The bounds on a message.

    Raises:
        TypeError: An argument has another type.
        ValueError: `big_ints`, `floats` or `writes` has another value.
    """

    name: str = "custom"
    null_request_ids: bool = True
    null_result_ids: bool = True
    float_ids: bool = True
    missing_ids: bool | Literal["errors"] = False
    optional_jsonrpc: bool = False
    empty_methods: bool = True
    array_params: bool = True
    null_members: bool | Literal["params"] = False
    any_errors: bool = False
    repeated_calls: bool = False
    object_results: bool = False
    batches: bool = True
    extra_members: bool | Literal["keep"] = True
    big_ints: Literal["exact", "reject"] = "exact"
    floats: Literal["float", "decimal"] = "float"
    writes: WrittenForm = "2.0"
    limits: Limits = Limits()

    def _check(self) -> None:
        for name in Profile.FIELDS:
            value = getattr(self, name)
            expected = type(getattr(Profile, name))
            # Not `isinstance`: 1 is not a bool, and the core reads a field as its exact type.
            words = (("extra_members", "keep"), ("missing_ids", "errors"), ("null_members", "params"))
            if type(value) is not expected and (name, value) not in words:
                raise TypeError(f"{name} must be of type {expected.__name__}, not {type(value).__name__}")
        if self.big_ints not in ("exact", "reject"):
            raise ValueError('big_ints must be "exact" or "reject"')
        if self.floats not in ("float", "decimal"):
            raise ValueError('floats must be "float" or "decimal"')
        if self.writes not in get_args(WrittenForm):
            raise ValueError('writes must be "2.0", "1.0" or "unversioned"')


Profile.FIELDS = tuple(Profile.__annotations__)


def plain_profile(profile: Profile) -> Profile:
    """Return a profile whose fields run no code of a subclass: `profile` itself, or a plain copy of it."""
    if type(profile) is Profile:
        return profile
    plain: Profile = object.__new__(Profile)
    # Each field is read once, here: a property of a subclass could return a different value each time.
    plain.__dict__.update({name: getattr(profile, name) for name in Profile.FIELDS})
    return plain


def is_plain(profile: Profile) -> bool:
    """Return whether a profile writes messages in the same way as no profile."""
    return profile.writes == "2.0" and profile.floats == "float"


def check_profile(profile: object) -> None:
    """Raise TypeError for an argument that is not a profile, such as the name of one."""
    # Not `isinstance`, which believes what an object says of its class.
    if not issubclass(type(profile), Profile):
        raise TypeError(f"profile must be a Profile, such as jsonrpc_fast.LENIENT, not {type(profile).__name__}")


def check_batches(profile: Profile | None) -> None:
    """Raise ValueError for a profile that cannot read the response to a batch of calls."""
    if profile is not None and not profile.batches:
        raise ValueError("the profile does not allow batches, so their results could not be read")


def is_at_least_as_strict(profile: Profile, other: Profile) -> bool:
    """Return whether every message that is valid in `profile` is valid in `other`, so that `parse` need not check it.

    The comparison excludes batches, kept extra members, and rules about the text of a message: its size, its depth, and
    numbers that are too large. Two profiles that differ in a field without a case here are not comparable.
    """
    return _accepts_no_more(profile, other, Profile.FIELDS)


def _accepts_no_more(record: _Record, other: _Record, fields: tuple[str, ...]) -> bool:
    for name in fields:
        value: Any = getattr(record, name)
        bound: Any = getattr(other, name)
        if value == bound:
            continue
        match name:
            case "name" | "batches" | "big_ints" | "floats" | "writes" | "message_bytes" | "depth" | "batch_items":
                is_strict = True  # says nothing about the members of a message
            case "null_request_ids" | "null_result_ids" | "float_ids" | "missing_ids" | "optional_jsonrpc":
                is_strict = _rank(value) <= _rank(bound)
            case "empty_methods" | "array_params" | "null_members" | "any_errors" | "repeated_calls" | "extra_members":
                is_strict = _rank(value) <= _rank(bound)
            case "object_results":
                is_strict = value
            case "method_bytes" | "id_bytes":
                is_strict = value <= bound
            case "limits":
                is_strict = _accepts_no_more(value, bound, Limits.FIELDS)
            case _:
                is_strict = False
        if not is_strict:
            return False
    return True


def _rank(value: object) -> int:
    """Return how much more a field accepts: nothing, the half of what it could, or all."""
    return 2 if value is True or value == "keep" else int(bool(value))


def lower_default_limits() -> None:
    """Make 16 MiB the default of `message_bytes`, in the presets too. Called once, when the pure backend is chosen."""
    Limits.message_bytes = 16 * 1024 * 1024


JSONRPC: Final = Profile(name="jsonrpc")
"""JSON-RPC 2.0 as specified."""

LENIENT: Final = Profile(name="lenient", missing_ids="errors", null_members=True, any_errors=True)
"""JSON-RPC 2.0 as real peers write it: null for absent `params`, the null companions of JSON-RPC 1.0, errors of any
shape, and errors without an id."""

CLIENT: Final = LENIENT.replace(name="client", optional_jsonrpc=True, repeated_calls=True, extra_members="keep")
"""What clients written by hand accept: all that `LENIENT` does, messages without `jsonrpc`, responses that repeat their
request; and members that JSON-RPC does not define are kept."""

JSONRPC_1: Final = Profile(
    name="jsonrpc-1",
    missing_ids="errors",
    optional_jsonrpc=True,
    null_members=True,
    any_errors=True,
    batches=False,
    writes="1.0",
)
"""JSON-RPC 1.0: messages may lack `jsonrpc`; a response has `result` and `error`, one of them null; an error may be any
value.

Messages of 2.0 are accepted too, but batches are not.
"""

LSP: Final = Profile(name="lsp", null_members="params", null_request_ids=False, float_ids=False, batches=False)
"""Language Server Protocol 3.18, base protocol: ids are integers or strings, and batches are not supported; real
peers send null params. The Agent Client Protocol is the same with null ids of requests:
`LSP.replace(null_request_ids=True)`."""

MCP_2024_11_05: Final = Profile(
    name="mcp-2024-11-05",
    null_request_ids=False,
    null_result_ids=False,
    float_ids=False,
    empty_methods=False,
    array_params=False,
    object_results=True,
    batches=False,
)
# The only revision with batches: 2025-03-26 introduced them, and 2025-06-18 removed them.
MCP_2025_03_26: Final = MCP_2024_11_05.replace(name="mcp-2025-03-26", batches=True)
MCP_2025_06_18: Final = MCP_2024_11_05.replace(name="mcp-2025-06-18")
MCP_2025_11_25: Final = MCP_2024_11_05.replace(name="mcp-2025-11-25", missing_ids="errors")
MCP_2026_07_28: Final = MCP_2025_11_25.replace(name="mcp-2026-07-28")

PRESETS: Final = {profile.name: profile for profile in list(globals().values()) if type(profile) is Profile}
"""All of these by name, as on the command line."""
