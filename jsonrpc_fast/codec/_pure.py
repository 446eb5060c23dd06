"""The codec in plain Python: the specification that the compiled core agrees with on every input.

Section numbers are those of the JSON-RPC 2.0 specification.

Rules:
  - decoding goes text -> orjson -> dict -> `_check_message` -> message;
  - a dict does not show duplicate members, numbers that a float changes, or why a text is not JSON. Such a text takes
    the slow path: `_scanner` finds the envelope of each message in it.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias, final, overload

from .. import errors
from .._repr import shorten
from ..codes import RPC_MESSAGES, is_error_code, plain_error_code
from ..errors import HANDLER_FAILURES, RpcError, error_for, internal_error, remake_parse_error
from ..framing.frames import Framing
from ..profile import HEAD_BYTES, JSONRPC, MAX_DEPTH, MAX_ID_BYTES, Limits, Profile
from ..types import (
    ENVELOPE_MEMBERS,
    ERROR_MEMBERS,
    REQUEST_MEMBERS,
    RESPONSE_MEMBERS,
    UNSET,
    Classification,
    MessageId,
)
from ._dicts import dicts_of, write_dict
from ._extra import RESERVED_IN_RESPONSES, append_extra, check_extra, extra_of
from ._json import (
    Default,
    JSONDecodeError,
    check_exact,
    check_option,
    dumps,
    dumps_unchecked,
    exact_number,
    has_surrogates,
    is_integer_longer,
    is_longer,
    loads,
    loads_exact,
    loads_valid,
)
from ._pickling import remake
from ._scanner import (
    Envelope,
    Malformed,
    Value,
    scan,
    scan_error,
    scan_head,
    scan_proven,
    scan_unexpected,
    scan_value,
    without_surrogates,
)
from ._stream import StreamDecoder

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar  # `TypeVar` has defaults before Python 3.13

    P = TypeVar("P", bound="Params", covariant=True, default="dict[str, Any] | list[Any] | None")
    R = TypeVar("R", covariant=True, default=Any)
    M = TypeVar("M", default="Message")
else:
    from typing import TypeVar

    from ..types import has_type as isinstance  # noqa: A004  # as the core judges

    P = TypeVar("P")
    R = TypeVar("R")
    M = TypeVar("M")
T = TypeVar("T")
V = TypeVar("V", bound="_Value")

Params: TypeAlias = "dict[str, Any] | list[Any] | Raw | None"
"""The params of a request or a notification; None if absent."""


class ParseError(errors.ParseError):
    __doc__ = errors.ParseError.__doc__
    __slots__ = ()

    def to_response(self) -> Response:
        """Return an error response with the specification's code and message, and the id when it is known."""
        return Response(self.id, error=Error(self.rpc_code, RPC_MESSAGES[self.rpc_code]))

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, (__name__, "_make_fault", *self._state())


def _make_fault(*state: Any) -> ParseError:
    """Return a `ParseError` from its pickled state."""
    return remake_parse_error(ParseError, *state)


class _Value:
    """Base of the immutable classes. Equality, copies, pickles and the repr use the fields in `__match_args__`, and
    `extra`."""

    __slots__ = ("_extra",)  # unset without extra members, which costs no time
    __match_args__: ClassVar[tuple[str, ...]] = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # payloads are mutable

    def __init_subclass__(cls) -> None:
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
        """The members that JSON-RPC does not define; None if there are none, or the profile does not keep them."""
        return getattr(self, "_extra", None)

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value) or type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        # The first field may be an id: 1 and 1.0 are written differently, so they are different ids.
        are_equal = mine == theirs and isinstance(mine[0], float) == isinstance(theirs[0], float)
        return are_equal and self.extra == other.extra

    def __repr__(self) -> str:
        names = self.__match_args__ if self.extra is None else (*self.__match_args__, "extra")
        fields = ", ".join([f"{name}={shorten(getattr(self, name))}" for name in names])
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.extra is not None:
            return remake, (__name__, "_make_with_extra", type(self).__name__, self._fields(), self.extra)
        return remake, (__name__, type(self).__name__, *self._fields())

    def __replace__(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, which are checked (`copy.replace`)."""
        fields = dict(zip(self.__match_args__, self._fields(), strict=True))
        return type(self)(**{**fields, "extra": self.extra, **changes})


def _make_with_extra(name: str, fields: tuple[Any, ...], extra: dict[str, Any]) -> Any:
    """Return an object with extra members from its pickled state."""
    return globals()[name](*fields, extra=extra)


class _Message(_Value):
    __slots__ = ()

    def to_bytes(self) -> bytes:
        """Return the message as one line of JSON, without a line ending, which `encode` writes by default.

        Raises:
            EncodeError: a value cannot be written as JSON.
        """
        return _encode_message(self)

    def to_bytes_delimited(self) -> bytes:
        """Return the message as one line of JSON that ends in `\\n`.

        Raises:
            EncodeError: a value cannot be written as JSON.
        """
        return _encode_message(self) + b"\n"

    def to_str(self) -> str:
        """Return the message as one line of JSON in a str, without a line ending.

        Raises:
            EncodeError: a value cannot be written as JSON.
        """
        return _encode_message(self).decode()


@final
class Request(_Message, Generic[P]):
    """A call that expects a response (section 4).

    Args:
        id: an int, a str, a float or None (null). The response carries the same id.
        method: the name of the method.
        params: a dict, a list or a `Raw` of either; None if absent.
        extra: members that JSON-RPC does not define, by name.

    Raises:
        TypeError: an argument has another type.
        ValueError: the id is infinite, NaN, or longer than 640 bytes, or JSON-RPC defines a name in `extra`.
    """

    __match_args__: ClassVar[tuple[Literal["id"], Literal["method"], Literal["params"]]] = ("id", "method", "params")
    if TYPE_CHECKING:  # read-only; a slot and a property cannot share a name

        @property
        def id(self) -> MessageId: ...

        @property
        def method(self) -> str: ...

        @property
        def params(self) -> P: ...

    else:
        __slots__ = ("id", "method", "params")

    @overload
    def __new__(
        cls, id: MessageId, method: str, params: None = None, *, extra: dict[str, Any] | None = None
    ) -> Request[None]: ...

    @overload
    def __new__(cls, id: MessageId, method: str, params: P, *, extra: dict[str, Any] | None = None) -> Request[P]: ...

    def __new__(
        cls, id: MessageId, method: str, params: Params = None, *, extra: dict[str, Any] | None = None
    ) -> Request[Any]:
        _check_id(id)
        _check_method(method)
        _check_params(params)
        return _with_extra(_make_request(id, method, params), check_extra(extra, ENVELOPE_MEMBERS))

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
        method: the name of the method.
        params: a dict, a list or a `Raw` of either; None if absent.
        extra: members that JSON-RPC does not define, by name.

    Raises:
        TypeError: an argument has another type.
        ValueError: JSON-RPC defines a name in `extra`.
    """

    __match_args__: ClassVar[tuple[Literal["method"], Literal["params"]]] = ("method", "params")
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
    def __new__(cls, method: str, params: P, *, extra: dict[str, Any] | None = None) -> Notification[P]: ...

    def __new__(cls, method: str, params: Params = None, *, extra: dict[str, Any] | None = None) -> Notification[Any]:
        _check_method(method)
        _check_params(params)
        return _with_extra(_make_notification(method, params), check_extra(extra, ENVELOPE_MEMBERS))

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
        id: the id of the request; None is null, or the missing id of an error in a profile that allows that.
        result: any JSON value.
        error: an Error; None for a result.
        extra: members that JSON-RPC does not define, by name.

    Raises:
        TypeError: an argument has another type.
        ValueError: both a result and an error are given, or the id or a name in `extra` is refused as in `Request`.
    """

    __match_args__: ClassVar[tuple[Literal["id"], Literal["result"], Literal["error"]]] = ("id", "result", "error")
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
        cls,
        id: MessageId,
        result: None = None,
        error: Error | None = None,
        *,
        extra: dict[str, Any] | None = None,
    ) -> Response[None]: ...

    def __new__(
        cls, id: MessageId, result: Any = None, error: Error | None = None, *, extra: dict[str, Any] | None = None
    ) -> Response[Any]:
        _check_id(id)
        if error is not None:
            if not isinstance(error, Error):
                raise TypeError(f"error must be an Error or None, not {type(error).__name__}")
            if result is not None:
                raise ValueError("a response has a result or an error, not both")
        _check_result(result)
        return _with_extra(_make_response(id, result, error), check_extra(extra, RESERVED_IN_RESPONSES))

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
        code: an int of 64 bits; a subclass of int becomes an int.
        message: a short description.
        data: any JSON value; UNSET if absent (None is `"data": null`).
        extra: members that JSON-RPC does not define, by name.

    Raises:
        TypeError: an argument has another type.
        ValueError: the code is beyond 64 bits, or JSON-RPC defines a name in `extra`.
    """

    __match_args__: ClassVar[tuple[Literal["code"], Literal["message"], Literal["data"]]] = ("code", "message", "data")
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
        error = _make_error(_check_error(code, message), message, data)
        return _with_extra(error, check_extra(extra, ERROR_MEMBERS))

    @classmethod
    def from_dict(cls, obj: object, profile: Profile = JSONRPC) -> Error | None:
        """Read an error from a decoded JSON object.

        Returns:
            None if the object is not a valid error; it never raises for one.
        """
        _check_profile(profile)
        try:
            error = _check_error_object(obj, profile)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # from the comparison of a key
            return None
        return error if isinstance(error, Error) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a dict. `data` is shared, not copied."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not UNSET:
            error["data"] = self.data
        return error if self.extra is None else {**error, **self.extra}


# Decoded messages are already valid, and immutable: their fields are set through the descriptors of the slots.

_new: Final = object.__new__
_set_request_id, _set_request_method, _set_request_params = (
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


def _make_request(id: MessageId, method: str, params: Any) -> Request[Any]:
    request = _new(Request)
    _set_request_id(request, id)
    _set_request_method(request, method)
    _set_request_params(request, params)
    return request


def _make_notification(method: str, params: Any) -> Notification[Any]:
    notification = _new(Notification)
    _set_notification_method(notification, method)
    _set_notification_params(notification, params)
    return notification


def _make_response(id: MessageId, result: Any, error: Error | None) -> Response[Any]:
    response = _new(Response)
    _set_response_id(response, id)
    _set_response_result(response, result)
    _set_response_error(response, error)
    return response


def _make_error(code: int, message: str, data: Any) -> Error:
    error = _new(Error)
    _set_error_code(error, code)
    _set_error_message(error, message)
    _set_error_data(error, data)
    return error


def _with_extra(value: V, extra: dict[str, Any] | None) -> V:
    """`value`, a new object, with extra members."""
    if extra is not None:
        _set_extra(value, extra)
    return value


@final
class Raw:
    """A checked JSON text, kept as bytes: a payload to pass on, or to decode later.

    Args:
        data: one JSON value in UTF-8, as bytes, bytearray, memoryview or str.

    Raises:
        TypeError: `data` has another type.
        ParseError: the text is not JSON, or nests deeper than 1024.
    """

    __slots__ = ("_data", "_exact")

    _data: bytes
    _exact: bool

    def __new__(cls, data: bytes | bytearray | memoryview | str) -> Raw:
        text = _to_bytes(data)
        value = text if isinstance(text, ParseError) else _check_text(text)
        if isinstance(value, ParseError):
            del data, text  # the traceback holds this frame
            raise value
        return _make_raw(text[value.start : value.end], False)  # type: ignore[index]  # no ParseError

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
            decoder: called with the bytes, such as the `decode` of a typed decoder; orjson if None.

        Returns:
            What the decoder returns. What it raises passes on.
        """
        if decoder is not None:
            return decoder(self._data)
        return loads_exact(self._data) if self._exact else loads_valid(self._data)

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Raw):
            return NotImplemented
        return self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"Raw({shorten(self._data)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, (__name__, "_make_raw", self._data, self._exact)


Message: TypeAlias = Request | Notification | Response | ParseError
"""A decoded message, or the fault of one."""

RawMessage: TypeAlias = Request[Raw | None] | Notification[Raw | None] | Response[Raw] | ParseError
"""A message decoded with `raw=True`, or the fault of one."""


def _check_text(text: bytes) -> Value | ParseError:
    """The place of the single value in `text`, or its fault. No exception is kept: it would hold the text."""
    try:
        text.decode()
        value = scan_value(text)
    except UnicodeDecodeError as error:
        return ParseError.invalid_utf8(offset=error.start)
    except Malformed as malformed:
        return ParseError.malformed_json(offset=malformed.offset)
    return ParseError.too_deep() if value.depth > MAX_DEPTH else value


_set_raw_data, _set_raw_exact = (vars(Raw)[name].__set__ for name in Raw.__slots__)


def _make_raw(data: bytes, exact: bool) -> Raw:
    """A `Raw` of checked bytes. exact: decode integers of any width (`big_ints="exact"`)."""
    raw = object.__new__(Raw)
    _set_raw_data(raw, data)
    _set_raw_exact(raw, exact)
    return raw


def _is_object(value: object) -> bool:
    return type(value) is dict or isinstance(value, dict) or (isinstance(value, Raw) and bytes(value).startswith(b"{"))


def _is_array(value: object) -> bool:
    return type(value) is list or isinstance(value, list) or (isinstance(value, Raw) and bytes(value).startswith(b"["))


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, Raw) and bytes(value) == b"null")


# Checks in constructors and encoders: a failure is a bug of the caller.


def _check_id(id: object) -> None:
    if type(id) is int and -(2**63) <= id < 2**64:
        return  # nearly all
    if isinstance(id, bool) or not (id is None or isinstance(id, (int, str, float))):
        raise TypeError(f"id must be an int, a str, a float or None, not {type(id).__name__}")
    if isinstance(id, float) and not math.isfinite(id):
        raise ValueError("id must be a finite number")
    if _is_id_too_long(id, MAX_ID_BYTES):
        raise ValueError(f"id must be {MAX_ID_BYTES} bytes or less")


def _check_method(method: object) -> None:
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")


def _check_params(params: object) -> None:
    if not (params is None or _is_object(params) or _is_array(params)):
        raise TypeError(f"params must be a dict, a list, a Raw of either, or None, not {type(params).__name__}")


def _check_result(result: object) -> None:
    """An error or a message in place of the result is a mistake; no other value is checked."""
    if result is UNSET or issubclass(type(result), (_Value, errors.ParseError, RpcError)):
        raise TypeError(f"result must be a JSON value, not {type(result).__name__}; pass an error as error=")


def _check_error(code: object, message: object) -> int:
    """The code, as an int."""
    plain = plain_error_code(code)
    if not isinstance(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return plain


# The rules.

_ABSENT: Final = object()


def parse(obj: object, profile: Profile = JSONRPC) -> Message | list[Message]:
    """Validate a message or a batch that is decoded from JSON already.

    What only the text shows is not checked: duplicate members, the size and the depth.

    Args:
        obj: a dict, or a list of them.
        profile: the rules.

    Returns:
        What `decode` returns.

    Raises:
        TypeError: `profile` is not a Profile.
    """
    _check_profile(profile)
    return _check_decoded(obj, profile)


def _check_decoded(obj: object, profile: Profile) -> Message | list[Message]:
    if isinstance(obj, list):
        fault = _batch_fault(len(obj), profile)
        return fault or [_check_message(_as_it_is(item), profile, index) for index, item in enumerate(obj)]
    return _check_message(_as_it_is(obj), profile)


def _as_it_is(obj: object) -> object:
    """A dict of the caller as it is now: a callback of the collector may change it while it is read."""
    return obj.copy() if type(obj) is dict else obj


def _check_profile(profile: object) -> None:
    if not issubclass(type(profile), Profile):
        raise TypeError(f"profile must be a Profile, not {type(profile).__name__}")


def _batch_fault(items: int, profile: Profile) -> ParseError | None:
    if not profile.batches:
        return ParseError.batch_not_allowed()
    if items > profile.limits.batch_items:
        return ParseError.batch_too_large()
    return None if items else ParseError.empty_batch()


def _check_message(
    obj: object,
    profile: Profile,
    index: int | None = None,
    integer_too_large: bool = False,
    duplicates: bool = False,
) -> Message:
    """The message in one object, or its fault: that of the first broken rule in this order."""
    if not isinstance(obj, dict):
        return ParseError.not_an_object(index=index)

    id = obj.get("id", _ABSENT)
    method = obj.get("method", _ABSENT)
    limits = profile.limits
    if isinstance(method, str) and is_longer(method, limits.method_bytes):
        return _fault(ParseError.method_too_long, obj, profile, index, duplicates)
    if id is not _ABSENT and _is_id_too_long(id, limits.id_bytes):
        return _fault(ParseError.id_too_long, obj, profile, index, duplicates)
    if integer_too_large:
        return _fault(ParseError.integer_too_large, obj, profile, index, duplicates)
    if duplicates:
        return _fault(ParseError.duplicate_member, obj, profile, index, duplicates)

    version = obj.get("jsonrpc", _ABSENT)
    if version is _ABSENT:
        if not profile.optional_jsonrpc:
            return _fault(ParseError.missing_jsonrpc, obj, profile, index)
    elif not isinstance(version, str) or version != "2.0":
        return _fault(ParseError.invalid_jsonrpc_version, obj, profile, index)

    if method is _ABSENT:
        return _check_response(obj, id, profile, index)

    if id is not _ABSENT and not _is_valid_id(id, profile.null_request_ids, profile):
        return _fault(ParseError.invalid_id_type, obj, profile, index)
    if "result" in obj or "error" in obj:
        return _fault(ParseError.ambiguous_message, obj, profile, index)
    if not isinstance(method, str):
        return _fault(ParseError.invalid_method_type, obj, profile, index)
    if not method and not profile.empty_methods:
        return _fault(ParseError.empty_method, obj, profile, index)
    params = obj.get("params", _ABSENT)
    if params is _ABSENT or (profile.null_params and _is_null(params)):
        params = None
    elif not _is_object(params) and not (profile.array_params and _is_array(params)):
        return _fault(ParseError.invalid_params_type, obj, profile, index)
    if not profile.extra_members and not obj.keys() <= REQUEST_MEMBERS:
        return _fault(ParseError.unexpected_member, obj, profile, index)
    extra = extra_of(obj, ENVELOPE_MEMBERS) if profile.extra_members == "keep" else None
    if id is _ABSENT or (id is None and version is _ABSENT):  # a notification of 1.0 has a null id
        return _with_extra(_make_notification(method, params), extra)
    return _with_extra(_make_request(id, method, params), extra)


def _check_response(obj: dict[str, Any], id: object, profile: Profile, index: int | None) -> Message:
    """The response in an object without `method`, or its fault."""
    result = obj.get("result", _ABSENT)
    error = obj.get("error", _ABSENT)
    if profile.null_companions and result is not _ABSENT and error is not _ABSENT:
        if _is_null(error):
            error = _ABSENT
        elif _is_null(result):
            result = _ABSENT
    is_response = result is not _ABSENT or error is not _ABSENT
    is_error = error is not _ABSENT and result is _ABSENT

    if id is _ABSENT:
        if is_response and not (is_error and profile.errors_without_id):
            return _fault(ParseError.missing_id, obj, profile, index)
        id = None
    else:
        null_allowed = (is_error or profile.null_result_ids) if is_response else profile.null_request_ids
        if not _is_valid_id(id, null_allowed, profile):
            return _fault(ParseError.invalid_id_type, obj, profile, index)
    if not is_response:
        return _fault(ParseError.missing_method, obj, profile, index)
    if result is not _ABSENT and error is not _ABSENT:
        return _fault(ParseError.result_and_error, obj, profile, index)
    if is_error:
        is_exact = profile.extra_members or not isinstance(error, dict) or error.keys() <= ERROR_MEMBERS
        error = _check_error_object(error, profile)
        if not isinstance(error, Error):
            return _fault(error, obj, profile, index)
        if not is_exact:
            return _fault(ParseError.unexpected_member, obj, profile, index)
        result = None
    else:
        if profile.object_results and not _is_object(result):
            return _fault(ParseError.invalid_result_type, obj, profile, index)
        error = None
    if not profile.extra_members and not obj.keys() <= RESPONSE_MEMBERS:
        return _fault(ParseError.unexpected_member, obj, profile, index)
    extra = None
    if profile.extra_members == "keep":
        extra = extra_of(obj, ENVELOPE_MEMBERS) or {}
        if "params" in obj:
            params = obj["params"]
            extra["params"] = params.decode() if isinstance(params, Raw) else params
    return _with_extra(_make_response(id, result, error), extra or None)  # type: ignore[arg-type]  # checked above


def _check_error_object(obj: object, profile: Profile) -> Error | Callable[..., ParseError]:
    """The Error in an object, or the factory of its fault."""
    if not isinstance(obj, dict):
        return ParseError.invalid_error_type
    code = obj.get("code")
    if not is_error_code(code):
        return ParseError.invalid_error_code
    message = obj.get("message")
    if not isinstance(message, str):
        return ParseError.invalid_error_message
    found = _make_error(int.__int__(code), message, obj.get("data", UNSET))
    return _with_extra(found, extra_of(obj, ERROR_MEMBERS)) if profile.extra_members == "keep" else found


def _is_valid_id(id: object, null_allowed: bool, profile: Profile) -> bool:
    if isinstance(id, str):
        return id.isascii() or not has_surrogates(id)
    if isinstance(id, int):
        return not isinstance(id, bool)
    if isinstance(id, float):
        return profile.float_ids and math.isfinite(id)
    return id is None and null_allowed


def _is_id_too_long(id: object, limit: int) -> bool:
    if isinstance(id, str):
        return is_longer(id, limit)
    return isinstance(id, int) and is_integer_longer(id, limit)


def _fault(
    factory: Callable[..., ParseError],
    obj: dict[str, Any],
    profile: Profile,
    index: int | None,
    duplicates: bool = False,
) -> ParseError:
    """The fault with the id of the message, if it is certain."""
    id, reply_expected = _known(obj, profile, duplicates)
    return factory(id, index=index, reply_expected=reply_expected)


def _known(obj: dict[str, Any], profile: Profile, duplicates: bool) -> tuple[MessageId, bool]:
    """The id of an invalid message, if it is certain, and whether its sender expects a reply."""
    id = obj.get("id")
    if duplicates or _is_id_too_long(id, profile.limits.id_bytes) or not _is_valid_id(id, False, profile):
        id = None
    looks_like_response = "result" in obj or "error" in obj
    looks_like_notification = "id" not in obj and isinstance(obj.get("method"), str)
    return id, not (looks_like_response or looks_like_notification)


def _of_class(cls: type[T], obj: object, profile: Profile) -> T | None:
    _check_profile(profile)
    try:
        message = _check_message(_as_it_is(obj), profile)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # from the comparison of a key
        return None
    return message if isinstance(message, cls) else None


# The text.

_DIGITS_AS_ZEROS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_NO_JSON_TYPE: Final = object()


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: Literal[False] = False
) -> Message | list[Message]: ...


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: Literal[True]
) -> RawMessage | list[RawMessage]: ...


@overload
def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: bool
) -> Message | RawMessage | list[Message] | list[RawMessage]: ...


def decode(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC, *, raw: bool = False
) -> Message | RawMessage | list[Message] | list[RawMessage]:
    """Decode and validate one JSON text.

    Args:
        data: UTF-8 bytes, or a str.
        profile: the rules.
        raw: leave `params`, `result` and the `data` of an error as `Raw`: checked but not decoded.

    Returns:
        A Request, a Notification, a Response or a ParseError; for a batch a list of these, each item checked on its
        own. A fault of the text is returned, never raised.

    Raises:
        TypeError: `data` or `profile` has another type.
    """
    try:
        limits = profile.limits
    except AttributeError:
        _check_profile(profile)
        raise
    if type(data) is not bytes:
        text = _to_bytes(data)
        if isinstance(text, ParseError):
            return text
        data = text
    size = len(data)
    if size > limits.message_bytes:
        return _too_large_fault(data[: min(limits.message_bytes, HEAD_BYTES)], profile)
    if raw or size > _SMALL_BYTES:
        fast = _decode_fast(data, profile, raw)
        if fast is not None:
            return fast
    try:
        value = loads(data)
    except JSONDecodeError:
        return _decode_slow(data, profile, raw)
    if raw:
        return _decode_proven(data, value, profile, True)
    # A shortcut for the smallest messages: a request without params, a result that is a string.
    try:
        if len(value) == 3 == data.count(b":"):
            id = value["id"]
            if type(id) is int and value["jsonrpc"] == "2.0":
                if "result" in value:
                    if type(value["result"]) is str and not profile.object_results:
                        return _make_response(id, value["result"], None)
                else:
                    method = value["method"]
                    if type(method) is str and 0 < len(method) * 4 <= limits.method_bytes:
                        request = _new(Request)
                        _set_request_id(request, id)
                        _set_request_method(request, method)
                        _set_request_params(request, None)
                        return request
    except (KeyError, TypeError):  # another member, or not an object
        pass
    if type(value) is dict and _is_lossless(data, value, profile):
        return _check_fast(value, profile) or _check_message(value, profile)
    if type(value) is list and _batch_fault(len(value), profile) is None and _is_lossless(data, value, profile):
        return _check_items(value, profile)
    return _decode_proven(data, value, profile, False)


def _to_bytes(data: object) -> bytes | ParseError:
    """`data` as bytes, or the fault of a str with a lone surrogate. Raises TypeError."""
    # No method of `data` is called: a subclass may override it.
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(memoryview(data))
    if not isinstance(data, str):
        raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
    try:
        return str.encode(data)
    except UnicodeEncodeError as error:
        return ParseError.invalid_utf8(offset=len(str.encode(str.__getitem__(data, slice(error.start)))))


# The fast path. Most messages have one payload, and around it members that a pattern can read. orjson reads only the
# rest: if that is a single value, the text is JSON and has exactly these members.


def _pattern(text: bytes) -> re.Pattern[bytes]:
    """V: the version. I: an id that is certainly valid. M: a method. S: space, bounded because `re` backtracks."""
    following = rb"(?:,S(?=\")|(?=\}))"
    text = text.replace(b"V", rb'"jsonrpc"S:S"2\.0"S' + following)
    text = text.replace(b"I", rb'"id"S:S(0|-?[1-9][0-9]{0,17}|"[ !#-\[\]-~]*")S' + following)
    text = text.replace(b"M", rb'"method"S:S"([ !#-\[\]-~]+)"S' + following)
    return re.compile(text.replace(b"S", rb"[ \t\n\r]{0,64}"))


_SMALL_BYTES: Final = 768  # for smaller texts, dicts are faster
_BATCH_ITEM_BYTES: Final = 2048  # for smaller items, dicts are faster
_TAIL_BYTES: Final = 128
_head = _pattern(rb'S\{S(V)?(?:I)?(V)?(?:M)?(V)?(?:I)?(?:"(params|result|error)"S:S|\})').match
_tail = _pattern(rb"(V)?(?:I)?\}").fullmatch
_next_item = _pattern(rb'\}S,S(?=\{S"(?:jsonrpc|id|method|params|result|error)")').search


def _decode_fast(text: bytes, profile: Profile, raw: bool) -> Message | list[Message] | None:
    """Fast path: the valid message or batch in a text of a usual form; None for any other text."""
    if not _is_within_limits(text, profile):
        return None
    head = _head(text)
    stripped = text.rstrip(_SPACE)
    if head is not None:
        return _read_fast(text, head, len(stripped) - 1, profile, raw)
    begin = text[:_TAIL_BYTES].lstrip(_SPACE)
    if not begin.startswith(b"[") or not stripped.endswith(b"]") or not profile.batches:
        return None
    if not raw:
        first_items = text[: 4 * _BATCH_ITEM_BYTES]
        if len(first_items) < _BATCH_ITEM_BYTES * first_items.count(_QUOTED["jsonrpc"]):
            return None
    at = text.index(b"[") + 1
    last = len(stripped[:-1].rstrip(_SPACE)) - 1
    messages: list[Message] = []
    while len(messages) < profile.limits.batch_items:
        head = _head(text, at)
        if head is None:
            return None
        following = _next_item(text, head.end() - 1)
        message = _read_fast(text, head, last if following is None else following.start(), profile, raw)
        if message is None:
            return None
        messages.append(message)
        if following is None:
            return messages
        at = following.end()
    return None


def _read_fast(text: bytes, head: re.Match[bytes], last: int, profile: Profile, raw: bool) -> Message | None:
    """The valid message that begins with `head` and ends with the brace text[last]; None for any other text."""
    version, id_token, second_version, method_token, third_version, second_id_token, name = head.groups()
    at = head.end()
    end = last
    if version is None or id_token is None:
        fourth_version = third_id_token = None
        if name is not None:
            has_version = version is not None or second_version is not None or third_version is not None
            quoted = _QUOTED["id" if has_version else "jsonrpc"]
            place = text.rfind(quoted, max(at, last - _TAIL_BYTES), last)
            tail = None if place < 0 else _tail(text, place, last + 1)
            if tail is not None:
                fourth_version, third_id_token = tail.groups()
                end = at + len(text[at:place].rstrip(_SPACE)) - 1
                if end < at or text[end] != _COMMA:
                    return None
        versions = (version, second_version, third_version, fourth_version)
        if versions.count(None) != 3 or (id_token, second_id_token, third_id_token).count(None) < 2:
            return None
        id_token = id_token or second_id_token or third_id_token
    elif second_version is not None or third_version is not None or second_id_token is not None:
        return None
    if text[last : last + 1] != b"}":
        return None
    value: Any = None
    payload: Any = None
    if name is None:
        if at != last + 1:
            return None
    else:
        token = text[at:end].strip(_SPACE)
        try:
            values = loads(b"[%b]" % token)  # as deep as in the message
        except JSONDecodeError:
            return None
        if len(values) != 1:
            return None
        payload = value = values[0]
        if raw:
            payload = _make_raw(token, False)
    id: int | str | None = None
    if id_token is not None:
        if not id_token.startswith(b'"'):
            id = int(id_token)
        elif len(id_token) - 2 <= profile.limits.id_bytes:
            id = id_token[1:-1].decode()
        else:
            return None
    if method_token is not None:
        if len(method_token) > profile.limits.method_bytes:
            return None
        if name is not None and (
            name != b"params" or not (type(value) is dict or (type(value) is list and profile.array_params))
        ):
            return None
        method = method_token.decode()
        return _make_notification(method, payload) if id is None else _make_request(id, method, payload)
    if id is None:
        return None
    if name == b"result" and (not profile.object_results or type(value) is dict):
        return _make_response(id, payload, None)
    if name == b"error" and type(value) is dict and (profile.extra_members or value.keys() <= ERROR_MEMBERS):
        if raw and "data" in value:
            value["data"] = _raw_data(token)
        error = _check_error_object(value, profile)
        if type(error) is Error:
            return _make_response(id, None, error)
    return None


def _raw_data(token: bytes) -> Raw:
    """The data in `token`, an error object that has data."""
    found = scan_error(token, Value(0, len(token), 0, False))
    data = found.members["data"]  # type: ignore[union-attr, index]  # it is an object
    return _make_raw(token[data.start : data.end], False)


# A text that orjson reads is JSON, and the dict shows nearly everything in it, except duplicate members, wide integers
# that became floats, and the places of payloads. `_decode_slow` reads every byte; tests compare the two.

_QUOTED: Final = {name: b'"%b"' % name.encode() for name in ENVELOPE_MEMBERS}
_SPACE: Final = b" \t\n\r"
_COMMA: Final = ord(",")
_PROVEN_BYTES: Final = 256 * 1024  # for larger texts, the strict scanner is as fast
_BACKSLASH: Final = ord("\\")
# Ids that orjson reads as floats.
_find_float_ids = re.compile(rb'"id"[ \t\n\r]*:[ \t\n\r]*(-?[0-9]+[.eE][0-9.eE+-]*|-?[0-9]{19,})').findall
_has_escaped_letter = re.compile(rb"\\u00(?:6[1-9a-fA-F]|7[0-9aA])").search


def _is_lossless(text: bytes, value: dict[str, Any] | list[Any], profile: Profile) -> bool:
    """Whether `value`, which orjson read from `text`, shows all that the slow path would find.

    An id that became a float is replaced by the exact number.
    """
    if not _is_within_limits(text, profile):
        return False
    if type(value) is dict:
        has_duplicates = text.count(b":") != len(value) and _has_duplicates(text, value)
        return not has_duplicates and (type(value.get("id")) is not float or _make_id_exact(text, value, profile))
    for item in value:
        if type(item) is dict and type(item.get("id")) is float:
            return False
    return not _has_duplicates(text, value)


def _has_duplicates(text: bytes, value: object) -> bool:
    """Whether an object in `text`, which orjson read as `value`, may have a member twice.

    orjson drops the first one, and with it the quotes of its name.
    """
    try:
        written = dumps_unchecked(value)
    except TypeError:  # too deep to write
        return True
    if _BACKSLASH in text and b"\\u0022" in text:  # orjson writes this escape as \"
        text, written = _without_escapes(text), _without_escapes(written)
    return text.count(b'"') != written.count(b'"')


def _without_escapes(text: bytes) -> bytes:
    """A JSON text without the escaped quotes and backslashes of its strings."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _make_id_exact(text: bytes, message: dict[str, Any], profile: Profile) -> bool:
    """Read a float id again, because the number may be too wide for a float. Return False if it is not found."""
    if b"\\u00" in text and _has_escaped_letter(text):  # the name may be spelled differently
        return False
    tokens = set(_find_float_ids(text))  # payloads may have such members, too
    if len(tokens) != 1:
        return False
    token = tokens.pop()
    if len(token) > profile.limits.id_bytes:
        return False
    if token != repr(message["id"]).encode():
        message["id"] = _read_id(token, profile.limits.id_bytes)
    return True


def _is_within_limits(text: bytes, profile: Profile) -> bool:
    """Whether `text`, which is JSON, certainly nests no deeper than allowed and holds no integer that is refused."""
    if profile.limits.depth < MAX_DEPTH and text.count(b"[") + text.count(b"{") > profile.limits.depth:
        return False
    return profile.big_ints == "float" or not _has_wide_integer(text)


def _has_wide_integer(text: bytes) -> bool:
    """Whether `text` may hold an integer beyond 64 bits: 19 digits in a row, also in strings."""
    # Any 19 bytes in a row contain two neighbours of every ninth byte: where no two of these are digits, there is no
    # such number. `translate` is much faster than a regular expression.
    if b"00" not in text[8::9].translate(_DIGITS_AS_ZEROS):
        return False
    return b"0" * 19 in text.translate(_DIGITS_AS_ZEROS)


def _check_fast(obj: dict[str, Any], profile: Profile) -> Message | None:
    """Fast path: the valid message in a dict of a usual form; None for any other dict."""
    id = obj.get("id", _ABSENT)
    if type(id) is not int and id is not _ABSENT and not _is_usual_id(id, profile):
        return None
    if obj.get("jsonrpc") != "2.0":
        return None
    method = obj.get("method")
    if method is None:
        if len(obj) != 3 or id is _ABSENT or id is None:
            return None
        if "result" in obj:
            result = obj["result"]
            return None if profile.object_results and not _is_object(result) else _make_response(id, result, None)
        error = _check_error_object(obj.get("error"), profile) if profile.extra_members else None
        return _make_response(id, None, error) if type(error) is Error else None
    if type(method) is not str or not 0 < len(method) * 4 <= profile.limits.method_bytes:
        return None
    params = obj.get("params")
    size = 3 if id is not _ABSENT else 2
    if params is not None:
        size += 1
        if type(params) is not dict and not ((profile.array_params and _is_array(params)) or _is_object(params)):
            return None
    if len(obj) != size and not (profile.extra_members is True and len(obj.keys() & ENVELOPE_MEMBERS) == size):
        return None
    return _make_notification(method, params) if id is _ABSENT else _make_request(id, method, params)


def _is_usual_id(id: object, profile: Profile) -> bool:
    """Whether an id that orjson read, and that is not an int, is certainly valid in a request."""
    if type(id) is str:
        return len(id) * 4 <= profile.limits.id_bytes
    return profile.null_request_ids if id is None else type(id) is float and profile.float_ids


def _check_items(items: list[Any], profile: Profile) -> list[Message]:
    """The messages in the items of a batch, or their faults."""
    return [
        (type(item) is dict and _check_fast(item, profile)) or _check_message(item, profile, index)
        for index, item in enumerate(items)
    ]


def _decode_proven(text: bytes, value: object, profile: Profile, raw: bool) -> Message | list[Message]:
    """As `_decode_slow`, for a text that orjson reads as `value`."""
    if type(value) is not dict and type(value) is not list:
        return ParseError.not_an_object()
    if type(value) is list and (fault := _batch_fault(len(value), profile)) is not None:
        return fault
    if len(text) > _PROVEN_BYTES:
        return _decode_slow(text, profile, raw)
    items = value if type(value) is list else [value]
    if set(map(type, items)) != {dict} or not all(items) or not _is_within_limits(text, profile):
        return _decode_slow(text, profile, raw)
    envelopes = scan_proven(text, type(value) is list)
    if type(value) is dict:
        return _check_envelope(text, envelopes[0], profile, None, raw)
    return [_check_envelope(text, item, profile, index, raw) for index, item in enumerate(envelopes)]


def _decode_slow(text: bytes, profile: Profile, raw: bool) -> Message | list[Message]:
    """The slow path: the result for any text."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return ParseError.invalid_utf8(offset=error.start)
    try:
        found = scan(text, any_width=profile.big_ints != "float", batch_items=profile.limits.batch_items)
    except Malformed as malformed:
        return _malformed(text, malformed.offset, profile)
    if not found.is_batch:
        return _check_envelope(text, found.envelopes[0], profile, None, raw)
    fault = _batch_fault(len(found.envelopes) + found.too_many, profile)
    return fault or [_check_envelope(text, item, profile, index, raw) for index, item in enumerate(found.envelopes)]


def _malformed(text: bytes, offset: int, profile: Profile) -> ParseError:
    """The fault of a text that stops being JSON at `offset`. Its id is known if lone surrogates are the only fault."""
    if text[offset : offset + 1] == b"\\":
        try:
            found = scan(without_surrogates(text), any_width=profile.big_ints != "float", batch_items=1)
        except Malformed:
            pass
        else:
            members = found.envelopes[0].members
            if members is not None and not found.is_batch:
                obj = {name: _read_certain(text, name, value, profile) for name, value in members.items()}
                id, reply_expected = _known(obj, profile, found.envelopes[0].duplicates)
                return ParseError.malformed_json(id, offset=offset, reply_expected=reply_expected)
    return ParseError.malformed_json(offset=offset)


def _too_large_fault(head: bytes, profile: Profile) -> ParseError:
    """The fault of a text over the size limit, from its beginning.

    The id is certain if the head is the beginning of JSON, has no duplicate member, holds the whole id, and holds the
    name of a member that distinguishes a request from a response. A second id after the head is not seen: its sender
    breaks the rules, and its message counts under the first id.
    """
    try:
        head = head[: codecs.utf_8_decode(head, "strict", False)[1]]
    except UnicodeDecodeError:
        return ParseError.message_too_large()
    found = scan_head(without_surrogates(head))
    if found is None or not {"method", "params", "result", "error"}.intersection(found.names):
        return ParseError.message_too_large()
    obj: dict[str, Any] = dict.fromkeys(found.names)
    value = found.members.get("id")
    if value is not None and value.end < len(head):  # a number at the end may continue
        obj["id"] = _read_certain(head, "id", value, profile)
    id, reply_expected = _known(obj, profile, len(obj) < len(found.names))
    return ParseError.message_too_large(id, reply_expected=reply_expected)


def _read_certain(text: bytes, name: str, value: Value, profile: Profile) -> object:
    """The member for `_known`: the id, without lone surrogates, or a str if the method is a string."""
    token = text[value.start : value.end]
    if name == "method":
        return "" if token.startswith(b'"') else None
    if name != "id":
        return None
    try:
        return _read_id(token, profile.limits.id_bytes)
    except JSONDecodeError:
        return None


def _check_envelope(text: bytes, envelope: Envelope, profile: Profile, index: int | None, raw: bool) -> Message:
    too_deep = envelope.depth > profile.limits.depth
    if envelope.members is None:
        return ParseError.too_deep(index=index) if too_deep else ParseError.not_an_object(index=index)
    obj: dict[str, Any] = {}
    integer_too_large = False
    members = list(envelope.members.items())
    if envelope.unexpected:
        if profile.extra_members == "keep":
            members += scan_unexpected(text, envelope.start, ENVELOPE_MEMBERS)
        else:
            obj["?"] = None  # any name that JSON-RPC does not define
    for name, value in members:
        if name == "id":
            obj[name] = _read_id(text[value.start : value.end], profile.limits.id_bytes)
        elif value.depth > profile.limits.depth:
            obj[name] = None
        elif value.wide and not _are_integers_allowed(text, value, profile):
            integer_too_large = True
            obj[name] = None
        elif raw and name == "error":
            error = scan_error(text, value)
            if error is None:
                obj[name] = _read(text, value, profile, raw=False)
            else:
                inside = list((error.members or {}).items())
                if error.unexpected and profile.extra_members == "keep":
                    inside += scan_unexpected(text, error.start, ERROR_MEMBERS)
                obj[name] = {name: _read(text, value, profile, raw=name == "data") for name, value in inside}
                if error.unexpected and profile.extra_members != "keep":
                    obj[name]["?"] = None
        else:
            obj[name] = _read(text, value, profile, raw and name in ("params", "result"))
    if too_deep:
        return _fault(ParseError.too_deep, obj, profile, index, envelope.duplicates)
    return _check_message(obj, profile, index, integer_too_large, envelope.duplicates)


def _are_integers_allowed(text: bytes, value: Value, profile: Profile) -> bool:
    """Whether the profile accepts a value with an integer beyond 64 bits."""
    if profile.big_ints == "exact":
        try:
            check_exact(text[value.start : value.end])
        except ValueError:
            return False
    return profile.big_ints != "reject"


def _read(text: bytes, value: Value, profile: Profile, raw: bool) -> Any:
    token = text[value.start : value.end]
    exact = value.wide and profile.big_ints == "exact"
    if raw:
        return _make_raw(token, exact)
    return loads_exact(token) if exact else loads_valid(token)


def _read_id(token: bytes, limit: int) -> object:
    if token[0] in b"-0123456789":
        if len(token) > limit:
            return 10**limit  # any integer over the limit
        number = exact_number(token)
        return _NO_JSON_TYPE if number is None else number
    if token[0] in b"{[":
        return _NO_JSON_TYPE
    return loads(token)


def classify(data: bytes | bytearray | memoryview | str) -> Classification:
    """Return the kind, method and id of the message that `decode(data)` returns.

    Raises:
        TypeError: `data` has another type than `decode` takes.
    """
    message = decode(data)
    if isinstance(message, Request):
        return Classification("request", message.method, message.id)
    if isinstance(message, Notification):
        return Classification("notification", message.method)
    if isinstance(message, Response):
        return Classification("error" if message.is_error else "result", None, message.id)
    if isinstance(message, list):
        return Classification("batch")
    return Classification("invalid", None, message.id)


def decode_dict(
    data: bytes | bytearray | memoryview | str, profile: Profile = JSONRPC
) -> dict[str, Any] | list[dict[str, Any] | ParseError]:
    """Validate one JSON text and return it as a dict, or a list of them, that holds everything in the text.

    The rules are those of `decode`, but no member is dropped.

    Args:
        data: UTF-8 bytes, or a str.
        profile: the rules.

    Returns:
        The message; for a batch a list, with a ParseError in place of each invalid item.

    Raises:
        ParseError: `data` is not a valid message or batch.
        TypeError: `data` or `profile` has another type.
    """
    _check_profile(profile)
    text = _to_bytes(data)  # once: a buffer may change
    judged = decode(text, profile, raw=True) if isinstance(text, bytes) else text
    if isinstance(judged, ParseError):
        del data, text  # the traceback holds this frame
        raise judged
    assert isinstance(text, bytes)
    return dicts_of(text, judged, profile.big_ints == "exact")  # type: ignore[no-any-return]


class Decoder(StreamDecoder[M]):
    __doc__ = StreamDecoder.__doc__
    __slots__ = ()
    _fault_class = ParseError

    @overload
    def __init__(
        self: Decoder[Message],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: Literal[False] = False,
    ) -> None: ...

    @overload
    def __init__(
        self: Decoder[RawMessage],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        *,
        raw: Literal[True],
    ) -> None: ...

    @overload
    def __init__(
        self: Decoder[Message | RawMessage],
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
    ) -> None: ...

    def __init__(
        self,
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
    ) -> None:
        super().__init__(framing, profile, limits, raw)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> ParseError:
        return _too_large_fault(head, self._profile)


def encode(
    message: Request[Any] | Notification[Any] | Response[Any] | list[Any],
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a message, or a list of messages as a batch, as one line of JSON.

    The line ends in `\\n` unless `delimited` is False; `to_bytes` of a message writes no line ending.

    Args:
        message: an empty list gives b"": an empty batch is not a message (section 6).
        delimited: end in `\\n`.
        default: orjson's `default` for the payloads.
        option: orjson's `option` for the payloads, except OPT_INDENT_2 and OPT_APPEND_NEWLINE.

    Raises:
        EncodeError: a value cannot be written as JSON.
        TypeError: `message` is not a message.
        ValueError: the option breaks lines, or no profile accepts the id or the code.
    """
    if isinstance(message, list):
        if not message:
            return b""
        text = b"[" + b",".join([_encode_message(item, default, option) for item in message]) + b"]"
    else:
        text = _encode_message(message, default, option)
    return text + b"\n" if delimited else text


def encode_many(messages: Iterable[Any], *, default: Default = None, option: int = 0) -> bytes:
    """Encode messages and batches, each as one line of JSON that ends in `\\n`.

    Args:
        messages: an iterable of what `encode` takes.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    return b"".join([encode(message, default=default, option=option) for message in messages])


def encode_dict(
    message: dict[str, Any] | list[Any],
    profile: Profile = JSONRPC,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Validate a message or a batch that is a dict or a list of them, and encode it as one line of JSON.

    Args:
        message: as `decode_dict` returns it. `params`, `result` and the data of an error may be `Raw`.
        profile: the rules.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        ParseError: `message` is not a valid message, or an item of it is not.
        EncodeError: a value cannot be written as JSON.
        TypeError: `profile` is not a Profile.
        ValueError: the option breaks lines.
    """
    check_option(option)
    judged = parse(message, profile)
    for item in judged if isinstance(judged, list) else [judged]:
        if isinstance(item, ParseError):
            raise item
    if isinstance(message, list):
        text = b"[" + b",".join([write_dict(item, Raw, default, option) for item in message]) + b"]"
    else:
        text = write_dict(message, Raw, default, option)
    return text + b"\n" if delimited else text


def _encode_message(message: object, default: Default = None, option: int = 0) -> bytes:
    reserved = ENVELOPE_MEMBERS
    if isinstance(message, Request):
        text = encode_request(
            message.id, message.method, message.params, delimited=False, default=default, option=option
        )
    elif isinstance(message, Notification):
        text = encode_notification(message.method, message.params, delimited=False, default=default, option=option)
    elif isinstance(message, Response):
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
        raise TypeError(f"message must be a Request, a Notification or a Response, not {type(message).__name__}")
    return text if message.extra is None else append_extra(text, message.extra, reserved, default, option)


def encode_request(
    id: MessageId,
    method: str,
    params: Any = None,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a request as one line of JSON, without making a `Request`.

    Args:
        id: as in `Request`.
        method: as in `Request`.
        params: any value that orjson writes as an object or an array; None if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    check_option(option)
    text = b'{"jsonrpc":"2.0","id":%b,"method":%b' % (_encode_id(id), _encode_method(method))
    return text + _encode_params(params, default, option) + (b"}\n" if delimited else b"}")


def encode_notification(
    method: str,
    params: Any = None,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a notification as one line of JSON, without making a `Notification`.

    Args:
        method: as in `Notification`.
        params: any value that orjson writes as an object or an array; None if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    check_option(option)
    text = b'{"jsonrpc":"2.0","method":%b' % _encode_method(method)
    return text + _encode_params(params, default, option) + (b"}\n" if delimited else b"}")


def encode_result(
    id: MessageId,
    result: Any,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a response with a result as one line of JSON, without making a `Response`.

    Args:
        id: as in `Response`.
        result: any value that orjson writes.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    check_option(option)
    text = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (_encode_id(id), _encode_payload(result, default, option))
    return text + (b"}\n" if delimited else b"}")


def encode_error(
    id: MessageId,
    code: int,
    message: str,
    data: Any = UNSET,
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Encode a response with an error as one line of JSON, without making a `Response`.

    Args:
        id: as in `Response`.
        code: as in `Error`.
        message: as in `Error`.
        data: any value that orjson writes; UNSET if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    check_option(option)
    text = b'{"jsonrpc":"2.0","id":%b' % _encode_id(id)
    text += b',"error":{"code":%d,"message":%b' % (_check_error(code, message), dumps(message))
    if data is not UNSET:
        text += b',"data":%b' % _encode_payload(data, default, option)
    return text + (b"}}\n" if delimited else b"}}")


def _encode_id(id: MessageId) -> bytes:
    _check_id(id)
    return b"%d" % id if isinstance(id, int) else dumps(id)  # orjson stops at 64 bits


def _encode_method(method: str) -> bytes:
    _check_method(method)
    return dumps(method)


def _encode_payload(value: Any, default: Default, option: int) -> bytes:
    if isinstance(value, Raw):
        # Line breaks between tokens become spaces; strings hold none.
        return bytes(value).replace(b"\n", b" ").replace(b"\r", b" ")
    return dumps(value, default, option)


_dumps = dumps  # the core has one of its own


def _encode_params(params: Any, default: Default, option: int) -> bytes:
    if params is None:
        return b""
    text = _encode_payload(params, default, option)
    if not text.startswith((b"{", b"[")):
        raise TypeError(f"params must be written as a JSON object or array, which {type(params).__name__} is not")
    return b',"params":' + text


def answer(
    received: Message | RawMessage | list[Any],
    handler: Callable[[Request[Any] | Notification[Any]], Response[Any] | None],
    *,
    delimited: bool = True,
    default: Default = None,
    option: int = 0,
) -> bytes:
    """Return the reply to a decoded message or batch, as bytes; b"" if no reply is due (sections 4.1 and 6).

    A batch gets a batch in the same order, a ParseError an error response if `reply_expected`, a response no reply.

    An RpcError from the handler becomes the error response. Any other exception, a return value other than a Response
    to a request, and a response that cannot be written become -32603 and are logged; the other items of a batch are
    unaffected. KeyboardInterrupt and cancellations pass on. `jsonrpc_fast.handlers` dispatches by method name and
    supports async functions.

    Args:
        received: what `decode` returned.
        handler: called with each request, to which it returns a Response, and with each notification.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        TypeError: `received` is not a value that `decode` returns.
        ValueError: the option breaks lines.
    """
    check_option(option)
    if isinstance(received, list):
        replies = [_answer(item, handler, False, default, option) for item in received]
        text = b",".join([reply for reply in replies if reply])
        if not text:
            return b""
        return b"[" + text + (b"]\n" if delimited else b"]")
    return _answer(received, handler, delimited, default, option)


def _answer(
    received: object,
    handler: Callable[[Request[Any] | Notification[Any]], Response[Any] | None],
    delimited: bool,
    default: Default,
    option: int,
) -> bytes:
    """The reply to one message or fault."""
    if isinstance(received, Request):
        try:
            response = handler(received)
            if not isinstance(response, Response):
                raise TypeError(f"the handler must return a Response to a request, not {type(response).__name__}")
            return encode(response, delimited=delimited, default=default, option=option)
        except HANDLER_FAILURES as failure:
            error = error_for(failure, received.method, received.id)
        try:
            return encode_error(
                received.id, error.code, error.message, error.data, delimited=delimited, default=default, option=option
            )
        except HANDLER_FAILURES as failure:
            error = internal_error(failure, received.method, received.id)
        return encode_error(received.id, error.code, error.message, delimited=delimited)
    if isinstance(received, Notification):
        try:
            handler(received)
        except RpcError:
            pass
        except HANDLER_FAILURES as failure:
            internal_error(failure, received.method)
    elif isinstance(received, ParseError):
        return encode(received.to_response(), delimited=delimited) if received.reply_expected else b""
    elif not isinstance(received, Response):
        raise TypeError(f"received must be what decode returned, not {type(received).__name__}")
    return b""
