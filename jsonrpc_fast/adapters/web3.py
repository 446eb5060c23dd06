"""The providers of web3.py, on this package's codec. Needs web3.

A program changes one import:

    from jsonrpc_fast.adapters.web3 import AsyncIPCProvider, IPCProvider, WebSocketProvider    # was web3

Responses stay dicts, without checks: web3.py checks them, as before, so its exceptions, batches and middlewares are the
same. Requests are compact UTF-8, without escapes.
"""

from __future__ import annotations

import asyncio
from json import JSONDecodeError
from typing import Any, Final

from . import json

try:
    import web3
    from web3._utils.encoding import FriendlyJsonSerde, Web3JsonEncoder
    from web3._utils.threads import Timeout
    from web3.providers.async_base import AsyncJSONBaseProvider
    from web3.providers.base import JSONBaseProvider
except ImportError as _missing:
    raise ImportError('this adapter needs web3.py 7 or later: pip install "web3>=7.10"') from _missing

__all__ = ["AsyncHTTPProvider", "AsyncIPCProvider", "HTTPProvider", "IPCProvider", "WebSocketProvider"]

_legacy: Final[Any] = getattr(web3, "LegacyWebSocketProvider", None)  # not in web3.py 8


def encode(message: Any) -> bytes:
    """Return a value as JSON, as web3.py writes it. Raises Web3TypeError."""
    try:
        return json.dumps(message, cls=Web3JsonEncoder, ensure_ascii=False).encode()
    except (TypeError, ValueError):  # what the json module cannot write, or a lone surrogate
        return FriendlyJsonSerde().json_encode(message, Web3JsonEncoder).encode()


class _Fast(JSONBaseProvider):
    """A mixin for the providers of `Web3`."""

    def encode_rpc_request(self, method: Any, params: Any) -> bytes:
        """Return a request as JSON. Raises Web3TypeError."""
        id = next(self.request_counter)
        return encode({"jsonrpc": "2.0", "method": method, "params": params or [], "id": id})

    decode_rpc_response: Any = staticmethod(json.loads_or(JSONBaseProvider.decode_rpc_response))


class _AsyncFast(AsyncJSONBaseProvider):
    """A mixin for the providers of `AsyncWeb3`."""

    @staticmethod
    def encode_rpc_dict(rpc_dict: Any) -> bytes:
        """Return a request as JSON. Raises Web3TypeError."""
        return encode(rpc_dict)

    decode_rpc_response: Any = staticmethod(json.loads_or(AsyncJSONBaseProvider.decode_rpc_response))


class HTTPProvider(_Fast, web3.HTTPProvider):
    """`web3.HTTPProvider` on this package's codec."""


class AsyncHTTPProvider(_AsyncFast, web3.AsyncHTTPProvider):
    """`web3.AsyncHTTPProvider` on this package's codec."""


class IPCProvider(_Fast, web3.IPCProvider):
    """`web3.IPCProvider` on this package's codec. It also reads long responses in fewer pieces."""

    def _make_request(self, request: bytes) -> Any:
        connection: Any = self._socket
        with self._lock, connection as sock:
            try:
                sock.sendall(request + b"\n")
            except BrokenPipeError:
                sock = connection.reset()  # one more attempt, like web3.py
                sock.sendall(request + b"\n")
            text = bytearray()
            with Timeout(self.timeout) as timeout:
                while True:
                    try:
                        text += sock.recv(1 << 18)  # web3.py reads 4096 bytes at a time
                    except TimeoutError:  # of the socket; `Timeout` bounds the whole request
                        timeout.sleep(0)
                        continue
                    # A response that may be complete: parsing after each piece would take quadratic time. Only a few
                    # bytes are copied.
                    if (text[-64:].rstrip() or text.rstrip()).endswith((b"}", b"]")):
                        try:
                            return self.decode_rpc_response(bytes(text))
                        except JSONDecodeError:
                            pass  # the response continues
                    timeout.sleep(0)


class AsyncIPCProvider(_AsyncFast, web3.AsyncIPCProvider):
    """`web3.AsyncIPCProvider` on this package's codec."""


class WebSocketProvider(_AsyncFast, web3.WebSocketProvider):
    """`web3.WebSocketProvider` on this package's codec."""

    async def socket_recv(self) -> Any:
        """Receive a message. Raises JSONDecodeError."""
        return json.loads(await self._ws.recv())  # type: ignore[union-attr]


if _legacy is not None:
    __all__ += ["LegacyWebSocketProvider"]

    class LegacyWebSocketProvider(_Fast, _legacy):  # type: ignore[misc]
        """`web3.LegacyWebSocketProvider` on this package's codec."""

        async def coro_make_request(self, request_data: bytes) -> Any:
            """Send a request and receive its response. Raises JSONDecodeError."""
            async with self.conn as connection:
                await asyncio.wait_for(connection.send(request_data), self.websocket_timeout)
                text = await asyncio.wait_for(connection.recv(), self.websocket_timeout)
            return json.loads(text)
