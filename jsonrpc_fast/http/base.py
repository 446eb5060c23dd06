"""The common part of the endpoints: options, checks of a request, and responses that need no function.

Every way into an endpoint makes the same checks in the same order: those of the headers before the body is read, those
of the body before it is decoded. A body that does not have its declared length is refused: a framework has already read
a part of it, or it was truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, TypedDict, Unpack

from ..codec._json import Default
from ..handlers import Handlers
from ..handlers.dispatch import Dispatch
from ..hooks import Hooks, trace_in_headers
from ..profile import JSONRPC, Profile
from ..support import check_callable, check_count, check_type, unknown_option
from .page import CONTENT_SECURITY_POLICY, PAGE
from .requests import (
    Access,
    Admitted,
    Header,
    HttpResponse,
    Refusal,
    check_content,
    check_repeated,
    check_status,
    checked_fields,
    declared_length,
    is_loopback,
    text_response,
)

Respond: TypeAlias = "Callable[[Any, bytes], tuple[int, Iterable[Header]]]"
HttpHeaders: TypeAlias = "Mapping[str, str] | Iterable[tuple[str, str]]"
"""The headers of a request as a framework holds them: by name, or as pairs."""

JSON_TYPE: Final = (b"content-type", b"application/json")


class EndpointOptions(TypedDict, total=False):
    """The keyword options of every endpoint.

    Attributes:
        profile: The rules and limits for decoding.
        max_body_bytes: The maximum size of a request's body in bytes; by default that of the profile's limits.
        allowed_hosts: The accepted values of `Host`; see `Access`.
        allowed_origins: The accepted values of `Origin`; see `Access`.
        context: Called with the ASGI scope, the WSGI environment, or the `request` of a framework, before the body is
            read. Its result is `RequestContext.context` for the functions; it may raise a `Refusal`. By default the
            context is the scope itself.
        respond: Called with the context and the JSON-RPC response, or b"". Returns the status and further
            headers, with names in lower case. It is not async.
        health: The path, relative to where the application is mounted, that responds to a GET with 200; None: no path.
            "/health" by default.
        page: Whether a browser that opens the address gets a page on which people read and try the methods. The
            handlers need `discover`. The page asks for the methods with the visitor's own authorization.
        raw: Whether functions registered with `unpack=False` get `Raw` params.
        default: Called with a value in a result or in error data that cannot be written as JSON; see `encode`.
        hooks: An object with methods for metrics, traces and logs; see `jsonrpc_fast.hooks`. A trace context is read
            from the message, or else from the headers of the request.
    """

    profile: Profile
    max_body_bytes: int | None
    allowed_hosts: Iterable[str] | None
    allowed_origins: Iterable[str] | None
    context: Callable[[Any], Any] | None
    respond: Respond | None
    health: str | None
    page: bool
    raw: bool
    default: Default
    hooks: Hooks | None


class BaseEndpoint:
    """The options of an endpoint; see `Endpoint`."""

    _is_async: ClassVar[bool] = False

    def __init__(
        self, handlers: Handlers | Mapping[str, Callable[..., Any]], **options: Unpack[EndpointOptions]
    ) -> None:
        # Python lets any name pass in `**options`, and a wrong one must not be ignored.
        for name in options.keys() - EndpointOptions.__annotations__.keys():
            raise unknown_option("an endpoint", name, EndpointOptions.__annotations__)
        profile, max_body_bytes = options.get("profile", JSONRPC), options.get("max_body_bytes")
        raw, default, hooks = options.get("raw", False), options.get("default"), options.get("hooks")
        self._context = options.get("context")
        self._respond = options.get("respond")
        self._health = options.get("health", "/health")
        self._page = options.get("page", False)
        check_type("health", self._health, str, may_be_none=True)
        check_count("max_body_bytes", max_body_bytes, 1)
        check_callable("context", self._context, may_be_async=self._is_async)
        check_callable("respond", self._respond)
        check_type("page", self._page, bool)
        found = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        if self._page and found.find("rpc.discover") is None:
            raise ValueError('page needs handlers that are described: Handlers(discover={"title": …, "version": …})')
        self._dispatch = found.prepare(profile, hooks=hooks, raw=raw, delimited=False, default=default)
        self._is_observed = hooks is not None
        self._max_body_bytes = profile.limits.message_bytes if max_body_bytes is None else max_body_bytes
        self._access = Access(options.get("allowed_hosts"), options.get("allowed_origins"))
        self._admitted = Admitted()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} open={self._access.exposure()}>"

    def _admit(self, headers: Mapping[bytes, bytes], is_local: bool) -> int | None:
        """Check a POST before its body is received, and return the declared length of the body."""
        get = headers.get
        key = is_local, get(b"host"), get(b"origin"), get(b"content-type"), get(b"content-encoding")
        # Clients repeat these headers with each request, so the result of the checks is remembered.
        if key not in self._admitted:
            self._access.check(key[1], key[2], is_local)
            check_content(headers)
            self._admitted.remember(key)
        length = get(b"content-length")
        return None if length is None else declared_length(length, self._max_body_bytes)

    def _dispatch_for(self, headers: Mapping[bytes, bytes]) -> Dispatch:
        """Return the dispatcher that reports the trace context in headers to hooks."""
        return self._dispatch.continuing(trace_in_headers(headers))

    def _respond_to_other_method(
        self, method: str, path: str, headers: Mapping[bytes, bytes], is_local: bool
    ) -> HttpResponse:
        """Return the response to a request that is not a POST."""
        self._access.check(headers.get(b"host"), headers.get(b"origin"), is_local)
        is_health = path == self._health
        methods = b"GET, HEAD, POST, OPTIONS" if self._page else b"POST, OPTIONS"
        allow = b"allow", b"GET, HEAD, OPTIONS" if is_health else methods
        # Without CORS headers a browser refuses to send a cross-origin JSON request, as intended.
        if method == "OPTIONS":
            return 204, [allow], b""
        if is_health and method in ("GET", "HEAD"):
            return text_response(200, b"ok\n", method)
        if self._page and method in ("GET", "HEAD") and b"text/html" in headers.get(b"accept", b""):
            fields: list[Header] = [
                (b"content-type", b"text/html; charset=utf-8"),
                (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"no-referrer"),
                (b"vary", b"accept"),
                (b"content-length", b"%d" % len(PAGE)),
            ]
            return 200, fields, b"" if method == "HEAD" else PAGE
        raise Refusal(405, "JSON-RPC messages are sent with POST.", [allow])

    def _respond_with(self, context: Any, response: bytes) -> HttpResponse:
        status = 200 if response else 204
        fields: list[Header] = []
        if self._respond is not None:
            status, added = self._respond(context, response)
            check_status(status, 200)
            # A client reads the body of such a response as the beginning of the next one (RFC 9112, section 6.3).
            if response and status in (204, 205, 304):
                raise ValueError(f"a response with the status {status} has no body")
            fields += checked_fields(added)
        if response:
            fields += (JSON_TYPE, (b"content-length", b"%d" % len(response)))
        return status, fields, response


def checked_headers(headers: HttpHeaders) -> dict[bytes, bytes]:
    """Return the headers of a request, with names in lower case; two values of one that is checked are a Refusal."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    fields = [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]
    found = dict(fields)
    if len(found) != len(fields):
        check_repeated(fields)
    return found


def may_be_local(address: Sequence[Any] | None) -> bool:
    """Return whether an address belongs to this machine, or is unknown."""
    # An unknown address is treated as local, because the check of `Host` and `Origin` is stricter then.
    return not address or not address[0] or is_loopback(address[0])


def joined(response: HttpResponse) -> tuple[int, dict[str, str], bytes]:
    """Return a response in the form for a framework. The values of a repeated header are joined with a comma."""
    status, headers, body = response
    found: dict[str, str] = {}
    for field in headers:
        name, value = (part.decode("latin-1") for part in field)
        found[name] = f"{found[name]}, {value}" if name in found else value
    return status, found, body
