"""Requests from 2026-07-28 on: each POST is independent, and nothing remains after its response.

Rules:
  - The headers must agree with the body.
  - When the client disconnects, the request is cancelled.
  - A connection of the server without any state serves another request, because making one costs more than most calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...codec import Notification, ParseError, Request, encode, encode_error
from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError
from ...http import Refusal
from ...http.requests import Admitted
from ...session import SessionOptions
from ...types import MessageId
from ..protocol.meta import member_of
from ..protocol.versions import HANDSHAKE_VERSIONS
from ..server.serving import ConnectionFactory
from ..server.session import ClientConnection
from .headers import Path, check_modern, check_parameters, parameter_headers
from .options import HttpSettings
from .responses import NO_LENGTH, AsgiRequest, ResponseSender
from .transport import HttpTransport

_STATUSES: Final[dict[int, int]] = {
    ErrorCode.METHOD_NOT_FOUND: 404,
    McpErrorCode.HEADER_MISMATCH: 400,
    McpErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    McpErrorCode.UNSUPPORTED_PROTOCOL_VERSION: 400,
}
"""The status of an error response without a session, by code; 200 for others."""
_AFTER_CODE: Final = b'0,"message":""}}'
_CODE_BYTES: Final = 24
"""Longer than any code: up to 64 bits, and the comma."""
_MAX_SPARE: Final = 64
"""The maximum number of connections that wait for a request."""
_MAX_TOOLS: Final = 1024
"""The maximum number of tools whose headers are remembered. Among them are tools that have been removed."""


@dataclass(slots=True, eq=False, repr=False)
class StatelessRequests:
    """Serves the requests without a session of one endpoint.

    Args:
        server: The server.
        settings: The options of the endpoint.
        options: Options of `Session` for each request.
        responder: Writes the responses.
    """

    _server: ConnectionFactory
    _settings: HttpSettings
    _options: SessionOptions
    _responder: ResponseSender
    _parameters: dict[str, tuple[Any, dict[str, Path]]] = field(default_factory=dict)
    _admitted: Admitted = field(default_factory=Admitted)
    _served: set[ClientConnection] = field(default_factory=set)
    _spare: deque[tuple[HttpTransport, ClientConnection]] = field(default_factory=deque)
    _spare_changes: int = 0

    async def post(self, request: AsgiRequest, message: Any) -> None:
        """Respond to a POST.

        Args:
            request: The HTTP request.
            message: The decoded body.

        Raises:
            Refusal: The body is not a message that may be sent, or there is no room for it.
        """
        # A notification belongs to no session, and a client cancels a request by closing the connection.
        if type(message) is Notification:
            await request.send_whole(202, [NO_LENGTH], b"")
            return
        if type(message) is list:
            await request.send_json(400, encode(ParseError.batch_not_allowed().to_response()))
            return
        if type(message) is not Request:
            raise Refusal(400, "The body must be a request or a notification.")
        try:
            # A legacy-only client learns the supported revisions from the error of `initialize`.
            if message.method != "initialize" or not set(HANDSHAKE_VERSIONS).isdisjoint(self._server.versions):
                named = check_modern(request.headers, message, self._admitted)
                if message.method == "tools/call" and isinstance(named, str):
                    self._check_parameters(request.headers, named, message.params)
        except RpcError as error:
            await request.send_json(400, encode_error(message.id, error.code, error.message))
            return
        run = None
        if self._spare and self._spare_changes == self._server.changes:
            # Not removed from the list, because a request that is served at once leaves no state.
            transport, served = self._spare[-1]
            done = served.serve_at_once(message, request.subject)
            if isinstance(done, bytes):
                await request.send_json(_status(message.id, done), done)
                return
            run = done
        if run is None:
            transport, served = await self._take_connection(message)
        else:
            self._spare.pop()
        self._server.connections.add(served)
        self._served.add(served)
        stream = transport.open_stream(request, [message.id])
        stream.status_of = partial(_status, message.id)
        is_complete = False
        try:
            if run is None:
                transport.deliver(message, stream)
            work = None if run is None else served.finish(run, stream)
            is_complete = await self._responder.respond(stream, request, work)
        finally:
            self._server.connections.discard(served)
            self._served.discard(served)
            if is_complete and len(self._spare) < _MAX_SPARE:
                self._spare.append((transport, served))
            else:
                await transport.close()

    async def _take_connection(self, message: Request) -> tuple[HttpTransport, ClientConnection]:
        """Return a connection for one request without a session: a spare one without any state, or a new one."""
        # The capabilities that the spare connections declared are out of date.
        if self._spare_changes != self._server.changes:
            await self.close_spare()
            self._spare_changes = self._server.changes
        for _ in range(len(self._spare)):
            if not self._spare:  # closed meanwhile
                break
            transport, served = self._spare.popleft()
            if served.can_serve(message):
                return transport, served
            if served.can_serve():
                self._spare.append((transport, served))
            else:
                await transport.close()
        transport = HttpTransport(self._server.profile, self._settings.max_stream_bytes, has_session=False)
        served = self._server.connection(transport, self._options)
        await served.start()
        return transport, served

    def end_streams(self) -> None:
        """End the subscriptions that are in progress."""
        for served in self._served:
            served.end_streams()

    async def end(self) -> None:
        """End the requests that are in progress with an error."""
        await asyncio.gather(*[served.close(0.0) for served in self._served])

    async def close_spare(self) -> None:
        """Close the connections that wait for a request."""
        while self._spare:
            transport, _ = self._spare.pop()
            await transport.close()

    def _check_parameters(self, headers: Mapping[bytes, bytes], name: str, params: object) -> None:
        if (schema := self._server.tool_schema(name)) is None:
            return
        known, expected = self._parameters.get(name, (None, {}))
        if known is not schema:
            try:
                expected = parameter_headers(schema)
            except ValueError:  # clients do not use this tool
                expected = {}
            if len(self._parameters) >= _MAX_TOOLS:
                self._parameters.clear()
            self._parameters[name] = schema, expected  # cached with the schema, because a tool may be registered again
        if expected:
            check_parameters(headers, expected, member_of(params, "arguments"))


def _status(id: MessageId, data: bytes) -> int:
    """Return the status of the response to a request without a session."""
    # The response is this package's own text, so it begins with this if it is an error, however long the id is. What
    # follows is the code. The content of a result or of `data` is not looked at.
    before = encode_error(id, 0, "", delimited=False).removesuffix(_AFTER_CODE)
    if not data.startswith(before):
        return 200
    code = data[len(before) : len(before) + _CODE_BYTES].partition(b",")[0]
    return _STATUSES.get(int(code), 200)
