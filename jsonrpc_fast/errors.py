"""Every exception class of the package.

    Exception
    ├── TypeError
    │   └── EncodeError          a value that cannot be written as JSON
    ├── ValueError
    │   └── ParseError           a message that breaks a rule; decoding returns it and does not raise it
    ├── RuntimeError
    │   ├── StateError           what the state of a transport or of a session does not allow
    │   └── HandshakeError       two peers have no version of a protocol in common
    ├── ConnectionError
    │   └── ConnectionLost       the channel is closed, or broke
    ├── TimeoutError
    │   └── CallTimeout          a call's deadline passed
    ├── CallCancelled            a call was given up on this side
    └── RpcError                 an error response: the peer's, or the one a handler wants to give

The five before the last are local: no peer can make them, and none of them is ever taken for a peer's error.

Each twin of the codec derives its own `ParseError` from the one here, only to say which `Response` class
`to_response` builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from ._repr import shorten
from .codes import RPC_MESSAGES, ErrorCode, Hint, ParseErrorCode, plain_error_code
from .types import UNSET, MessageId

if TYPE_CHECKING:
    from typing_extensions import Self


class EncodeError(TypeError):
    """A value cannot be written as JSON. Nothing was written. A caller's `default` that failed is `__cause__`."""


class StateError(RuntimeError):
    """A transport or a session is not in the state that a call needs: not connected, started already, closed."""


class HandshakeError(RuntimeError):
    """The peers cannot begin: no version in common, or an answer that is none. The peer's error is `__cause__`."""


class ConnectionLost(ConnectionError):
    """The channel to the peer is closed or broke. What broke it, if known, is `__cause__`."""


class CallTimeout(TimeoutError):
    """No answer came before a call's deadline. The peer may still work on it."""


class CallCancelled(Exception):
    """The call was cancelled on this side before its answer came."""


class RpcError(Exception):
    """An error response. A call raises the peer's; a handler raises the one to answer with.

    code     int of 64 bits; see `error_band` for who allocated it
    message  str, one sentence
    data     any JSON value, or UNSET when there is none

    Raises TypeError for another type, ValueError for a code beyond 64 bits.
    """

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        plain_error_code(code)
        if not isinstance(message, str):
            raise TypeError(f"message must be a str, not {type(message).__name__}")
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


HANDLER_FAILURES: Final = (Exception, SystemExit)
"""What a handler raises that concerns its own message only. KeyboardInterrupt and the cancellations of asyncio, anyio
and trio are none of these: they pass on to whoever runs the handler."""


LOOP_EXITS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the event loop. A callback that raises one has not failed: it is raised again, never logged."""


def standard_error(code: ErrorCode) -> RpcError:
    """Return the error with one of JSON-RPC's own codes and the message that belongs to it."""
    return RpcError(code, RPC_MESSAGES[code])


def invalid_params(message: str) -> RpcError:
    """Return the error -32602.

    Args:
        message: which parameter is invalid, and why.
    """
    return RpcError(ErrorCode.INVALID_PARAMS, message)


def error_for(error: BaseException, method: str, id: MessageId = None) -> RpcError:
    """Returns the error to answer a request with, after its handler raised `error`.

    Args:
        error: an RpcError is returned as it is. Anything else becomes -32603 without a word about it, and is logged.
        method: the method of the request.
        id: the id of the request.
    """
    return error if isinstance(error, RpcError) else internal_error(error, method, id)


def internal_error(error: BaseException, method: str, id: MessageId = None) -> RpcError:
    """Logs an exception with its traceback, and returns the error -32603, which tells nothing of it.

    Args:
        error: what a handler raised, or the writing of its result. Its text is the server's own.
        method: the method of the message that was served.
        id: its id; None for a notification.
    """
    import logging  # the codec does not load it

    logging.getLogger("jsonrpc_fast.handlers").error(
        "the handler of %s failed, id %s", shorten(method), shorten(id), exc_info=error
    )
    return standard_error(ErrorCode.INTERNAL_ERROR)


_shared_args: Final[dict[tuple[str, str | None], tuple[str]]] = {}


def args_of(code: ParseErrorCode, hint: Hint | None) -> tuple[str]:
    """What an exception shows: one tuple for each code and hint."""
    # `value` costs more than all the rest of this.
    key = code._value_, None if hint is None else hint._value_
    args = _shared_args.get(key)
    if args is None:
        args = _shared_args[key] = (key[0] if key[1] is None else f"{key[0]}; {key[1]}",)
    return args


Fault = TypeVar("Fault", bound="ParseError")


class ParseError(ValueError):
    """A message that breaks a rule, as a value: what is wrong, and what is known of the message.

    It keeps nothing of the input but the id. The repr, the message and the traceback leave that out too.

    Fields, all read-only:
      code            the rule, a `ParseErrorCode`
      id              the message's id where it was read with certainty and is valid in the profile, else None
      offset          the byte in the text at which it stops being JSON (UTF-8), counted from 0, or None; the
                      length of the text where it ends too early
      index           the position in the batch, counted from 0, or None
      reply_expected  False for what looks like a response (it has `result` or `error`) or a notification: the peer
                      waits for no answer. True for MISSING_METHOD, which may be a response without its result
      hint            what the bytes look like, or what is wrong with a header; only from a stream, else None
    """

    __match_args__ = ("code", "message", "id", "offset", "index")
    args: tuple[Any, ...]
    __slots__ = ("_code", "_hint", "_id", "_index", "_offset", "_reply_expected")

    def __init__(
        self,
        code: ParseErrorCode,
        id: MessageId = None,
        *,
        offset: int | None = None,
        index: int | None = None,
        reply_expected: bool = True,
        hint: Hint | None = None,
    ) -> None:
        if not isinstance(code, ParseErrorCode):
            raise TypeError(f"code must be a ParseErrorCode, not {type(code).__name__}")
        # A stream of garbage makes many of them, so all that they can share is shared.
        self.args = args_of(code, hint)
        self._code = code
        self._hint = hint
        self._id = id
        self._offset = offset
        self._index = index
        self._reply_expected = reply_expected

    @property
    def code(self) -> ParseErrorCode:
        return self._code

    @property
    def message(self) -> str:
        """What is wrong, for people: a fixed text for each code, and one for the hint if there is one."""
        return args_of(self._code, self._hint)[0]

    @property
    def rpc_code(self) -> ErrorCode:
        """The code of a reply: -32700 or -32600."""
        return self._code.rpc_code

    @property
    def id(self) -> MessageId:
        return self._id

    @property
    def offset(self) -> int | None:
        return self._offset

    @property
    def index(self) -> int | None:
        return self._index

    @property
    def reply_expected(self) -> bool:
        return self._reply_expected

    @property
    def hint(self) -> Hint | None:
        return self._hint

    def _fields(self) -> tuple[object, ...]:
        # The id's type counts: 1, 1.0 and True are three different ids.
        return self._code, type(self._id), self._id, self._offset, self._index, self._reply_expected, self._hint

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ParseError):
            return self._fields() == other._fields()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        hint = "" if self._hint is None else f", hint={self._hint.name}"
        return (
            f"ParseError({self._code.name}, offset={self._offset}, index={self._index}, "
            f"reply_expected={self._reply_expected}{hint})"
        )

    def _with_hint(self, hint: Hint) -> None:
        """Tells more of a fault that was made just now, and that nobody has seen."""
        self._hint = hint
        self.args = args_of(self._code, hint)

    def _state(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in ParseError.__slots__])

    def __reduce__(self) -> tuple[Any, ...]:
        return remake_parse_error, (type(self), *self._state())

    # One factory for each rule. A fault of the text has an offset; a fault of a message has an id.

    @classmethod
    def malformed_json(cls, id: MessageId = None, *, offset: int | None = None, reply_expected: bool = True) -> Self:
        """The text is not JSON (RFC 8259), a number in it is beyond a double, or a surrogate is alone.

        The id is known where lone surrogates are all that is wrong with the text of one message.
        """
        return cls(ParseErrorCode.MALFORMED_JSON, id, offset=offset, reply_expected=reply_expected)

    @classmethod
    def invalid_utf8(cls, *, offset: int | None = None) -> Self:
        """The bytes are not UTF-8 (RFC 3629), whatever else is wrong with them."""
        return cls(ParseErrorCode.INVALID_UTF8, offset=offset)

    @classmethod
    def truncated(cls, *, offset: int | None = None) -> Self:
        """The stream ended inside a message."""
        return cls(ParseErrorCode.TRUNCATED, offset=offset)

    @classmethod
    def invalid_framing(cls, *, hint: Hint | None = None) -> Self:
        """What stands around the messages of a stream is not what the framing says (LSP 3.17, "Header Part")."""
        return cls(ParseErrorCode.INVALID_FRAMING, hint=hint)

    @classmethod
    def message_too_large(cls, id: MessageId = None, *, reply_expected: bool = True) -> Self:
        """More than `Limits.message_bytes`.

        The id is known where it stands whole in the first 1024 bytes, with the name of a member that tells a request
        from a response, and no member twice. What comes behind those bytes is not read.
        """
        return cls(ParseErrorCode.MESSAGE_TOO_LARGE, id, reply_expected=reply_expected)

    @classmethod
    def too_deep(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """A member nests deeper than `Limits.depth`."""
        return cls(ParseErrorCode.TOO_DEEP, id, index=index, reply_expected=reply_expected)

    @classmethod
    def batch_too_large(cls) -> Self:
        """A batch of more than `Limits.batch_items`."""
        return cls(ParseErrorCode.BATCH_TOO_LARGE)

    @classmethod
    def method_too_long(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """A method of more than `Limits.method_bytes`."""
        return cls(ParseErrorCode.METHOD_TOO_LONG, id, index=index, reply_expected=reply_expected)

    @classmethod
    def id_too_long(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """An id of more than `Limits.id_bytes`."""
        return cls(ParseErrorCode.ID_TOO_LONG, id, index=index, reply_expected=reply_expected)

    @classmethod
    def integer_too_large(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """An integer beyond 64 bits in a payload, where the profile refuses such (`big_ints="reject"`)."""
        return cls(ParseErrorCode.INTEGER_TOO_LARGE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def not_an_object(cls, *, index: int | None = None) -> Self:
        """A message that is a scalar, or an array inside a batch (section 4)."""
        return cls(ParseErrorCode.NOT_AN_OBJECT, index=index)

    @classmethod
    def empty_batch(cls) -> Self:
        """`[]` (section 6)."""
        return cls(ParseErrorCode.EMPTY_BATCH)

    @classmethod
    def batch_not_allowed(cls) -> Self:
        """An array, in a protocol without batches."""
        return cls(ParseErrorCode.BATCH_NOT_ALLOWED)

    @classmethod
    def duplicate_member(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """Two members of one name that the protocol reads: two parsers would read two messages."""
        return cls(ParseErrorCode.DUPLICATE_MEMBER, id, index=index, reply_expected=reply_expected)

    @classmethod
    def missing_jsonrpc(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """No `jsonrpc` (section 4)."""
        return cls(ParseErrorCode.MISSING_JSONRPC, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_jsonrpc_version(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True
    ) -> Self:
        """`jsonrpc` that is not exactly the string "2.0" (section 4)."""
        return cls(ParseErrorCode.INVALID_JSONRPC_VERSION, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_id_type(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """An id of a type that is not allowed, or a number that cannot be echoed exactly (section 4)."""
        return cls(ParseErrorCode.INVALID_ID_TYPE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def missing_id(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False) -> Self:
        """A response without an id (section 5)."""
        return cls(ParseErrorCode.MISSING_ID, id, index=index, reply_expected=reply_expected)

    @classmethod
    def ambiguous_message(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False) -> Self:
        """`method` together with `result` or `error`: neither a request nor a response."""
        return cls(ParseErrorCode.AMBIGUOUS_MESSAGE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def missing_method(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """No `method`, no `result`, no `error` (section 4)."""
        return cls(ParseErrorCode.MISSING_METHOD, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_method_type(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True
    ) -> Self:
        """`method` that is not a string (section 4)."""
        return cls(ParseErrorCode.INVALID_METHOD_TYPE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def empty_method(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """`method` "" where the protocol forbids it."""
        return cls(ParseErrorCode.EMPTY_METHOD, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_params_type(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True
    ) -> Self:
        """`params` that is neither an object nor, where the protocol has them, an array (section 4.2)."""
        return cls(ParseErrorCode.INVALID_PARAMS_TYPE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def result_and_error(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False) -> Self:
        """`result` together with `error` (section 5)."""
        return cls(ParseErrorCode.RESULT_AND_ERROR, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_result_type(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False
    ) -> Self:
        """`result` that is not an object, where the protocol has only such."""
        return cls(ParseErrorCode.INVALID_RESULT_TYPE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_error_type(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False
    ) -> Self:
        """`error` that is not an object (section 5.1)."""
        return cls(ParseErrorCode.INVALID_ERROR_TYPE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_error_code(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False
    ) -> Self:
        """An error whose `code` is missing or not an integer of 64 bits (section 5.1)."""
        return cls(ParseErrorCode.INVALID_ERROR_CODE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def invalid_error_message(
        cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = False
    ) -> Self:
        """An error whose `message` is missing or not a string (section 5.1)."""
        return cls(ParseErrorCode.INVALID_ERROR_MESSAGE, id, index=index, reply_expected=reply_expected)

    @classmethod
    def unexpected_member(cls, id: MessageId = None, *, index: int | None = None, reply_expected: bool = True) -> Self:
        """A member that the protocol does not name, where the profile refuses such."""
        return cls(ParseErrorCode.UNEXPECTED_MEMBER, id, index=index, reply_expected=reply_expected)


def remake_parse_error(
    cls: type[Fault],
    code: ParseErrorCode,
    hint: Hint | None,
    id: MessageId,
    index: int | None,
    offset: int | None,
    reply_expected: bool,
) -> Fault:
    """A `ParseError` from its pickle."""
    return cls(code, id, offset=offset, index=index, reply_expected=reply_expected, hint=hint)
