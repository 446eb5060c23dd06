"""The options of a session: their types, their defaults and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict, Unpack, get_args

from ..codec import Notification
from ..codec._json import Default
from ..codec.encoders import PLAIN, Encoders
from ..errors import RpcError
from ..hooks import FoundHooks, Hooks
from ..support import check_callable, check_count, check_seconds, check_type, unknown_option
from ..types import TIMEOUT_SECONDS, UNSET, Unset
from .conventions import Convention, JsonRpcConvention

ResponsePolicy = Literal["always", "never", "limited"]


class SessionOptions(TypedDict, total=False):
    """The keyword options of `Session`.

    Attributes:
        timeout: Seconds until a call times out, unless the call says otherwise; None: never. 300 by default.
        convention: How the protocol cancels requests and reports progress; by default not at all.
        hooks: An object with methods for metrics and traces; see `jsonrpc_fast.hooks`.
        errors: Exception classes by error code, for what a call raises: subclasses of RpcError with the same arguments.
        response_policy: Whether malformed messages without a certain id get an error response: "always", "never" or
            "limited", which is 10 at once and then 1 per second. The default is "never" for a `StdioClient`, whose
            child may print text, and "always" for other transports.
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
    response_policy: ResponsePolicy | Unset
    id_factory: Callable[[], int | str] | None
    default: Default
    extra: Mapping[str, Any] | None
    context: Any
    max_calls: int
    max_handlers: int
    max_inbox: int
    inbox_bytes: int
    response_bytes: int
    heartbeat_seconds: float | None
    close_seconds: float
    end_seconds: float | Unset | None


class Rules:
    """The options of a session, checked: what is the same for all sessions of a server. It never changes.

    Args:
        options: See `SessionOptions`.

    Attributes:
        hooks: The methods of the hooks, each of which is None if there is none.
        is_traced: Whether a hook sees requests.
        has_cancellations: Whether the convention can cancel requests.
        encoders: Write the messages. The next three are its functions, with `default`.

    The other attributes are the options, with their defaults.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type.
        ValueError: A value is out of range.
    """

    timeout: float | None = TIMEOUT_SECONDS
    convention: Convention = JsonRpcConvention()
    hooks: FoundHooks = FoundHooks(None)
    errors: Mapping[int, type[RpcError]] = MappingProxyType({})
    response_policy: ResponsePolicy | Unset = UNSET
    id_factory: Callable[[], int | str] | None = None
    default: Default = None
    extra: Mapping[str, Any] | None = None
    context: Any = None
    max_calls: int = 4096
    max_handlers: int = 256
    max_inbox: int = 32768
    inbox_bytes: int = 64 * 1024 * 1024
    response_bytes: int = 1024 * 1024
    heartbeat_seconds: float | None = None
    close_seconds: float = 5.0
    end_seconds: float | Unset | None = UNSET

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        # Python lets any name pass in `**options`, and a wrong one must not be ignored.
        for name in options.keys() - SessionOptions.__annotations__.keys():
            raise unknown_option("a session", name, SessionOptions.__annotations__)
        given = {
            name: value
            for name, value in options.items()
            if value is not None or name not in ("convention", "hooks", "errors")
        }
        for name in SessionOptions.__annotations__:  # in the instance: there they are found faster than in the class
            setattr(self, name, given.get(name, getattr(Rules, name)))
        for name, minimum in (
            ("max_calls", 1),
            ("max_handlers", 1),
            ("max_inbox", 0),
            ("inbox_bytes", 0),
            ("response_bytes", 0),
        ):
            check_count(name, getattr(self, name), minimum, may_be_none=False)
        check_seconds("timeout", self.timeout, may_be_infinite=True)
        check_seconds("heartbeat_seconds", self.heartbeat_seconds, may_be_zero=False)
        check_seconds("close_seconds", self.close_seconds, may_be_none=False)
        if self.end_seconds is not UNSET:
            check_seconds("end_seconds", self.end_seconds)
        check_type("convention", self.convention, Convention)
        if self.heartbeat_seconds is not None and self.convention.ping is None:
            raise ValueError("heartbeat_seconds needs a convention that has a ping")
        check_callable("id_factory", self.id_factory)
        check_callable("default", self.default)
        check_type("extra", self.extra, Mapping, may_be_none=True)
        Notification("", extra=dict(self.extra or {}))  # refuses a name that JSON-RPC defines
        if self.response_policy is not UNSET and self.response_policy not in get_args(ResponsePolicy):
            raise ValueError('response_policy must be "always", "never" or "limited"')
        check_type("errors", self.errors, Mapping)
        for code, kind in self.errors.items():
            if not isinstance(code, int):
                raise TypeError("errors must have error codes as keys")
            if not (isinstance(kind, type) and issubclass(kind, RpcError)):
                raise TypeError("errors must have subclasses of RpcError as values")
        self.errors = dict(self.errors)
        if "hooks" in given:
            self.hooks = FoundHooks(self.hooks)
        hooks = self.hooks
        self.is_traced: bool = any((hooks.request_started, hooks.request_received, hooks.request_served))
        self.has_cancellations: bool = self.convention.cancel_method() is not None
        self._set_encoders(PLAIN)

    def _set_encoders(self, encoders: Encoders) -> None:
        self.encoders: Encoders = encoders
        self.encode_result: Callable[..., bytes] = self._with_default(encoders.encode_result)
        self.encode_request: Callable[..., bytes] = self._with_default(encoders.encode_request)
        self.encode_notification: Callable[..., bytes] = self._with_default(encoders.encode_notification)

    def _with_default(self, encode: Callable[..., bytes]) -> Callable[..., bytes]:
        return encode if self.default is None else partial(encode, default=self.default)

    def with_encoders(self, encoders: Encoders) -> Rules:
        """Return the same rules for messages that these encoders write."""
        if encoders is self.encoders:
            return self
        found = copy(self)
        found._set_encoders(encoders)
        return found


RULES: Final = Rules()
"""The rules of a session without options."""
