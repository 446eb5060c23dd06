"""A slow server whose client changes its mind: requests that are cancelled before they begin are not served.

python examples/cancel.py
"""

import asyncio
import time

from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import memory_pair

served: list[int] = []


def hover(line: int) -> str:
    served.append(line)
    time.sleep(0.01)  # blocks the loop
    return f"line {line}"


async def main() -> None:
    here, there = memory_pair()
    convention = LspConvention()
    async with Session(there, {"hover": hover}, convention=convention), Session(here, convention=convention) as client:
        calls = [asyncio.create_task(client.call("hover", [line])) for line in range(10)]
        await asyncio.sleep(0)  # they are sent
        for call in calls[:-1]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        cancelled = sum(isinstance(result, asyncio.CancelledError) for result in results)
        print(f"{results[-1]}; {cancelled} of 10 cancelled; less than half served: {len(served) < 5}")


asyncio.run(main())
