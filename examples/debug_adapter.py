"""A client of a debug adapter (DAP), which is not JSON-RPC: the frames are read here, and what they hold is not judged.

python examples/debug_adapter.py program.py 3 'a + 1' -- python -m debugpy.adapter
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from jsonrpc_fast.framing import FrameReader, frame


async def messages(stream: asyncio.StreamReader) -> AsyncGenerator[Any, None]:
    reader = FrameReader("content-length", resync=True)
    while data := await stream.read(65536):
        for found in reader.feed(data):
            if found.text is not None:  # otherwise `found.fault` says what was skipped
                yield json.loads(found.text)


async def main(program: str, line: int, expression: str, command: list[str]) -> None:
    pipe = asyncio.subprocess.PIPE
    adapter = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    stdin, stdout = adapter.stdin, adapter.stdout
    assert stdin is not None
    assert stdout is not None
    sent = 0

    def request(name: str, **arguments: Any) -> None:
        nonlocal sent
        sent += 1
        message = {"seq": sent, "type": "request", "command": name, "arguments": arguments}
        stdin.write(frame(json.dumps(message).encode(), "content-length"))

    request("initialize", adapterID="example", linesStartAt1=True)
    async with aclosing(messages(stdout)) as received:
        async for message in received:
            match message:
                case {"type": "response", "success": False, "command": name, "message": text}:
                    sys.exit(f"{name}: {text}")
                case {"type": "response", "command": "initialize"}:
                    request("launch", program=program, console="internalConsole")
                case {"type": "event", "event": "initialized"}:
                    request("setBreakpoints", source={"path": program}, breakpoints=[{"line": line}])
                    request("configurationDone")
                case {"type": "event", "event": "stopped", "body": {"threadId": thread}}:
                    request("stackTrace", threadId=thread, levels=1)
                case {"type": "response", "command": "stackTrace", "body": {"stackFrames": [top, *_]}}:
                    print("stopped in", top["name"], "at line", top["line"], flush=True)
                    request("evaluate", expression=expression, frameId=top["id"])
                case {"type": "response", "command": "evaluate", "body": {"result": text}}:
                    print(expression, "=", text, flush=True)
                    request("continue", threadId=thread)
                case {"type": "event", "event": "output", "body": {"output": text, "category": "stdout"}}:
                    print(text, end="", flush=True)  # any piece of the output, not a line
                case {"type": "event", "event": "terminated"}:
                    request("disconnect")
                case {"type": "response", "command": "disconnect"}:
                    break
    stdin.close()
    await adapter.wait()


if "--" not in sys.argv[4:5]:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[5:]))
