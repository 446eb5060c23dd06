"""Conventions: how a protocol on top of JSON-RPC cancels requests, reports progress, pings and says goodbye.

JSON-RPC 2.0 defines none of these. The convention of another protocol is a subclass of `Convention`.

    Convention         none
    JsonRpcConvention  the default: the request `rpc.ping`; reads `rpc.goodbye`, and sends it if asked to
    LspConvention      LSP 3.17: `$/cancelRequest`, `$/progress`, `workDoneToken`; the request `$/ping`
    AcpConvention      Agent Client Protocol: `$/cancel_request`; the request `$/ping`
    McpConvention      MCP up to 2025-11-25: `notifications/cancelled`, `notifications/progress`, `_meta.progressToken`,
                       `ping`

A peer need not know the ping: the error "Method not found" is a response too.

A side that begins to close says goodbye: the notification has the id of the last request that this side has read. The
peer sends no more requests, and knows that later ones are not served (like GOAWAY in HTTP/2).

A convention also says where a message carries its trace context (`traceparent` and `tracestate` of W3C Trace Context):
next to the members of JSON-RPC, or in MCP's `_meta`.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any, ClassVar, NamedTuple, TypeGuard

from ..codec import Notification, Request
from ..codec._backend import decoded
from ..codes import LspErrorCode
from ..errors import run_callback
from ..hooks import trace_in
from ..types import MessageId

ProgressToken = int | str
MethodAndParams = tuple[str, dict[str, Any]]
"""The method and the params of a notification."""


class Cancellation(NamedTuple):
    """The peer cancels one of its requests. `reason` is for people, or None."""

    id: MessageId
    reason: str | None


class Progress(NamedTuple):
    """The peer reports progress on the call with this token. The protocol defines what `value` is."""

    token: ProgressToken
    value: Any


class Goodbye(NamedTuple):
    """The peer begins to close. `last` is the id of the last request that it has read; None: it has read none."""

    last: MessageId


class Convention:
    """No cancellation, no progress, no ping, no goodbye: the base class of the other conventions.

    What `cancellation`, `goodbye`, `read` and `trace` raise, and params that cannot be written, are reported as faults:
    the notification is not sent, or is served like any other, and the session continues.

    Attributes:
        methods: The notifications that `read` understands.
        ping: The method of a request that asks for any response, or None. A ping overtakes messages that wait for an
            ordered method.
        never_cancelled: The methods whose requests neither side cancels.
        cancelled_error: Code and message of the response to a cancelled request; None: it gets no response.
        ordered: The prefixes of the methods of notifications that are ordered, unless their handlers say otherwise; see
            `ordered` in `HandlerOptions`.
        token_members: The members of params that carry tokens. An async generator that has no parameters of these names
            is called without them.
    """

    methods: ClassVar[frozenset[str]] = frozenset()
    ping: ClassVar[str | None] = None
    never_cancelled: ClassVar[frozenset[str]] = frozenset()
    cancelled_error: ClassVar[tuple[int, str] | None] = None
    ordered: ClassVar[tuple[str, ...]] = ()
    token_members: ClassVar[frozenset[str]] = frozenset()

    def cancellation(self, id: int | str, reason: str | None) -> MethodAndParams | None:
        """Return the notification that cancels a call; None if the protocol has none."""
        return None

    def cancel_method(self) -> str | None:
        """Return the method of the notification that cancels a call; None if the protocol has none."""
        notice = self.cancellation(0, None)  # the method is the same for every id
        return None if notice is None else notice[0]

    def goodbye(self, last: MessageId) -> MethodAndParams | None:
        """Return the notification that says goodbye; None if the protocol has none. `last` is as in `Goodbye`."""
        return None

    def read(self, method: str, params: Any) -> Cancellation | Progress | Goodbye | None:
        """Read a notification whose method is one of `methods`. Returns None for any other."""
        return None

    def token(self, params: Any) -> ProgressToken | None:
        """Return the progress token in the params of a request, or None."""
        return None

    def with_token(self, params: Any, token: ProgressToken) -> Any:
        """Return the params with a progress token added, or unchanged if they cannot carry one."""
        return params

    def progress(self, token: ProgressToken, value: Any) -> MethodAndParams | None:
        """Return the notification that reports progress on a request; None if the protocol has none."""
        return None

    def item_token(self, params: Any) -> ProgressToken | None:
        """Return the token in the params of a request that asks for parts of the result as progress, or None."""
        return self.token(params)

    def with_item_token(self, params: Any, token: ProgressToken) -> Any:
        """Return the params with a token that asks for this, or unchanged if they cannot carry one."""
        return self.with_token(params, token)

    def result_of(self, items: list[Any] | None) -> Any:
        """Return the result that consists of these items; `items` is None if they were sent as progress."""
        return items

    def trace(self, params: Any, extra: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the trace context of a message by its members' names; empty if the message has none.

        Args:
            params: The params, decoded.
            extra: The members that JSON-RPC does not define.
        """
        return trace_in(extra)

    def with_trace(self, params: Any, trace: dict[str, str]) -> tuple[Any, dict[str, str] | None]:
        """Return the params and the further members of a message that carries a trace context."""
        return params, trace


class JsonRpcConvention(Convention):
    """JSON-RPC 2.0 without a protocol on top of it.

    Names that begin with `rpc.` are reserved for extensions (section 4.3), so no handler has one of them. The params of
    `rpc.goodbye` are an object with the member `last`.

    Args:
        says_goodbye: Whether a session that closes sends `rpc.goodbye`. It is an extension of this package: other peers
            do not know it.
    """

    methods: ClassVar[frozenset[str]] = frozenset({"rpc.goodbye"})
    ping: ClassVar[str | None] = "rpc.ping"

    def __init__(self, *, says_goodbye: bool = False) -> None:
        self._says_goodbye = says_goodbye

    def goodbye(self, last: MessageId) -> MethodAndParams | None:
        return ("rpc.goodbye", {"last": last}) if self._says_goodbye else None

    def read(self, method: str, params: Any) -> Cancellation | Progress | Goodbye | None:
        # False means a goodbye without `last`, because null has its own meaning: no request was read.
        last = params.get("last", False) if isinstance(params, dict) else False
        return Goodbye(last) if last is None or _is_token(last) or type(last) is float else None


class LspConvention(Convention):
    """Language Server Protocol 3.17: "Cancellation Support", "Progress Support", "Work Done Progress".

    Progress is any value. A cancelled request still gets a response: -32800 or a result. LSP has no ping: `$/ping` gets
    -32601, as any unknown request that begins with `$/` must. A request with a `partialResultToken` gets its result in
    parts. If the parts are lists, the result of a request without a token is their concatenation. Notifications that
    change documents are ordered, because they determine the meaning of later requests.
    """

    methods: ClassVar[frozenset[str]] = frozenset({"$/cancelRequest", "$/progress"})
    ping: ClassVar[str | None] = "$/ping"
    cancelled_error: ClassVar[tuple[int, str] | None] = (LspErrorCode.REQUEST_CANCELLED, "Request cancelled")
    ordered: ClassVar[tuple[str, ...]] = ("textDocument/did", "notebookDocument/did")
    token_members: ClassVar[frozenset[str]] = frozenset({"workDoneToken", "partialResultToken"})

    def cancellation(self, id: int | str, reason: str | None) -> MethodAndParams | None:
        return "$/cancelRequest", {"id": id}

    def read(self, method: str, params: Any) -> Cancellation | Progress | Goodbye | None:
        if not isinstance(params, dict):
            return None
        if method == "$/cancelRequest":
            id = params.get("id")
            return Cancellation(id, None) if _is_token(id) else None
        token = params.get("token")
        return Progress(token, params.get("value")) if _is_token(token) else None

    def token(self, params: Any) -> ProgressToken | None:
        return _token_in(params, "workDoneToken")

    def with_token(self, params: Any, token: ProgressToken) -> Any:
        return _with_member(params, "workDoneToken", token)

    def item_token(self, params: Any) -> ProgressToken | None:
        return _token_in(params, "partialResultToken")

    def with_item_token(self, params: Any, token: ProgressToken) -> Any:
        return _with_member(params, "partialResultToken", token)

    def result_of(self, items: list[Any] | None) -> Any:
        # LSP 3.17, "Partial Result Progress": a part of a result that is an array is an array of some of its items.
        if items and all(isinstance(item, list) for item in items):
            return [one for item in items for one in item]
        return items

    def progress(self, token: ProgressToken, value: Any) -> MethodAndParams | None:
        return "$/progress", {"token": token, "value": value}


class AcpConvention(Convention):
    """Agent Client Protocol 1: "Cancellation". It has no progress: agents send `session/update`.

    A cancelled request still gets a response: -32800 or a result. There is no ping: `$/ping` gets -32601. Updates of a
    session are ordered, because each is a fragment of a message or of a plan.
    """

    methods: ClassVar[frozenset[str]] = frozenset({"$/cancel_request"})
    ping: ClassVar[str | None] = "$/ping"
    cancelled_error: ClassVar[tuple[int, str] | None] = (LspErrorCode.REQUEST_CANCELLED, "Request cancelled")
    ordered: ClassVar[tuple[str, ...]] = ("session/update",)

    def cancellation(self, id: int | str, reason: str | None) -> MethodAndParams | None:
        return "$/cancel_request", {"requestId": id}

    def read(self, method: str, params: Any) -> Cancellation | Progress | Goodbye | None:
        id = params.get("requestId") if isinstance(params, dict) else None
        return Cancellation(id, None) if _is_token(id) else None


class McpConvention(Convention):
    """Model Context Protocol, "Cancellation" and "Progress", up to revision 2025-11-25.

    Progress is a dict with `progress`, a number, and optionally `total`, a number, and `message`, a str; anything else
    is not read as progress. The items of an async generator are such dicts, and the result is empty: MCP has no results
    in parts. A cancelled request gets no response, and `initialize` is never cancelled.
    """

    methods: ClassVar[frozenset[str]] = frozenset({"notifications/cancelled", "notifications/progress"})
    ping: ClassVar[str | None] = "ping"
    never_cancelled: ClassVar[frozenset[str]] = frozenset({"initialize"})
    token_members: ClassVar[frozenset[str]] = frozenset({"_meta"})

    def cancellation(self, id: int | str, reason: str | None) -> MethodAndParams | None:
        return "notifications/cancelled", {"requestId": id} if reason is None else {"requestId": id, "reason": reason}

    def read(self, method: str, params: Any) -> Cancellation | Progress | Goodbye | None:
        if not isinstance(params, dict):
            return None
        if method == "notifications/cancelled":
            id, reason = params.get("requestId"), params.get("reason")
            return Cancellation(id, reason if isinstance(reason, str) else None) if _is_token(id) else None
        token = params.get("progressToken")
        if not _is_token(token):
            return None
        value = {name: value for name, value in params.items() if name != "progressToken"}
        # Some peers serialize every field of a class, so they send null for optional members.
        for name in ("total", "message"):
            if name in value and value[name] is None:
                del value[name]
        is_valid = _is_number(value.get("progress")) and _is_number(value.get("total", 0))
        return Progress(token, value) if is_valid and isinstance(value.get("message", ""), str) else None

    def token(self, params: Any) -> ProgressToken | None:
        return _token_in(params.get("_meta"), "progressToken") if isinstance(params, dict) else None

    def with_token(self, params: Any, token: ProgressToken) -> Any:
        meta = params.get("_meta", {}) if isinstance(params, dict) else {}
        if (params is None or isinstance(params, dict)) and isinstance(meta, dict):
            return {**(params or {}), "_meta": {**meta, "progressToken": token}}
        return params

    def progress(self, token: ProgressToken, value: Any) -> MethodAndParams | None:
        return "notifications/progress", {"progressToken": token, **value}

    def result_of(self, items: list[Any] | None) -> Any:
        return {}

    def trace(self, params: Any, extra: Mapping[str, Any] | None) -> dict[str, str]:
        return trace_in(params.get("_meta")) if isinstance(params, dict) else {}

    def with_trace(self, params: Any, trace: dict[str, str]) -> tuple[Any, dict[str, str] | None]:
        meta = params.get("_meta", {}) if isinstance(params, dict) else {}
        if (params is None or isinstance(params, dict)) and isinstance(meta, dict):
            return {**(params or {}), "_meta": {**meta, **trace}}, None
        return params, None


def _is_token(value: object) -> TypeGuard[ProgressToken]:
    """Return whether a value can be an id or a token: an int or a str in both protocols, never a bool."""
    return type(value) is int or type(value) is str


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _with_member(params: Any, name: str, value: Any) -> Any:
    return {**(params or {}), name: value} if params is None or isinstance(params, dict) else params


def _token_in(params: object, name: str) -> ProgressToken | None:
    token = params.get(name) if isinstance(params, dict) else None
    return token if _is_token(token) else None


class Withdrawn(NamedTuple):
    """Takes the place of a request whose cancellation was read with it: so it never begins."""

    request: Request

    @property
    def id(self) -> MessageId:
        """The id of the request."""
        return self.request.id


def look_ahead(convention: Convention, items: MutableSequence[Any]) -> None:
    """Put a `Withdrawn` in place of each request in a list whose cancellation follows, so that it never begins.

    The list contains what the codec returned. A cancellation withdraws only one request, even if it is read ahead
    several times: what a turn leaves undelivered is read ahead again, together with newer messages.
    """
    kinds = set(map(type, items))  # runs in C: most chunks contain neither a notification nor a batch
    method = convention.cancel_method() if Notification in kinds or list in kinds else None
    if method is not None:
        _withdraw(convention, method, items, {})


def _withdraw(
    convention: Convention,
    method: str,
    items: MutableSequence[Any],
    places: dict[tuple[type, MessageId], tuple[MutableSequence[Any], int] | None],
) -> None:
    """Replace requests in a list.

    Args:
        places: For each earlier id, the list and the index of its request; None if the request is withdrawn already.
    """
    for index, item in enumerate(items):
        kind = type(item)
        if kind is Request:
            places[type(item.id), item.id] = items, index
        elif kind is Withdrawn:
            places[type(item.id), item.id] = None  # the next cancellation of this id has withdrawn it
        elif kind is list:
            _withdraw(convention, method, item, places)
        elif kind is Notification and item.method == method:
            # An exception raised here is reported when the notification is received.
            notice = run_callback(lambda _: None, convention.read, method, decoded(item.params))
            place = places.pop((type(notice.id), notice.id), None) if type(notice) is Cancellation else None
            if place is not None:
                found, at = place
                if found[at].method not in convention.never_cancelled:
                    found[at] = Withdrawn(found[at])
