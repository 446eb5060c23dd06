"""A provider of web3.py on an HTTP client of this package. Needs the extras `web3` and `http`.

    upstreams = Upstreams("https://a.example/KEY", "https://b.example/KEY", may_repeat=lambda name: name in READS)
    client = AsyncHttpClient("https://a.example/KEY", transport=upstreams)
    w3 = AsyncWeb3(AsyncClientProvider(Batching(client)))

Rules:
  - Errors of the node are responses, as web3.py expects them. Other exceptions of the client, such as ConnectionLost
    and CallTimeout, pass through web3.py.
  - The requests of `w3.batch_requests()` begin in one turn of the loop, so `Batching` sends them together.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..codec import Raw
from ..errors import RpcError
from ..http.batching import Batching
from ..http.client import AsyncHttpClient
from ..support import check_type
from ..types import UNSET
from .web3 import encode

try:
    from web3.providers.async_base import AsyncJSONBaseProvider
except ImportError as _missing:
    raise ImportError('this adapter needs web3.py 7 or later: pip install "web3>=7.10"') from _missing


class AsyncClientProvider(AsyncJSONBaseProvider):
    """A provider of `AsyncWeb3`.

    Args:
        client: The client, which is not closed with the provider, or a `Batching` in front of one.
        options: Options of web3.py's providers, such as `cache_allowed_requests`.

    Raises:
        TypeError: The client is of another class.
    """

    def __init__(self, client: AsyncHttpClient | Batching, **options: Any) -> None:
        check_type("client", client, AsyncHttpClient, Batching)
        super().__init__(**options)
        self._client = client

    async def make_request(self, method: Any, params: Any) -> Any:
        """Call a method, and return the response as a dict.

        Raises:
            Web3TypeError: The params cannot be encoded.
            Exception: As in `AsyncHttpClient.call`, except RpcError.
        """
        # The id is from web3.py's counter, as in its other providers. On the wire, the client uses its own ids.
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self.request_counter)}
        try:
            response["result"] = await self._client.call(method, Raw(encode(list(params or []))))
        except RpcError as error:
            found = {"code": error.code, "message": error.message}
            response["error"] = found if error.data is UNSET else {**found, "data": error.data}
        return response

    async def make_batch_request(self, requests: Any) -> Any:
        """Call several methods, and return the responses in order. Raises what `make_request` raises."""
        return await asyncio.gather(*[self.make_request(method, params) for method, params in requests])
