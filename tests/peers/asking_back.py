"""A session on stdin and stdout with the handlers of tests/session/test_session_liveness.py: `asking_back.py LOOP`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioServer
from tests.support import loops
from tests.support.session_pairs import asking_handlers


async def main() -> None:
    async with Session(StdioServer(), asking_handlers()) as session:
        await session.wait_closed()


if __name__ == "__main__":
    with loops.running_on(sys.argv[1]):
        asyncio.run(main())
