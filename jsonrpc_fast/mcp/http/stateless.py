"""Requests from 2026-07-28 on: each POST is independent, and nothing remains after its response.

Rules:
  - The headers must agree with the body.
  - When the client disconnects, the request is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...codec import Notification, ParseError, Request, encode, encode_error
from ...errors import RpcError
from ...http import Refusal
from ...http.requests import Admitted
from ..protocol.meta import member_of
from ..protocol.versions import HANDSHAKE_VERSIONS
from ..server.serving import Served
from .exchange import Exchanges
from .headers import Path, check_modern, check_parameters, parameter_headers
from .responses import NO_LENGTH, AsgiRequest

_MAX_TOOLS: Final = 1024
"""The maximum number of tools whose headers are remembered. Among them are tools that have been removed."""


@dataclass(slots=True, eq=False, repr=False)
class StatelessRequests:
    """Serves the requests without a session of one endpoint.

    Args:
        server: The server.
        exchanges: Serves the requests.
    """

    _server: Served
    _exchanges: Exchanges
    _parameters: dict[str, tuple[Any, dict[str, Path]]] = field(default_factory=dict)
    _admitted: Admitted = field(default_factory=Admitted)

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
        await self._exchanges.respond(request, message)

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
