"""An aiorpcX server on a free loopback port. It prints the port."""

from __future__ import annotations

import asyncio
from typing import Any

import aiorpcx


class ServerSession(aiorpcx.RPCSession):  # type: ignore[misc]
    async def handle_request(self, request: Any) -> Any:
        handlers = {"add": self.add, "refuse": self.refuse, "wait": self.wait, "note": self.note, "ask": self.ask}
        return await aiorpcx.handler_invocation(handlers.get(request.method), request)()

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def refuse(self) -> None:
        raise aiorpcx.RPCError(-32001, "not now")

    async def wait(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def note(self, text: str) -> None:
        await self.send_notification("noted", [text])

    async def ask(self, method: str, *params: Any) -> Any:
        """Call back, and return the result."""
        try:
            return await self.send_request(method, params)
        except aiorpcx.RPCError as error:
            return {"code": error.code}


async def main() -> None:
    server = await aiorpcx.serve_rs(ServerSession, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
