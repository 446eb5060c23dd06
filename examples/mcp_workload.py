"""An MCP client that its platform identifies: Kubernetes, SPIFFE, a cloud, a CI service. It needs the extra `mcp-http`.
The platform's token is exchanged for an access token (RFC 7523, section 2.1); so is the identity assertion of a
company's identity provider (ID-JAG), with a function that returns it.

python examples/mcp_workload.py https://example.org/mcp https://login.example.org/token reports /var/run/secrets/token
"""

import asyncio
import base64
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import httpx2

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import SignInError


class Exchanged(httpx2.Auth):
    """Sends an access token, which it gets for an assertion at the token endpoint, and nowhere else.

    Args:
        endpoint: The token endpoint of the authorization server.
        assertion: Returns the token of the platform, or another assertion, for each exchange.
        secret: The secret of the client, if it has one; it is sent as the password (RFC 6749, section 2.3.1).
        form: Further members of the request, such as `client_id` and `resource`.
    """

    def __init__(self, endpoint: str, assertion: Callable[[], Awaitable[str]], secret: str = "", **form: str) -> None:
        self._endpoint = endpoint
        self._assertion = assertion
        self._form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", **form}
        user = f"{quote(form.get('client_id', ''), safe='')}:{quote(secret, safe='')}"
        self._headers = {"authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if secret else {}
        self._token = ""
        self._until = 0.0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token that is valid; with a new one if the server refuses it."""
        for is_last in (False, True):
            if time.monotonic() >= self._until:
                form = {**self._form, "assertion": await self._assertion()}
                response = yield httpx2.Request("POST", self._endpoint, data=form, headers=self._headers)
                await response.aread()
                if response.status_code != 200:
                    raise SignInError(f"the authorization server responded with the HTTP status {response.status_code}")
                found = response.json()
                self._token = str(found["access_token"])
                self._until = time.monotonic() + float(found.get("expires_in", 60))
            request.headers["authorization"] = f"Bearer {self._token}"
            response = yield request
            if response.status_code != 401 or is_last:
                return
            self._until = 0.0


async def main(url: str, endpoint: str, client_id: str, path: str) -> None:
    async def token() -> str:
        return Path(path).read_text().strip()

    auth = Exchanged(endpoint, token, client_id=client_id, resource=url)
    async with mcp.connect(url, auth=auth) as client:
        for tool in await client.list_tools():
            print("tool", tool["name"])


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
