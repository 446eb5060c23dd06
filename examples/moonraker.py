"""A client of Moonraker's Unix socket, or of Klipper's: it prints what the printer reports. Messages end in byte 3.

python examples/moonraker.py ~/printer_data/comms/moonraker.sock
"""

import asyncio
import sys
from typing import Any

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import UnixClient


async def main(path: str) -> None:
    def show(status: dict[str, Any], time: float) -> None:
        print(f"{time:.1f}", status, flush=True)

    about = {"client_name": "example", "version": "1.0", "type": "other", "url": "https://example.org"}
    transport = UnixClient(path, framing="etx")
    async with Session(transport, {"notify_status_update": show}, timeout=10) as session:
        await session.call("server.connection.identify", about)
        print((await session.call("server.info"))["klippy_state"], flush=True)
        wanted = {"objects": {"extruder": ["temperature", "target"], "print_stats": ["state", "filename"]}}
        first = await session.call("printer.objects.subscribe", wanted)
        show(first["status"], first["eventtime"])
        await session.wait_closed()


if len(sys.argv) != 2:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1]))
