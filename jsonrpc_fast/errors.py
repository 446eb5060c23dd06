"""Every exception class of the package.

    Exception
    ├── TypeError
    │   └── EncodeError          a value cannot be written as JSON
    ├── ValueError
    │   ├── ParseError           a message breaks a rule; decoding returns it and does not raise it
    │   └── InvalidResponse      the peer sent something that is not a response to the call
    ├── RuntimeError
    │   ├── StateError           the state of a transport or a session does not allow the call
    │   ├── HandshakeError       the handshake of a protocol failed
    │   └── HttpStatusError      an HTTP server responded with a status of 3xx to 5xx, without a JSON-RPC response
    ├── ConnectionError
    │   └── ConnectionLost       the channel to the peer is closed or broke
    ├── TimeoutError
    │   └── CallTimeout          the deadline of a call passed
    ├── LookupError
    │   └── EventsLost           a stream of events cannot be resumed without a gap
    ├── CallCancelled            this side cancelled a call
    └── RpcError                 an error response, from the peer or from a handler

StateError, HandshakeError, ConnectionLost, CallTimeout, CallCancelled, HttpStatusError and InvalidResponse are local:
no peer can cause one by sending an error response.

Each backend derives a `ParseError` from the one here, whose `to_response` makes a `Response` of that backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

from .codes import RPC_MESSAGES, ErrorCode, Hint, ParseErrorCode, plain_error_code
from .support import logger_of, shorten, within
from .types import UNSET, MessageId


class EncodeError(TypeError):
    """A value cannot be written as JSON. Nothing is written. `__cause__` is the exception of the caller's `default`."""


class StateError(RuntimeError):
    """The state of a transport or a session does not allow the call: not connected, already started, closed."""


class ProgramReport(NamedTuple):
    """What is known about a program that serves over stdio, for the text of an error.

    Attributes:
        command: The program and its arguments.
        exit_status: Its exit code, -N if signal N ended it; None while it runs.
        stderr: The last lines of its stderr.
        noise: The first lines of its stdout that are not messages.
    """

    command: tuple[str, ...]
    exit_status: int | None
    stderr: str
    noise: str


class HandshakeError(RuntimeError):
    """The handshake failed: no common version, or a malformed response. `__cause__` is the peer's error, if any.

    Attributes:
        program: The program that an MCP client started; None for other peers.
    """

    program: ProgramReport | None = None


class SignInError(RuntimeError):
    """A client did not get an OAuth token. The text names the step that failed, and contains nothing that was sent.

    If a server does not respond to the sign-in, the text has its address, without path and query, and `__cause__` is
    the exception of the HTTP library.
    """


class ProgramStartError(OSError):
    """The system could not start the program of an MCP server. `__cause__` is the OSError; `errno` is the same.

    Attributes:
        program: The command, without exit status and output.
        is_of_cwd: Whether its working directory is at fault.
    """

    is_of_cwd: bool = False

    def __init__(self, number: int | None, text: str, program: ProgramReport) -> None:
        super().__init__(number, text)
        self.program = program


class InvalidResponse(ValueError):
    """The peer sent something that is not a response to the call, or a result that is not of the expected type.

    `__cause__` is the ParseError of a malformed response, and the text says what is malformed.
    """


def malformed(fault: ParseError, is_lenient: bool) -> InvalidResponse:
    """Return the exception for a response that cannot be read. Under a lenient profile no other accepts more."""
    place = "" if fault.offset is None else f", at byte {fault.offset}"
    is_form = fault.code.name.startswith(("MISSING_JSONRPC", "INVALID_JSONRPC", "RESULT_AND", "INVALID_ERROR"))
    cure = "; the profile CLIENT accepts more forms" if is_form and not is_lenient else ""
    error = InvalidResponse(f"the response is malformed: {fault}{place}{cure}")
    error.__cause__ = fault
    return error


class HttpStatusError(RuntimeError):
    """An HTTP server responded to a call with a status other than 2xx, and without a JSON-RPC response.

    Args:
        status: The HTTP status.
        headers: The headers of the HTTP response.
        body: The beginning of its body.
        body_bytes: The size of its body that was read; None: that of `body`. The text says if there is more.
        exchange: What the text says of the exchange: from which server, to which call.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        body_bytes: int | None = None,
        exchange: str = "",
    ) -> None:
        # All arguments: a pickled exception is made from its `args`.
        super().__init__(status, headers, body, body_bytes, exchange)
        self.status = status
        self.headers = headers
        self.body = body
        self.body_bytes: int = len(body) if body_bytes is None else body_bytes
        self.exchange = exchange

    # Not the default, which is the `args`: headers and body may contain secrets, and the text goes to logs.
    def __str__(self) -> str:
        from http import HTTPStatus  # not needed by the codec

        reason = f" ({HTTPStatus(self.status).phrase})" if self.status in set(HTTPStatus) else ""
        cut = f"; the body is cut to {len(self.body)} of {self.body_bytes} bytes"
        more = cut if self.body_bytes > len(self.body) else ""
        return f"HTTP status {self.status}{reason}{self.exchange}{more}"


class ConnectionLost(ConnectionError):
    """The channel to the peer is closed or broke. `__cause__` is the reason, if it is known.

    Args:
        args: The text.
        was_sent: See the attribute.

    Attributes:
        was_sent: False if the peer has not served the message of this call, and never will: it may be sent again.
            "maybe" if the peer may have served it.
        program: The program that an MCP client started; None for other peers.
    """

    program: ProgramReport | None = None

    def __init__(self, *args: object, was_sent: Literal[False, "maybe"] = "maybe") -> None:
        super().__init__(*args)
        self.was_sent: Literal[False, "maybe"] = was_sent


def lost(closed: str, broke: str, fault: BaseException | None) -> ConnectionLost:
    """Return the loss of a connection that was closed, or that a fault broke: with its text and as its cause."""
    if fault is None:
        return ConnectionLost(closed)
    error = ConnectionLost(f"{broke}: {fault}" if str(fault) else f"{broke}: {type(fault).__name__}")
    error.__cause__ = fault
    return error


class CallTimeout(TimeoutError):
    """No response arrived before the deadline of a call. The peer may still work on the request."""


def no_response(to: str, seconds: float | None, reason: str = "") -> CallTimeout:
    """Return the exception for a call whose response did not come within these seconds; None: a limit elsewhere."""
    return CallTimeout(f"no response to {to} came {within(seconds)}{reason}")


class EventsLost(LookupError):
    """A stream of events cannot be resumed: some of the following events were dropped, or the stream is unknown."""


class CallCancelled(Exception):
    """This side cancelled a call before its response arrived."""


class RpcError(Exception):
    """An error response. A call raises the peer's; a handler raises one to send it.

    Args:
        code: A 64-bit int.
        message: One sentence; None: the specification's, for a code of the specification (section 5.1).
        data: Any JSON value; UNSET if absent.

    Raises:
        TypeError: An argument has another type.
        ValueError: The code is beyond 64 bits.
    """

    def __init__(self, code: int, message: str | None = None, data: Any = UNSET) -> None:
        plain_error_code(code)
        if message is None:
            message = RPC_MESSAGES.get(code)  # type: ignore[call-overload]
        if not isinstance(message, str):
            raise TypeError(f"message must be a str, not {type(message).__name__}")
        super().__init__(code, message, data)  # all of them, for pickling
        self.code = code
        self.message: str = message
        self.data = data

    @classmethod
    def invalid_params(cls, message: str) -> Self:
        """Return the error -32602.

        Args:
            message: Which parameter is invalid, and why.
        """
        return cls(ErrorCode.INVALID_PARAMS, message)

    # Without the data, which may be large or secret; a traceback says that there is some.
    def __str__(self) -> str:
        return f"{self.message} ({self.code}{'' if self.data is UNSET else ', see its data'})"


LOOP_EXITS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the event loop. A callback that raises one has not failed: the exception propagates, unlogged."""


def run_callback(report: Callable[[BaseException], object], callback: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function whose exceptions must not affect the caller; None if it raises.

    `report` is called with the exception, unless that is one of LOOP_EXITS, which propagate. What an async function
    returns would never be awaited, which is reported, too.
    """
    try:
        result = callback(*arguments)
        if type(result) is CoroutineType:
            result.close()
            raise TypeError("a function whose result nothing awaits must not be async")
        return result
    except LOOP_EXITS:
        raise
    # Any other exception, such as the CancelledError of a future whose `result` the callback called.
    except BaseException as error:
        report(error)
        return None


def internal_error(error: BaseException, method: str, id: MessageId = None) -> RpcError:
    """Log what a handler, or the encoding of its result, has raised, and return the error -32603, which reveals nothing
    of it.

    The id is that of the message; None for a notification.
    """
    logger_of("handlers").error("the handler of %s failed, id %s", shorten(method), shorten(id), exc_info=error)
    return RpcError(ErrorCode.INTERNAL_ERROR)


_shared_args: Final[dict[tuple[str, str | None], tuple[str]]] = {}


def args_of(code: ParseErrorCode, hint: Hint | None) -> tuple[str]:
    """The `args` of an exception: the same tuple for the same code and hint."""
    # `_value_`, because the `value` of an enum is slow.
    key = code._value_, None if hint is None else hint._value_
    args = _shared_args.get(key)
    if args is None:
        args = _shared_args[key] = (key[0] if key[1] is None else f"{key[0]}; {key[1]}",)
    return args


Fault = TypeVar("Fault", bound="ParseError")


class _Factory:
    """The factory of one code, a method of the class: called with the other arguments of `ParseError`."""

    def __init__(self, code: ParseErrorCode, reply_expected: bool = True) -> None:
        self._code = code
        self._reply_expected = reply_expected

    def __get__(self, fault: ParseError | None, cls: type[Fault], /) -> Callable[..., Fault]:
        return partial(cls, self._code, reply_expected=self._reply_expected)


class ParseError(ValueError):
    """The fault of a message that breaks a rule. Decoding returns it as a value.

    It contains no part of the input except the id, which the repr, the message and the traceback do not show.

    Args:
        code: The broken rule.
        id: The id of the message, if it is certain and valid in the profile.
        offset: The byte at which the text stops being JSON (or UTF-8), counted from 0; the length of the text if it
            ends too early; None for a fault of a message.
        index: The position in the batch, counted from 0.
        reply_expected: False if the message looks like a response (it has `result` or `error`) or a notification. True
            for MISSING_METHOD, which may be a response without its result.
        hint: What the bytes look like, or what is wrong with a header; only from a stream.
        settles: The ids of the responses before the fault of a text, or in a batch that is refused as a whole.

    Raises:
        TypeError: `code` is not a ParseErrorCode.
    """

    __match_args__ = ("code", "message", "id", "offset", "index")
    args: tuple[Any, ...]
    __slots__ = ("_code", "_hint", "_id", "_index", "_offset", "_reply_expected", "_settles")

    def __init__(
        self,
        code: ParseErrorCode,
        id: MessageId = None,
        *,
        offset: int | None = None,
        index: int | None = None,
        reply_expected: bool = True,
        hint: Hint | None = None,
        settles: tuple[MessageId, ...] = (),
    ) -> None:
        if not isinstance(code, ParseErrorCode):
            raise TypeError(f"code must be a ParseErrorCode, not {type(code).__name__}")
        # `BaseException.__new__` has set `args` to the arguments, and tracebacks show them: the id must not be there.
        # A stream of garbage makes many faults. They share their texts, so that each takes little memory.
        self.args = args_of(code, hint)
        self._code = code
        self._hint = hint
        self._id = id
        self._offset = offset
        self._index = index
        self._reply_expected = reply_expected
        self._settles = settles

    @property
    def code(self) -> ParseErrorCode:
        """The broken rule."""
        return self._code

    @property
    def message(self) -> str:
        """A description: a fixed text for each code and each hint."""
        return args_of(self._code, self._hint)[0]

    @property
    def rpc_code(self) -> ErrorCode:
        """The code of the error response: -32700 or -32600."""
        return self._code.rpc_code

    @property
    def id(self) -> MessageId:
        """The id of the message; None if it is unknown or invalid."""
        return self._id

    @property
    def offset(self) -> int | None:
        """The byte at which the text stops being JSON or UTF-8, counted from 0; None for a fault of a message."""
        return self._offset

    @property
    def index(self) -> int | None:
        """The position in the batch, counted from 0; None outside a batch."""
        return self._index

    @property
    def reply_expected(self) -> bool:
        """Whether the sender expects an error response."""
        return self._reply_expected

    @property
    def settles(self) -> tuple[MessageId, ...]:
        """The ids of the calls that this answers, for settling them and for nothing else.

        The message looks like a response with this id, or has an id and no other member. After a fault of the text it
        is what stands before the fault: the id, and in a batch those of the responses before it. Such an id is not in
        `id`, because the rest of the text is unknown, and no response may carry it. Nor is that of a response in which
        another member occurs twice. A batch that is refused as a whole answers what its responses do, up to
        `Limits.batch_items`.
        """
        if self._settles or self._id is None:
            return self._settles
        if self._reply_expected and self._code is not ParseErrorCode.MISSING_METHOD:
            return ()  # a request
        return (self._id,)

    @property
    def hint(self) -> Hint | None:
        """What the bytes look like, or what is wrong with a header."""
        return self._hint

    def _fields(self) -> tuple[object, ...]:
        # The type of the id matters: 1, 1.0 and True are different ids.
        settles = [(type(id), id) for id in self._settles]
        return (
            *(self._code, type(self._id), self._id, self._offset, self._index, self._reply_expected, self._hint),
            *settles,
        )

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

    def _state(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in ParseError.__slots__])

    def __reduce__(self) -> tuple[Any, ...]:
        return remake_parse_error, (type(self), *self._state())

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some arguments of the constructor changed."""
        fields = {name.removeprefix("_"): getattr(self, name) for name in ParseError.__slots__}
        return type(self)(**{**fields, **changes})

    __replace__ = replace  # for `copy.replace`

    # The table of factories, one for each code. A message that looks like a response gets none by default.
    malformed_json: Final = _Factory(ParseErrorCode.MALFORMED_JSON)
    invalid_utf8: Final = _Factory(ParseErrorCode.INVALID_UTF8)
    truncated: Final = _Factory(ParseErrorCode.TRUNCATED)
    invalid_framing: Final = _Factory(ParseErrorCode.INVALID_FRAMING)
    message_too_large: Final = _Factory(ParseErrorCode.MESSAGE_TOO_LARGE)
    too_deep: Final = _Factory(ParseErrorCode.TOO_DEEP)
    batch_too_large: Final = _Factory(ParseErrorCode.BATCH_TOO_LARGE)
    method_too_long: Final = _Factory(ParseErrorCode.METHOD_TOO_LONG)
    id_too_long: Final = _Factory(ParseErrorCode.ID_TOO_LONG)
    integer_too_large: Final = _Factory(ParseErrorCode.INTEGER_TOO_LARGE)
    not_an_object: Final = _Factory(ParseErrorCode.NOT_AN_OBJECT)
    empty_batch: Final = _Factory(ParseErrorCode.EMPTY_BATCH)
    batch_not_allowed: Final = _Factory(ParseErrorCode.BATCH_NOT_ALLOWED)
    duplicate_member: Final = _Factory(ParseErrorCode.DUPLICATE_MEMBER)
    missing_jsonrpc: Final = _Factory(ParseErrorCode.MISSING_JSONRPC)
    invalid_jsonrpc_version: Final = _Factory(ParseErrorCode.INVALID_JSONRPC_VERSION)
    invalid_id_type: Final = _Factory(ParseErrorCode.INVALID_ID_TYPE)
    missing_id: Final = _Factory(ParseErrorCode.MISSING_ID, False)
    ambiguous_message: Final = _Factory(ParseErrorCode.AMBIGUOUS_MESSAGE, False)
    missing_method: Final = _Factory(ParseErrorCode.MISSING_METHOD)
    invalid_method_type: Final = _Factory(ParseErrorCode.INVALID_METHOD_TYPE)
    empty_method: Final = _Factory(ParseErrorCode.EMPTY_METHOD)
    invalid_params_type: Final = _Factory(ParseErrorCode.INVALID_PARAMS_TYPE)
    result_and_error: Final = _Factory(ParseErrorCode.RESULT_AND_ERROR, False)
    invalid_result_type: Final = _Factory(ParseErrorCode.INVALID_RESULT_TYPE, False)
    invalid_error_type: Final = _Factory(ParseErrorCode.INVALID_ERROR_TYPE, False)
    invalid_error_code: Final = _Factory(ParseErrorCode.INVALID_ERROR_CODE, False)
    invalid_error_message: Final = _Factory(ParseErrorCode.INVALID_ERROR_MESSAGE, False)
    unexpected_member: Final = _Factory(ParseErrorCode.UNEXPECTED_MEMBER)


def with_hint(fault: ParseError, hint: Hint) -> None:
    """Add a hint to a fault that is not returned yet."""
    fault._hint = hint
    fault.args = args_of(fault._code, hint)


def remake_parse_error(
    cls: type[Fault],
    code: ParseErrorCode,
    hint: Hint | None,
    id: MessageId,
    index: int | None,
    offset: int | None,
    reply_expected: bool,
    settles: tuple[MessageId, ...],
) -> Fault:
    """Return a `ParseError` from its pickled state."""
    return cls(code, id, offset=offset, index=index, reply_expected=reply_expected, hint=hint, settles=settles)


MISSING: Final = object()
"""The default of a required argument, to find that it is missing. Unlike UNSET, callers never pass it."""


def missing_arguments(callee: str, **arguments: object) -> TypeError:
    """Return the error for missing arguments of a class of the core, worded like CPython's.

    Give all required ones, and MISSING for each that is missing.
    """
    names = [repr(name) for name, value in arguments.items() if value is MISSING]
    plural = "s" * (len(names) != 1)
    text = f"missing {len(names)} required positional argument{plural}: {' and '.join(names)}"
    return TypeError(f"{callee}.__new__() {text}")


def not_a_message(value: object) -> TypeError:
    """Return the error for a value that is passed to an encoder and is not a message."""
    text = f"message must be a Request, a Notification or a Response, not {type(value).__name__}"
    return TypeError(f"{text}; use encode_dict" if issubclass(type(value), dict) else text)


def not_a_dict(value: object, fault: ParseError, messages: tuple[type, ...]) -> Exception:
    """Return the error for a value that `encode_dict` refuses: its fault, or what writes a message.

    Args:
        value: The value.
        fault: Its first fault.
        messages: The classes of messages.
    """
    item = value[fault._index] if isinstance(value, list) and fault._index is not None else value
    if isinstance(item, messages):
        return TypeError(f"message must be a dict or a list of dicts, not {type(item).__name__}; use encode")
    return fault
