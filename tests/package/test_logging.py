"""Importing the package changes no logger."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ..support.places import ROOT
from .test_extras import modules

IMPORTING = """
import importlib, json, logging, sys

class Seen(logging.Handler):
    def emit(self, record):
        seen.append(record.name)

seen = []
root = logging.getLogger()
root.setLevel(logging.DEBUG)
root.addHandler(Seen())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # an extra is missing
loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("jsonrpc_fast")}
found = {
    name: [logger.level, logger.propagate, logger.disabled, [type(one).__name__ for one in logger.handlers]]
    for name, logger in loggers.items()
}
logging.getLogger("jsonrpc_fast.session").warning("x")
print(json.dumps([found, [type(one).__name__ for one in root.handlers], root.level, seen[-1:]]))
"""


# The libraries of all adapters take five seconds to import.
@pytest.mark.parametrize("adapters", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.ci
def test_importing_every_module_sets_no_level_and_adds_no_handler(adapters: bool) -> None:
    environment = {**os.environ, "JSONRPC_FAST_DEBUG": "1"}
    names = [name for name in modules() if adapters or not name.startswith("jsonrpc_fast.adapters.")]
    command = [sys.executable, "-c", IMPORTING, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    found, handlers, level, seen = json.loads(done.stdout)
    assert found.pop("jsonrpc_fast") == [0, True, False, []]
    assert {"jsonrpc_fast.session", "jsonrpc_fast.transports"} <= set(found)
    assert found == {name: [0, True, False, []] for name in found}
    assert (handlers, level, seen) == (["Seen"], 10, ["jsonrpc_fast.session"])


FAILING = """
import asyncio, logging, sys
from jsonrpc_fast import mcp
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import WsgiEndpoint
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import memory_pair

if "--log" in sys.argv:
    logging.basicConfig()

def fail(where):
    raise RuntimeError("failed in " + where)

async def fail_later(where):
    raise RuntimeError("failed in " + where)

async def main():
    text = b'{"jsonrpc":"2.0","id":1,"method":"%s","params":["%s"]}'
    handlers = Handlers({"fail": fail, "fail_later": fail_later})
    handlers.dispatch(text % (b"fail", b"dispatch"))
    await handlers.dispatch_async(text % (b"fail_later", b"dispatch_async"))
    one, other = memory_pair()
    async with Session(one, handlers), Session(other) as client:
        for method in ("fail", "fail_later"):
            try:
                await client.call(method, ["session"])
            except Exception:
                pass
    server = Server("n", "1")
    server.tool(name="fail")(fail_in_tool)
    async with mcp.connect(server) as client:
        await client.call_tool("fail", {})

def fail_in_tool() -> str:
    fail("tool")

asyncio.run(main())
"""


@pytest.mark.ci
def test_stderr_has_the_tracebacks_of_handlers_without_any_set_up_of_logging() -> None:
    for arguments in ([], ["--log"]):
        command = [sys.executable, "-c", FAILING, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        for where, count in (("dispatch", 1), ("dispatch_async", 1), ("session", 2), ("tool", 1)):
            assert done.stderr.count(f"RuntimeError: failed in {where}\n") == count, done.stderr
        assert done.stderr.count("Traceback") == 5


def test_the_pages_on_handlers_say_how_to_see_tracebacks() -> None:
    for name in ("handlers.md", "errors.md", "tutorial.md", "mcp-server.md"):
        assert "on stderr" in (text := (ROOT / "docs" / name).read_text(encoding="utf-8")) or "to stderr" in text, name
