"""Programs that serve on stdin and stdout, for tests that run them as processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

from . import loops
from .forking import MARK

ECHO = """
    import ctypes, os, signal, subprocess, sys, time
    from jsonrpc_fast import Request, Response
    from jsonrpc_fast.transports import run_stdio

    def reply(transport, message):
        transport.send(Response(message.id, message.params))

    async def serve(transport):
        transport.onmessage = lambda message: reply(transport, message)
        transport.onerror = lambda error: print(type(error).__name__, getattr(error, "code", ""), file=sys.stderr)
        await transport.start()
"""
RUN = """
    sys.exit(run_stdio(serve))
"""
ONE = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}\n'
REPLY = b'{"jsonrpc":"2.0","id":1,"result":[1]}\n'


def script(*parts: str) -> list[str]:
    return [sys.executable, "-c", MARK + "\n".join(textwrap.dedent(part) for part in (loops.prelude(), *parts))]


def echo(changes: str = "") -> list[str]:
    return script(ECHO, changes, RUN)


def end_of(command: list[str], data: bytes, **options: Any) -> tuple[bytes, bytes, int]:
    run = subprocess.run(command, input=data, capture_output=True, timeout=120, **options)
    return run.stdout, run.stderr, run.returncode
