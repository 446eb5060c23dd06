"""The messages of the pure backend, and how a dict becomes one.

Decoding makes messages that are valid already. Messages are immutable, so functions like `make_request` set the fields
through the descriptors of the slots, without the checks of the constructor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Self, TypeAlias, final, overload

from .. import errors
from ..codes import RPC_MESSAGES, ParseErrorCode, plain_error_code
from ..errors import RpcError, not_a_message, remake_parse_error
from ..profile import JSONRPC, MAX_DEPTH, MAX_ID_BYTES, Profile, check_profile, is_plain, plain_profile
from ..support import shorten
from ..types import ENVELOPE_MEMBERS, ERROR_MEMBERS, UNSET, MessageId, T, has_type, plain_int
from ._json import Default, check_option, dumps, loads, on_one_line
from ._kinds import error_kinds, is_array, is_error_object, is_id_too_long, is_object, kinds_of
from ._scanner import Malformed, ScannedValue, parts_of, scan_value
from ._shared import (
    RESERVED_IN_RESPONSES,
    append_extra,
    check_extra,
    check_numbers,
    code_and_message,
    extra_of,
    find,
    loads_as,
    numbers_of,
    remake,
)
from .rules import MAX_PROFILES, VERDICTS, BatchSize, Verdict, batch_fault, bits, verdict

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `TypeVar` has defaults before Python 3.13

    P = TypeVar("P", bound="Params", covariant=True, default="dict[str, Any] | list[Any] | None")
    R = TypeVar("R", covariant=True, default=Any)
    M = TypeVar("M", default="Message")
else:
    from typing import TypeVar

    P = TypeVar("P")
    R = TypeVar("R")
    M = TypeVar("M")
V = TypeVar("V", bound="_Value")

_BACKEND: Final = f"{__package__}._pure"  # which has every name that pickles hold

Params: TypeAlias = "dict[str, Any] | list[Any] | Raw | None"
"""The params of a request or a notification; None if absent."""


class ParseError(errors.ParseError):
    __doc__ = errors.ParseError.__doc__
    __slots__ = ()

    def to_response(self) -> Response:
        """Return an error response with the specification's code and message, and the id when it is known."""
        return Response(self.id, error=Error(self.rpc_code, RPC_MESSAGES[self.rpc_code]))

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, (_BACKEND, "_make_fault", *self._state())


def make_fault(*state: Any) -> ParseError:
    """Return a `ParseError` from its pickled state."""
    return remake_parse_error(ParseError, *state)


class _Value:
    """Base of the immutable classes. Equality, copies, pickles and the repr use `extra` and the fields in
    `__match_args__`."""

    __slots__ = ("_extra",)  # left unset where there are no extra members, which saves an assignment
    if TYPE_CHECKING:  # the classes have no annotations, as in the core: `get_type_hints` knows them by another module
        __match_args__: ClassVar[tuple[str, ...]] = ()
        __hash__: ClassVar[None]  # type: ignore[assignment]  # payloads are mutable

    def __init_subclass__(cls) -> None:
        # The classes of the core are final, and CPython refuses a subclass with this text.
        super().__init_subclass__()
        base = cls.__bases__[0].__name__
        if not base.startswith("_"):
            raise TypeError(f"type '{base}' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    @property
    def extra(self) -> dict[str, Any] | None:
        """The members that JSON-RPC does not define; None without any, or if the profile does not keep them."""
        return getattr(self, "_extra", None)

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if not has_type(other, _Value) or type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        # The first field may be an id: 1 and 1.0 are written differently, so they are different ids.
        are_equal = mine == theirs and has_type(mine[0], float) == has_type(theirs[0], float)
        return are_equal and self.extra == other.extra

    def __repr__(self) -> str:
        names = self.__match_args__ if self.extra is None else (*self.__match_args__, "extra")
        fields = ", ".join([f"{name}={shorten(getattr(self, name))}" for name in names])
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.extra is not None:
            return remake, (_BACKEND, "_make_with_extra", type(self).__name__, self._fields(), self.extra)
        return remake, (_BACKEND, type(self).__name__, *self._fields())

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, which are checked: `request.replace(id=2)`."""
        fields = dict(zip(self.__match_args__, self._fields(), strict=True))
        return type(self)(**{**fields, "extra": self.extra, **changes})

    __replace__ = replace  # for `copy.replace`


def make_with_extra(name: str, fields: tuple[Any, ...], extra: dict[str, Any]) -> Any:
    """Return an object with extra members from its pickled state."""
    return globals()[name](*fields, extra=extra)


class _Message(_Value):
    __slots__ = ()

    def to_bytes(self) -> bytes:
        """Return the message as one line of JSON, without a line ending, which `encode` writes by default.

        Raises:
            EncodeError: A value cannot be written as JSON.
        """
        return _encode_message(self)

    def to_bytes_delimited(self) -> bytes:
        """Return the message as one line of JSON that ends in `\\n`.

        Raises:
            EncodeError: A value cannot be written as JSON.
        """
        return _encode_message(self) + b"\n"

    def to_str(self) -> str:
        """Return the message as one line of JSON in a str, without a line ending.

        Raises:
            EncodeError: A value cannot be written as JSON.
        """
        return _encode_message(self).decode()


@final
class Request(_Message, Generic[P]):
    """A call that expects a response (section 4).

    Args:
        id: An int, a str, a float or None (null). The response carries the same id.
        method: The name of the method.
        params: A dict, a list, or a `Raw` of either; None if absent. A tuple becomes a list.
        extra: Members that JSON-RPC does not define, by name.

    Raises:
        TypeError: An argument has another type.
        ValueError: The id is infinite, NaN, or longer than 640 bytes, or JSON-RPC defines a name in `extra`.
    """

    if TYPE_CHECKING:
        __match_args__: ClassVar[tuple[Literal["id"], Literal["method"], Literal["params"]]]
    __match_args__ = ("id", "method", "params")
    if TYPE_CHECKING:  # read-only; a slot and a property cannot share a name

        @property
        def id(self) -> MessageId: ...

        @property
        def method(self) -> str: ...

        @property
        def params(self) -> P: ...

    else:
        __slots__ = ("id", "method", "params")

    # `__new__` and not `__init__`: a second call of `__init__` would change an object that is immutable.

    @overload
    def __new__(
        cls, id: MessageId, method: str, params: None = None, *, extra: dict[str, Any] | None = None
    ) -> Request[None]: ...

    @overload
    def __new__(
        cls, id: MessageId, method: str, params: tuple[Any, ...], *, extra: dict[str, Any] | None = None
    ) -> Request[list[Any]]: ...

    @overload
    def __new__(cls, id: MessageId, method: str, params: P, *, extra: dict[str, Any] | None = None) -> Request[P]: ...

    def __new__(
        cls, id: MessageId, method: str, params: Params | tuple[Any, ...] = None, *, extra: dict[str, Any] | None = None
    ) -> Request[Any]:
        _check_id(id)
        _check_method(method)
        return with_extra(make_request(id, method, _checked_params(params)), check_extra(extra, ENVELOPE_MEMBERS))

    @classmethod
    def from_dict(cls, obj: object, profile: Profile = JSONRPC) -> Request | None:
        """Read a request from a decoded JSON object.

        Returns:
            None if the object is not a valid request; it never raises for one.
        """
        return _of_class(Request, obj, profile)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict. The payload is shared, not copied."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return message if self.extra is None else {**message, **self.extra}


@final
class Notification(_Message, Generic[P]):
    """A call that gets no response (section 4.1).

    Args:
        method: The name of the method.
        params: A dict, a list, or a `Raw` of either; None if absent. A tuple becomes a list.
        extra: Members that JSON-RPC does not define, by name.

    Raises:
        TypeError: An argument has another type.
        ValueError: JSON-RPC defines a name in `extra`.
    """

    if TYPE_CHECKING:
        __match_args__: ClassVar[tuple[Literal["method"], Literal["params"]]]
    __match_args__ = ("method", "params")
    if TYPE_CHECKING:  # read-only; a slot and a property cannot share a name

        @property
        def method(self) -> str: ...

        @property
        def params(self) -> P: ...

    else:
        __slots__ = ("method", "params")

    @overload
    def __new__(
        cls, method: str, params: None = None, *, extra: dict[str, Any] | None = None
    ) -> Notification[None]: ...

    @overload
    def __new__(
        cls, method: str, params: tuple[Any, ...], *, extra: dict[str, Any] | None = None
    ) -> Notification[list[Any]]: ...

    @overload
    def __new__(cls, method: str, params: P, *, extra: dict[str, Any] | None = None) -> Notification[P]: ...

    def __new__(
        cls, method: str, params: Params | tuple[Any, ...] = None, *, extra: dict[str, Any] | None = None
    ) -> Notification[Any]:
        _check_method(method)
        return with_extra(make_notification(method, _checked_params(params)), check_extra(extra, ENVELOPE_MEMBERS))

    @classmethod
    def from_dict(cls, obj: object, profile: Profile = JSONRPC) -> Notification | None:
        """Read a notification from a decoded JSON object.

        Returns:
            None if the object is not a valid notification; it never raises for one.
        """
        return _of_class(Notification, obj, profile)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict. The payload is shared, not copied."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return message if self.extra is None else {**message, **self.extra}


@final
class Response(_Message, Generic[R]):
    """The response to a request (section 5): an error if `error` is not None, else a result.

    Args:
        id: The id of the request; None is null, or the missing id of an error in a profile that allows that.
        result: Any JSON value.
        error: An Error; None for a result.
        extra: Members that JSON-RPC does not define, by name.

    Raises:
        TypeError: An argument has another type.
        ValueError: Both a result and an error are given, or the id or a name in `extra` is refused as in `Request`.
    """

    if TYPE_CHECKING:
        __match_args__: ClassVar[tuple[Literal["id"], Literal["result"], Literal["error"]]]
    __match_args__ = ("id", "result", "error")
    if TYPE_CHECKING:  # read-only; a slot and a property cannot share a name
        # One of the two is always None. `| Any` saves users a check after a pattern or `is_error`.

        @property
        def id(self) -> MessageId: ...

        @property
        def result(self) -> R | Any: ...

        @property
        def error(self) -> Error | Any: ...

    else:
        __slots__ = ("error", "id", "result")

    @overload
    def __new__(
        cls, id: MessageId, result: R, error: None = None, *, extra: dict[str, Any] | None = None
    ) -> Response[R]: ...

    @overload
    def __new__(
        cls, id: MessageId, result: None = None, error: Error | None = None, *, extra: dict[str, Any] | None = None
    ) -> Response[None]: ...

    def __new__(
        cls, id: MessageId, result: Any = None, error: Error | None = None, *, extra: dict[str, Any] | None = None
    ) -> Response[Any]:
        _check_id(id)
        if error is not None:
            if not has_type(error, Error):
                raise TypeError(f"error must be an Error or None, not {type(error).__name__}")
            if result is not None:
                raise ValueError("a response has a result or an error, not both")
        # Neither is a result of null: section 5 requires the member `result` on success.
        _check_result(result)
        return with_extra(make_response(id, result, error), check_extra(extra, RESERVED_IN_RESPONSES))

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @classmethod
    def from_dict(cls, obj: object, profile: Profile = JSONRPC) -> Response | None:
        """Read a response from a decoded JSON object.

        Returns:
            None if the object is not a valid response; it never raises for one.
        """
        return _of_class(Response, obj, profile)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as a dict. The payload is shared, not copied."""
        if self.error is not None:
            message = {"jsonrpc": "2.0", "id": self.id, "error": self.error.to_dict()}
        else:
            message = {"jsonrpc": "2.0", "id": self.id, "result": self.result}
        return message if self.extra is None else {**message, **self.extra}


@final
class Error(_Value):
    """The error object of a response (section 5.1).

    Args:
        code: A 64-bit int; a subclass of int becomes an int.
        message: A short description.
        data: Any JSON value; UNSET if absent (None is `"data": null`).
        extra: Members that JSON-RPC does not define, by name.

    Raises:
        TypeError: An argument has another type.
        ValueError: The code is beyond 64 bits, or JSON-RPC defines a name in `extra`.
    """

    if TYPE_CHECKING:
        __match_args__: ClassVar[tuple[Literal["code"], Literal["message"], Literal["data"]]]
    __match_args__ = ("code", "message", "data")
    if TYPE_CHECKING:  # read-only; a slot and a property cannot share a name

        @property
        def code(self) -> int: ...

        @property
        def message(self) -> str: ...

        @property
        def data(self) -> Any: ...

    else:
        __slots__ = ("code", "data", "message")

    def __new__(cls, code: int, message: str, data: Any = UNSET, *, extra: dict[str, Any] | None = None) -> Error:
        error = make_error(_check_error(code, message), message, data)
        return with_extra(error, check_extra(extra, ERROR_MEMBERS))

    @classmethod
    def from_dict(cls, obj: object, profile: Profile = JSONRPC) -> Error | None:
        """Read an error from a decoded JSON object.

        Returns:
            None if the object is not a valid error; it never raises for one.
        """
        rules = rules_of(profile)
        try:
            obj = as_it_is(obj)
            if rules[_RESPONSE_BITS + (error_kinds(obj, Raw) & ~_HAS_EXTRA_IN_ERROR)].fault is not None:
                return None
            return _error_in(obj, rules.profile.extra_members == "keep")
        except (MemoryError, RecursionError):
            raise
        except Exception:  # from the comparison of a key
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a dict. `data` is shared, not copied."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not UNSET:
            error["data"] = self.data
        return error if self.extra is None else {**error, **self.extra}


# The setters of the slots, which bypass the `__setattr__` that refuses all changes.
new: Final = object.__new__
set_request_id, set_request_method, set_request_params = (
    vars(Request)[name].__set__ for name in Request.__match_args__
)
_set_notification_method, _set_notification_params = (
    vars(Notification)[name].__set__ for name in Notification.__match_args__
)
_set_response_id, _set_response_result, _set_response_error = (
    vars(Response)[name].__set__ for name in Response.__match_args__
)
_set_error_code, _set_error_message, _set_error_data = (vars(Error)[name].__set__ for name in Error.__match_args__)
_set_extra: Final = vars(_Value)["_extra"].__set__


def make_request(id: MessageId, method: str, params: Any) -> Request[Any]:
    request = new(Request)
    set_request_id(request, id)
    set_request_method(request, method)
    set_request_params(request, params)
    return request


def make_notification(method: str, params: Any) -> Notification[Any]:
    notification = new(Notification)
    _set_notification_method(notification, method)
    _set_notification_params(notification, params)
    return notification


def make_response(id: MessageId, result: Any, error: Error | None) -> Response[Any]:
    response = new(Response)
    _set_response_id(response, id)
    _set_response_result(response, result)
    _set_response_error(response, error)
    return response


def make_error(code: int, message: str, data: Any) -> Error:
    error = new(Error)
    _set_error_code(error, code)
    _set_error_message(error, message)
    _set_error_data(error, data)
    return error


def with_extra(value: V, extra: dict[str, Any] | None) -> V:
    """`value`, a new object, with extra members."""
    if extra is not None:
        _set_extra(value, extra)
    return value


@final
class Raw:
    """A checked JSON text, kept as bytes: a payload to pass on, or to decode later.

    Args:
        data: One JSON value in UTF-8, as bytes, bytearray, memoryview or str.

    Raises:
        TypeError: `data` has another type.
        ParseError: The text is not JSON, or nests deeper than 1024.
    """

    __slots__ = ("_data", "_numbers")

    _data: bytes
    _numbers: int

    def __new__(cls, data: bytes | bytearray | memoryview | str) -> Raw:
        text = to_bytes(data)
        value = _check_text(text)
        if has_type(value, ParseError):
            del data, text  # the traceback holds this frame
            raise value
        return make_raw(text[value.start : value.end], 0)

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'Raw' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Raw is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Raw is immutable")

    @overload
    def decode(self) -> Any: ...

    @overload
    def decode(self, decoder: Callable[[bytes], T]) -> T: ...

    def decode(self, decoder: Callable[[bytes], Any] | None = None) -> Any:
        """Decode the JSON text.

        Args:
            decoder: Called with the bytes, such as the `decode` of a typed decoder; orjson if None.

        Returns:
            What the decoder returns. Its exceptions propagate.
        """
        if decoder is not None:
            return decoder(self._data)
        return loads_as(self._data, self._numbers)

    @overload
    def get(self, path: str | Sequence[str | int], default: None = None) -> Raw | None: ...

    @overload
    def get(self, path: str | Sequence[str | int], default: T) -> Raw | T: ...

    def get(self, path: str | Sequence[str | int], default: Any = None) -> Any:
        """Find a member of a payload without decoding the rest.

        Args:
            path: A JSON pointer (RFC 6901), such as "/arguments/0/name"; or a list or tuple of names and of indexes,
                counted from 0.
            default: What to return if there is no such member.

        Returns:
            The member as `Raw`, or `default`. If several members have the same name, it is the last one, as for
            `decode`.

        Raises:
            TypeError: `path` has another type.
            ValueError: `path` is not a JSON pointer.
        """
        return find(self, path, default, _part_of)

    def keys(self) -> list[str]:
        """Return the names of the members of an object; an empty list for any other value."""
        return [name for name, _ in self.items()]

    def items(self) -> list[tuple[str, Raw]]:
        """Return the names and values of the members of an object; an empty list for any other value."""
        if not self._data.startswith(b"{"):
            return []
        # Of equal names the last one stays, as in `decode`: names are equal when they are decoded, however they are
        # spelled.
        members = {loads(name): make_raw(value, self._numbers) for name, value in parts_of(self._data)}
        return list(members.items())

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if not has_type(other, Raw):
            return NotImplemented
        # By the spelling: 1.0 and 1e0 differ. Comparing values would decode both.
        return self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"Raw({shorten(self._data)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, (_BACKEND, "_make_raw", self._data, self._numbers)


Message: TypeAlias = Request | Notification | Response | ParseError
"""A decoded message, or the fault of one."""

RawMessage: TypeAlias = Request[Raw | None] | Notification[Raw | None] | Response[Raw] | ParseError
"""A message decoded with `raw=True`, or the fault of one."""


def _check_text(text: bytes) -> ScannedValue | ParseError:
    """The place of the single value in `text`, or its fault. The exceptions end here, because they hold the text."""
    try:
        text.decode()
        value = scan_value(text)
    except UnicodeDecodeError as error:
        return ParseError.invalid_utf8(offset=error.start)
    except Malformed as malformed:
        return ParseError.malformed_json(offset=malformed.offset)
    if value.depth > MAX_DEPTH:
        return ParseError.too_deep()
    if value.wide:
        try:
            check_numbers(text, 0)
        except ValueError:
            return ParseError.integer_too_large()
    return value


_set_raw_data, _set_raw_numbers = (vars(Raw)[name].__set__ for name in Raw.__slots__)


def make_raw(data: bytes, numbers: int) -> Raw:
    """A `Raw` of checked bytes. numbers: how they are read (`numbers_of`)."""
    raw = object.__new__(Raw)
    _set_raw_data(raw, data)
    _set_raw_numbers(raw, numbers)
    return raw


def _part_of(raw: Raw, name: str | None, index: int) -> Raw | None:
    """The member of an object with a name, or the item of an array with an index; None if it has no such part."""
    # A step such as "0" is a name in an object and an index in an array (RFC 6901, section 4).
    if not raw._data.startswith(b"["):
        return None if name is None else dict(raw.items()).get(name)
    parts = parts_of(raw._data)
    return make_raw(parts[index][1], raw._numbers) if 0 <= index < len(parts) else None


# Checks in constructors and encoders: a failure is a bug in the caller.


def _check_id(id: object) -> None:
    if type(id) is int and -(2**63) <= id < 2**64:
        return  # nearly every id; a wider one is only accepted if it is not too long
    # Section 4: a string, a number or null. Only Python has a bool that is an int.
    # A subclass of float, such as NumPy's, cannot be written.
    if has_type(id, bool) or not (id is None or type(id) is float or has_type(id, int) or has_type(id, str)):
        raise TypeError(f"id must be an int, a str, a float or None, not {type(id).__name__}")
    if has_type(id, float) and not math.isfinite(id):
        raise ValueError("id must be a finite number")
    if is_id_too_long(id, MAX_ID_BYTES):
        raise ValueError(f"id must be {MAX_ID_BYTES} bytes or less")


def _check_method(method: object) -> None:
    if not has_type(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")


def _checked_params(params: Any) -> Any:
    if not (params is None or is_object(params, Raw) or is_array(params, Raw)):
        expected = "a dict, a list, a tuple, a Raw of an object or array, or None"
        raise TypeError(f"params must be {expected}, not {type(params).__name__}")
    return list(params) if type(params) is tuple else params


def _check_result(result: object) -> None:
    """An error or a message in place of the result is a mistake; no other value is checked."""
    if result is UNSET or issubclass(type(result), (_Value, errors.ParseError, RpcError)):
        raise TypeError(f"result must be a JSON value, not {type(result).__name__}; pass an error as error=")


def _check_error(code: object, message: object) -> int:
    """The code, as an int."""
    plain = plain_error_code(code)
    if not has_type(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return plain


def to_bytes(data: object) -> bytes:
    """`data` as bytes, which are not UTF-8 if it is a str with a lone surrogate. Raises TypeError."""
    if type(data) is bytes:
        return data
    # No method of `data` is called: a subclass may override it.
    if has_type(data, bytes) or has_type(data, bytearray) or has_type(data, memoryview):
        return bytes(memoryview(data))
    if not has_type(data, str):
        raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
    return str.encode(data, "utf-8", "surrogatepass")


# From a dict to a message.

# An error is checked as a part of a response that is valid otherwise.
_RESPONSE_BITS: Final = bits("jsonrpc", "2.0") + bits("id", "integer")
_HAS_EXTRA_IN_ERROR: Final = bits("has_extra_in_error")


_JSON_TYPES: Final[tuple[Any, ...]] = (dict, list, str, int, float, bool, type(None))


MAX_DICT_BYTES: Final = 2048  # up to this size, dicts are faster than patterns


class Rules(dict[int, Verdict]):
    """The verdicts found so far for one profile, by the kinds of a message.

    Attributes:
        owner: The profile, kept alive so that no other object gets its `id()`, by which it is found.
        profile: The same rules, in an object that runs no code of a subclass.
        limits: Its limits.
        message_bytes: The maximum size of a message.
        numbers: How numbers are read (`numbers_of`).
        forms: The module `_forms`, if messages are written in another way than in JSON-RPC 2.0.
        has_text_limits: The profile refuses some JSON for its depth or a number, or reads some numbers differently from
            orjson.
        has_usual_errors: An error that has a code and a message is valid.
        ignores_extra: A call may have members that JSON-RPC does not define.
        null_ids: A request may have the id null.
        id_characters: A string of up to this length is never too long for an id: a character has up to four bytes.
        method_characters: The same for a method.
        max_dict_bytes: The size up to which a message is read as a dict.
        usual_params: The types of params in valid calls, for the fast path.
        usual_results: The types of results in valid responses.
    """

    __slots__ = (
        "forms",
        "has_text_limits",
        "has_usual_errors",
        "id_characters",
        "ignores_extra",
        "limits",
        "max_dict_bytes",
        "message_bytes",
        "method_characters",
        "null_ids",
        "numbers",
        "owner",
        "profile",
        "usual_params",
        "usual_results",
    )

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self.owner = profile
        self.profile = plain_profile(profile)
        self.limits = profile.limits
        self.message_bytes = self.limits.message_bytes
        self.numbers = numbers_of(self.profile)
        self.forms: ModuleType | None = None
        if not is_plain(self.profile):
            from . import _forms  # loaded only for such profiles

            self.forms = _forms
        self.has_text_limits = self.limits.depth < MAX_DEPTH or self.numbers != 0
        self.max_dict_bytes = min(self.message_bytes, MAX_DICT_BYTES)
        self.id_characters = self.limits.id_bytes // 4
        self.method_characters = self.limits.method_bytes // 4
        self.ignores_extra = self.profile.extra_members is True
        self.null_ids = self._is_usual(None, method="m")
        self.has_usual_errors = self._is_usual(1, error={"code": 1, "message": ""})
        self.usual_params = frozenset([kind for kind in (dict, list) if self._is_usual(1, method="m", params=kind())])
        self.usual_results = frozenset([kind for kind in _JSON_TYPES if self._is_usual(1, result=kind())])

    def __missing__(self, number: int) -> Verdict:
        found = self[number] = VERDICTS[verdict(number, self.profile)]
        return found

    def _is_usual(self, id: MessageId, **members: Any) -> bool:
        """Whether these members make a valid message."""
        return self[kinds_of({"jsonrpc": "2.0", "id": id, **members}, self.limits, Raw)].fault is None

    def batch_fault(self, items: int) -> ParseErrorCode | None:
        """Return the fault of a batch as a whole."""
        size: BatchSize = "allowed" if items else "empty"
        return batch_fault("too large" if items > self.limits.batch_items else size, self.profile)


known_rules: Final[dict[int, Rules]] = {}


def rules_of(profile: Profile) -> Rules:
    """Return the verdicts of a profile, which are found by its identity.

    Raises:
        TypeError: `profile` is not a Profile.
    """
    # By identity, because hashing the fields of a profile would take longer than decoding a message.
    found = known_rules.get(id(profile))
    if found is None:
        check_profile(profile)
        found = Rules(profile)
        # Bounded, because a program may make a profile for each connection.
        if len(known_rules) >= MAX_PROFILES:
            known_rules.clear()
        known_rules[id(profile)] = found
    return found


def message_of(obj: Any, rules: Rules, index: int | None = None, kinds: int = 0) -> Message:
    """Return the message in a decoded object, or its fault. `kinds`: those that a dict cannot show."""
    found = rules[kinds | kinds_of(obj, rules.limits, Raw)]
    if found.fault is not None:
        return _fault_of(obj, found, index)
    keeps_extra = rules.profile.extra_members == "keep"
    message: Request | Notification | Response
    if found.kind == "request" or found.kind == "notification":
        params = obj.get("params")
        if type(params) is Raw and bytes(params) == b"null":  # a profile may accept null params
            params = None
        elif type(params) is tuple:
            params = list(params)
        if found.kind == "request":
            message = make_request(obj["id"], obj["method"], params)
        else:
            message = make_notification(obj["method"], params)
        return with_extra(message, extra_of(obj, ENVELOPE_MEMBERS)) if keeps_extra else message
    if found.kind == "result":
        message = make_response(obj.get("id"), obj["result"], None)
    else:
        message = make_response(obj.get("id"), None, _error_in(obj["error"], keeps_extra))
    if not keeps_extra:
        return message
    extra = extra_of(obj, ENVELOPE_MEMBERS) or {}
    if "params" in obj:
        params = obj["params"]
        extra["params"] = params.decode() if has_type(params, Raw) else params
    return with_extra(message, extra or None)


def fault_in(obj: Any, rules: Rules) -> ParseError | None:
    """Return the first fault of a message or a batch in dicts."""
    if not has_type(obj, list):
        found = rules[kinds_of(obj, rules.limits, Raw)]
        return None if found.fault is None else _fault_of(obj, found, None)
    code = rules.batch_fault(len(obj))
    if code is not None:
        return ParseError(code)
    for index, item in enumerate(obj):
        found = rules[kinds_of(item, rules.limits, Raw)]
        if found.fault is not None:
            return _fault_of(item, found, index)
    return None


def _fault_of(obj: Any, found: Verdict, index: int | None) -> ParseError:
    id = obj.get("id") if found.is_id_certain else None
    return ParseError(found.fault, id, index=index, reply_expected=found.reply_expected)  # type: ignore[arg-type]


def settled_by(items: Iterable[object]) -> tuple[MessageId, ...]:
    """Return the calls that messages answer."""
    settles: list[MessageId] = []
    for item in items:
        if has_type(item, ParseError):
            settles += item.settles
        elif has_type(item, Response) and item.id is not None:
            settles.append(item.id)
    return tuple(settles)


def refused_batch(code: ParseErrorCode, items: Iterable[object]) -> ParseError:
    """Return the fault of a batch as a whole: it answers the calls that its items answer."""
    settles = settled_by(items)
    return ParseError(code, reply_expected=not settles, settles=settles)


def fault_with_id(
    code: ParseErrorCode, obj: dict[str, Any], rules: Rules, kinds: int, offset: int | None = None
) -> ParseError:
    """Return the fault of input in which the members of `obj` were found, with the id if it is certain."""
    found = rules[kinds_of(obj, rules.limits, Raw) | kinds]
    id = obj["id"] if found.is_id_certain else None
    return ParseError(code, id, offset=offset, reply_expected=found.reply_expected)


def _error_in(obj: Any, keeps_extra: bool) -> Error:
    """The error in a valid value of the member."""
    if not is_error_object(obj):
        code, message = code_and_message(obj.decode() if type(obj) is Raw else obj)
        return make_error(code, message, obj)
    error = make_error(plain_int(obj["code"]), obj["message"], obj.get("data", UNSET))
    return with_extra(error, extra_of(obj, ERROR_MEMBERS)) if keeps_extra else error


def _of_class(cls: type[T], obj: object, profile: Profile) -> T | None:
    rules = rules_of(profile)
    try:
        message = message_of(as_it_is(obj), rules)
    # These two say something about the process, not about the object.
    except (MemoryError, RecursionError):
        raise
    except Exception:  # from the comparison of a key
        return None
    return message if has_type(message, cls) else None


def as_it_is(obj: object) -> object:
    """Snapshot the caller's dict: a callback of the garbage collector may change it while it is read."""
    return obj.copy() if type(obj) is dict else obj


# From a message to JSON.


def encode(
    message: Request[Any] | Notification[Any] | Response[Any] | list[Any] | tuple[Any, ...],
    profile: Profile = JSONRPC,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a message, or a list of messages as a batch, as one line of JSON.

    The line ends in `\\n` unless `delimited` is False; `to_bytes` of a message writes no line ending.

    Args:
        message: A message, or a list or a tuple of messages. An empty one gives b"": an empty batch is not a message
            (section 6).
        profile: Says how messages are written (`Profile.writes`), and whether a Decimal is (`Profile.floats`).
        delimited: End in `\\n`.
        default: Orjson's `default` for the payloads.
        option: Orjson's `option` for the payloads, except OPT_INDENT_2 and OPT_APPEND_NEWLINE.

    Raises:
        EncodeError: A value cannot be written as JSON.
        TypeError: `message` is not a message, or `profile` is not a Profile.
        ValueError: The option breaks lines, or no profile accepts the id or the code.
    """
    rules = rules_of(profile)
    default = default_in(rules, default)
    if has_type(message, list) or type(message) is tuple:
        if not message:
            return b""
        texts = [_encode_message(item, default, option) for item in message]
        if rules.forms is not None:
            texts = [rules.forms.written_as(item, rules.profile.writes) for item in texts]
        text = b"[" + b",".join(texts) + b"]"
    else:
        text = _encode_message(message, default, option)
        if rules.forms is not None:
            text = rules.forms.written_as(text, rules.profile.writes)
    return text + b"\n" if delimited else text


def _encode_message(message: object, default: Default = None, option: int = 0) -> bytes:
    reserved = ENVELOPE_MEMBERS
    if has_type(message, Request):
        text = encode_request(
            message.id, message.method, message.params, delimited=False, default=default, option=option
        )
    elif has_type(message, Notification):
        text = encode_notification(message.method, message.params, delimited=False, default=default, option=option)
    elif has_type(message, Response):
        error = message.error
        reserved = RESERVED_IN_RESPONSES
        if error is None:
            text = encode_result(message.id, message.result, delimited=False, default=default, option=option)
        else:
            text = encode_error(
                message.id, error.code, error.message, error.data, delimited=False, default=default, option=option
            )
            if error.extra is not None:
                text = append_extra(text[:-1], error.extra, ERROR_MEMBERS, default, option) + b"}"
    else:
        raise not_a_message(message)
    return text if message.extra is None else append_extra(text, message.extra, reserved, default, option)


def encode_request(
    id: MessageId,
    method: str,
    params: Any = None,
    *,
    profile: Profile = JSONRPC,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a request as one line of JSON, without making a `Request`.

    Args:
        id, method: As in `Request`.
        params: Any value that orjson writes as an object or an array; None if absent.
        delimited: End in `\\n`.
        profile, default, option: As in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: As in `encode`.
    """
    check_option(option)
    if profile is not JSONRPC:
        default = default_in(rules_of(profile), default)
    text = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (_encode_id(id), _encode_method(method))
    return _line(text + _encode_params(params, default, option) + b"}", profile, delimited)


def encode_notification(
    method: str,
    params: Any = None,
    *,
    profile: Profile = JSONRPC,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a notification as one line of JSON, without making a `Notification`.

    Args:
        method: As in `Notification`.
        params: Any value that orjson writes as an object or an array; None if absent.
        delimited: End in `\\n`.
        profile, default, option: As in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: As in `encode`.
    """
    check_option(option)
    if profile is not JSONRPC:
        default = default_in(rules_of(profile), default)
    text = b'{"jsonrpc":"2.0","method":%b' % _encode_method(method)
    return _line(text + _encode_params(params, default, option) + b"}", profile, delimited)


def encode_result(
    id: MessageId,
    result: Any,
    *,
    profile: Profile = JSONRPC,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a response with a result as one line of JSON, without making a `Response`.

    Args:
        id: As in `Response`.
        result: Any value that orjson writes.
        delimited: End in `\\n`.
        profile, default, option: As in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: As in `encode`.
    """
    check_option(option)
    if profile is not JSONRPC:
        default = default_in(rules_of(profile), default)
    text = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(id), _encode_payload(result, default, option))
    return _line(text, profile, delimited)


def encode_error(
    id: MessageId,
    code: int,
    message: str,
    data: Any = UNSET,
    *,
    profile: Profile = JSONRPC,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a response with an error as one line of JSON, without making a `Response`.

    Args:
        id: As in `Response`.
        code, message: As in `Error`.
        data: Any value that orjson writes; UNSET if absent.
        delimited: End in `\\n`.
        profile, default, option: As in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: As in `encode`.
    """
    check_option(option)
    if profile is not JSONRPC:
        default = default_in(rules_of(profile), default)
    text = b'{"jsonrpc":"2.0","id":%b' % _encode_id(id)
    text += b',"error":{"code":%d,"message":%b' % (_check_error(code, message), dumps(message))
    if data is not UNSET:
        text += b',"data":%b' % _encode_payload(data, default, option)
    return _line(text + b"}}", profile, delimited)


def default_in(rules: Rules, default: Default) -> Default:
    """Return the `default` for payloads, which writes a Decimal as a number if the profile has decimals."""
    return default if rules.forms is None else rules.forms.default_of(rules.profile, default)


def _line(text: bytes, profile: Profile, delimited: bool) -> bytes:
    if profile is not JSONRPC:
        rules = rules_of(profile)
        if rules.forms is not None:
            text = rules.forms.written_as(text, rules.profile.writes)
    return text + b"\n" if delimited else text


def _encode_id(id: MessageId) -> bytes:
    _check_id(id)
    return b"%d" % id if has_type(id, int) else dumps(id)  # orjson refuses integers beyond 64 bits


def _encode_method(method: str) -> bytes:
    _check_method(method)
    return dumps(method)


def _encode_payload(value: Any, default: Default, option: int) -> bytes:
    if has_type(value, Raw):
        return on_one_line(bytes(value))
    return dumps(value, default, option)


def _encode_params(params: Any, default: Default, option: int) -> bytes:
    if params is None:
        return b""
    text = _encode_payload(params, default, option)
    # The text decides, not the type: a dataclass is written as an object, and `default` may return anything.
    if not text.startswith((b"{", b"[")):
        raise TypeError(f"params must be written as a JSON object or array, which {type(params).__name__} is not")
    return b',"params":' + text
