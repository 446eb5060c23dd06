"""A client of several servers, which adds numbers in one batch. It needs the extra `http`.

python examples/access_log.py 8000
python examples/upstreams.py http://127.0.0.1:8001/ http://127.0.0.1:8000/
"""

import asyncio
import sys

from jsonrpc_fast.http.batching import Batching
from jsonrpc_fast.http.client import AsyncHttpClient
from jsonrpc_fast.http.upstreams import Upstreams


async def main(*urls: str) -> None:
    upstreams = Upstreams(*urls, may_repeat=lambda method: method == "add")
    async with AsyncHttpClient(urls[0], transport=upstreams, timeout=10) as client:
        batching = Batching(client, max_items=10)
        print(await asyncio.gather(*[batching.call("add", [number, 1], returns=int) for number in range(5)]))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
