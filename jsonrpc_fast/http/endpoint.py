"""An ASGI application that serves JSON-RPC over POST.

    app = Endpoint({"add": lambda a, b: a + b})  # uvicorn module:app

The method `serve` is for frameworks that do not speak ASGI, such as aiohttp, or that have already received the body.

Rules:
  - A message or a batch in the body of a POST gets 200 and the response, or 204 if there is no response. JSON-RPC
    errors have the status 200 too, unless `respond` says otherwise. A fault of the HTTP request gets a status and plain
    text, before anything is decoded: 400, 403 and 421 (origin and host), 405, 408, 413, 415; and the connection is
    closed if the body is not read.
  - When the client disconnects, the functions that serve its request are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from ..handlers import Handlers, is_awaitable
from ..support import check_count, check_seconds, is_foreign_cancellation
from .base import JSON_TYPE, BaseEndpoint, EndpointOptions, HttpHeaders, checked_headers, joined, may_be_local
from .guard import Cancellable, closing_fields, serve_other, user_failures, within
from .requests import (
    HttpResponse,
    Receive,
    Refusal,
    Scope,
    Send,
    check_body,
    check_repeated,
    is_loopback,
    read_body,
    refusal_response,
)


class Endpoint(BaseEndpoint):
    """An ASGI application that serves JSON-RPC over POST, at any path. It needs asyncio.

    Args:
        handlers: A `Handlers`, or functions by method.
        body_seconds: How long a body may take to arrive; None: no limit. 30 by default.
        timeout: As in `Handlers.dispatch_async`: seconds for the functions of one body; None: no limit.
        max_handlers: As in `Handlers.dispatch_async`: how many async functions of a batch run at a time.
        options: See `EndpointOptions`. `context` may be an async function.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    _is_async = True

    def __init__(
        self,
        handlers: Handlers | Mapping[str, Callable[..., Any]],
        *,
        body_seconds: float | None = 30.0,
        timeout: float | None = None,
        max_handlers: int = 256,
        **options: Unpack[EndpointOptions],
    ) -> None:
        check_seconds("body_seconds", body_seconds)
        check_seconds("timeout", timeout)
        check_count("max_handlers", max_handlers, 1, may_be_none=False)
        super().__init__(handlers, **options)
        self._timeout = timeout
        self._max_handlers = max_handlers
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI scope: an HTTP request, or the lifespan of the server. A WebSocket is refused."""
        if scope["type"] != "http":
            await serve_other(scope["type"], receive, send)
            return
        fields: Any = scope["headers"]
        if type(fields) is not list:
            fields = list(fields)
        headers: dict[bytes, bytes] = dict(fields)
        server = scope.get("server")
        is_local = server is not None and is_loopback(server[0])
        try:
            # A dict keeps only the last of repeated headers, which would hide the other values.
            if len(headers) != len(fields):
                check_repeated(fields)
            if scope["method"] == "POST":
                response = await self._post(headers, is_local, scope, scope.get("client"), receive, None)
                if response is None:
                    return
                status, fields, body = response
            else:
                # In ASGI the path includes `root_path`, the place where the application is mounted.
                path = scope["path"].removeprefix(scope.get("root_path", ""))
                status, fields, body = self._respond_to_other_method(scope["method"], path, headers, is_local)
        except Refusal as refusal:
            status, fields, body = refusal_response(refusal, scope["method"], closing_fields(scope, headers))
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    async def serve(
        self,
        method: str,
        headers: HttpHeaders,
        body: bytes | Callable[[], bytes | Awaitable[bytes]],
        *,
        client: Sequence[Any] | None = None,
        request: Any = None,
        path: str = "",
    ) -> tuple[int, dict[str, str], bytes]:
        """Serve a request that any framework has received. All checks of the endpoint are made.

        Args:
            method: The method: "POST".
            headers: The headers of the request.
            body: The body; or a sync or async function that reads it, called after the headers have been checked.
            client: The address of the client, for `RequestContext.peer`: host and port, as far as they are known. If it
                belongs to this machine, or is None, the stricter default of `allowed_hosts` applies.
            request: The framework's request: `RequestContext.context` for the functions, or what the hook `context`
                gets.
            path: The path, for `health`.

        Returns:
            The status, the headers and the body of the response. The values of a repeated header are joined with a
            comma.

        Raises:
            TypeError: The body is not bytes.
        """
        response: HttpResponse | None
        try:
            found = checked_headers(headers)
            if method == "POST":
                response = await self._post(found, may_be_local(client), request, client, None, body)
                assert response is not None
            else:
                response = self._respond_to_other_method(method, path, found, may_be_local(client))
        except Refusal as refusal:
            response = refusal_response(refusal, method)
        return joined(response)

    async def _post(
        self,
        headers: Mapping[bytes, bytes],
        is_local: bool,
        request: Any,
        peer: Any,
        receive: Receive | None,
        given: Any,
    ) -> HttpResponse | None:
        """Serve a POST whose body is received with `receive` or was given; return None if the client disconnected."""
        # All checks of the headers come before the first byte of the body is received.
        declared = self._admit(headers, is_local)
        context: Any = request
        if self._context is not None:
            with user_failures():
                context = self._context(request)
                if is_awaitable(context):
                    context = await context
        if receive is None:
            reading = self._read_given(given, declared)
        else:
            reading = read_body(receive, self._max_body_bytes, declared)
        body: Any = await within(self._body_seconds, reading, 408, "The body did not arrive in time.")
        if body is None:
            return None
        try:
            dispatch = self._dispatch_for(headers) if self._is_observed else self._dispatch
            response: Any = dispatch.start(body, context, peer, self._timeout, self._max_handlers)
            if type(response) is not bytes:
                # A coroutine. Its first step runs here: most functions end in it, and need no guard.
                try:
                    response = await Cancellable(response, response.send(None), receive=receive)
                except StopIteration as end:
                    response = end.value
                if response is None:
                    return None
        except asyncio.CancelledError as error:
            # A function may await a future that is cancelled elsewhere. Only the cancellation of this task itself ends
            # the request.
            if not is_foreign_cancellation(error):
                raise
            response = self._dispatch.failed(body, error)
        if self._respond is None and response:
            return 200, [JSON_TYPE, (b"content-length", b"%d" % len(response))], response
        with user_failures():
            return self._respond_with(context, response)

    async def _read_given(self, given: bytes | Callable[[], bytes | Awaitable[bytes]], declared: int | None) -> Any:
        """Return a body, or the body that a function reads."""
        body: Any = given() if callable(given) else given
        if is_awaitable(body):
            body = await body
        check_body(body, self._max_body_bytes, declared)
        return body
