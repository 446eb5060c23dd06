"""The options of a session: their types, their defaults and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, Unpack, cast

from .._checks import check_callable, check_count, check_seconds, check_type
from ..codec import Notification
from ..codec._json import Default
from ..errors import RpcError
from ..hooks import Hooks
from ..types import TIMEOUT_SECONDS, UNSET, Unset
from .budget import ResponseBudget, ResponsePolicy, budget_for
from .conventions import Convention
from .room import BOUNDS, Bounds, SessionGroup


class SessionOptions(TypedDict, total=False):
    """The keyword options of `Session`.

    Attributes:
        timeout: Seconds until a call times out, unless the call says otherwise; None: never. 300 by default.
        convention: How the protocol cancels requests and reports progress; by default not at all.
        hooks: An object with methods for metrics and traces; see `jsonrpc_fast.hooks`.
        errors: Exception classes by error code, for what a call raises: subclasses of RpcError with the same arguments.
        response_policy: Whether malformed messages without a certain id get an error response: "always", "never",
            "limited" or a `ResponseBudget`. The default is "never" for a `StdioClient`, whose child may print text, and
            "always" for other transports.
        id_factory: Returns the id of the next call, an int or a str of at most 512 bytes; by default ids count from 1.
        default: As in `encode`, for results, error data and params. Without one, results and error data may hold
            models of msgspec and pydantic (`jsonrpc_fast.handlers.to_jsonable`).
        extra: Further members of each request and notification that this side sends, by name, for a server that wants
            such as "auth" beside the params. It is read at each message, so a dict may be changed after a login.
        context: Any object, such as the user: `SessionContext.context` for the handlers.
        max_calls: Maximum number of calls in flight; further calls wait. 4096 by default.
        max_handlers: Maximum number of async handlers that run at a time, not counting those that wait in `call`. 256
            by default.
        max_inbox: Maximum number of messages that wait for a free handler, or whose handlers wait for the peer; further
            ones are refused. 32768 by default.
        inbox_bytes: Maximum memory of the params of these messages, as an estimate. 64 MiB by default.
        response_bytes: With more bytes than this in the transport's write buffer, nothing is served until the peer
            reads. 1 MiB by default.
        group: A `SessionGroup`: sessions that share bounds of handlers and inboxes, such as all of a server.
        heartbeat_seconds: How long the peer may be silent until it is pinged; after the same time again the connection
            is lost. It must be longer than the peer's loop may be busy. None, the default: no pings.
        close_seconds: Seconds for handlers to finish in `close`, and to end after the connection is lost. 5 by default.
        end_seconds: Seconds for handlers to finish after the peer ended its stream; None: no limit. The default is None
            for a `StdioServer`, whose client may wait for the responses, and `close_seconds` for other transports.
    """

    timeout: float | None
    convention: Convention | None
    hooks: Hooks | None
    errors: Mapping[int, type[RpcError]] | None
    response_policy: ResponsePolicy | ResponseBudget | Unset
    id_factory: Callable[[], int | str] | None
    default: Default
    extra: Mapping[str, Any] | None
    context: Any
    max_calls: int
    max_handlers: int
    max_inbox: int
    inbox_bytes: int
    response_bytes: int
    group: SessionGroup | None
    heartbeat_seconds: float | None
    close_seconds: float
    end_seconds: float | Unset | None


_DEFAULTS: Final[dict[str, Any]] = {
    "timeout": TIMEOUT_SECONDS,
    "convention": None,
    "hooks": None,
    "errors": None,
    "response_policy": UNSET,
    "id_factory": None,
    "default": None,
    "extra": None,
    "context": None,
    "max_calls": 4096,
    "heartbeat_seconds": None,
    "close_seconds": 5.0,
    "end_seconds": UNSET,
    **Bounds._field_defaults,
}
_MINIMUMS: Final = {"max_calls": 1, "max_handlers": 1, "max_inbox": 0, "inbox_bytes": 0, "response_bytes": 0}


def check_options(**options: Unpack[SessionOptions]) -> SessionOptions:
    """Check the values of options.

    Returns:
        All options, with the defaults of those that are not given. They must not be changed.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type.
        ValueError: A value is out of range.
    """
    if not options:
        return cast("SessionOptions", _DEFAULTS)
    # Python lets any name pass in `**options`, and a wrong one must not be ignored.
    for name in options:
        if name not in _DEFAULTS:
            raise TypeError(f"a session has no option {name!r}")
    values = {**_DEFAULTS, **options}
    checked = cast("SessionOptions", values)
    for name, minimum in _MINIMUMS.items():
        check_count(name, values[name], minimum, may_be_none=False)
    check_seconds("timeout", checked["timeout"], may_be_infinite=True)
    check_seconds("heartbeat_seconds", checked["heartbeat_seconds"], may_be_zero=False)
    check_seconds("close_seconds", checked["close_seconds"], may_be_none=False)
    if checked["end_seconds"] is not UNSET:
        check_seconds("end_seconds", checked["end_seconds"])
    check_type("convention", checked["convention"], Convention, may_be_none=True)
    convention = checked["convention"]
    if checked["heartbeat_seconds"] is not None and convention is not None and convention.ping is None:
        raise ValueError("heartbeat_seconds needs a convention that has a ping")
    check_type("group", checked["group"], SessionGroup, may_be_none=True)
    check_callable("id_factory", checked["id_factory"])
    check_callable("default", checked["default"])
    check_type("extra", checked["extra"], Mapping, may_be_none=True)
    Notification("", extra=dict(checked["extra"] or {}))  # refuses a name that JSON-RPC defines
    if not isinstance(checked["response_policy"], Unset):
        budget_for(checked["response_policy"])
    check_type("errors", checked["errors"], Mapping, may_be_none=True)
    for code, kind in dict(checked["errors"] or {}).items():
        if not isinstance(code, int):
            raise TypeError("errors must have error codes as keys")
        if not (isinstance(kind, type) and issubclass(kind, RpcError)):
            raise TypeError("errors must have subclasses of RpcError as values")
    return checked


def bounds_of(checked: SessionOptions) -> Bounds:
    """Return the bounds among checked options."""
    values = cast("dict[str, Any]", checked)
    return BOUNDS if values is _DEFAULTS else Bounds(**{name: values[name] for name in Bounds._field_defaults})
