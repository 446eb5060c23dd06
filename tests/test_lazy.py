"""What a program does not use it does not load."""

from __future__ import annotations

import ast
import importlib
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

from .support.tables import rows

LAZY = [f"jsonrpc_fast.{name}" for name in ("session", "transports", "handlers", "handlers.params", "mcp", "mcp.http")]

UNUSED = """
import sys
import jsonrpc_fast
of_streams = {"jsonrpc_fast.framing." + name for name in ("content_length", "events", "sse", "lines", "concatenated")}
assert not of_streams & sys.modules.keys()
import jsonrpc_fast.session.engine
assert not {"asyncio", "anyio", "ssl"} & sys.modules.keys()  # the engine knows no event loop
from jsonrpc_fast.session import Session
unused = {"jsonrpc_fast.session." + name for name in ("blocking_session", "reconnecting", "subscriptions")}
unused |= {"jsonrpc_fast.transports." + name for name in ("memory", "stdio", "stream", "websocket")}
assert not (unused | of_streams) & sys.modules.keys()
from jsonrpc_fast.transports import TcpServer
assert not {"jsonrpc_fast.transports.stdio", "jsonrpc_fast.transports.memory"} & sys.modules.keys()
of_the_pure_backend = {"jsonrpc_fast.codec." + name for name in ("_pure", "_messages", "_scanner", "_serving")}
assert jsonrpc_fast.BACKEND == "python" or not of_the_pure_backend & sys.modules.keys()
"""
UNUSED_BY_SERVERS = """
import sys
import jsonrpc_fast.mcp.server
unused = {"jsonrpc_fast.mcp." + name for name in ("client", "gateway", "http", "templates")}
unused |= {"jsonrpc_fast.validator", "jsonrpc_fast.transports.stdio", "jsonrpc_fast.session.reconnecting"}
unused |= {"jsonschema_rs", "difflib", "mimetypes", "secrets", "email.utils"}
assert not unused & sys.modules.keys(), unused & sys.modules.keys()
"""


def test_what_is_not_used_is_not_loaded() -> None:
    subprocess.run([sys.executable, "-c", UNUSED], check=True, timeout=60)


def test_a_server_of_tools_loads_no_other_part_of_mcp() -> None:
    pytest.importorskip("msgspec")
    pytest.importorskip("jsonschema_rs")
    subprocess.run([sys.executable, "-c", UNUSED_BY_SERVERS], check=True, timeout=60)


@rows("name", LAZY)
def test_the_names_are_those_that_type_checkers_see(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    [seen] = [node for node in tree.body if isinstance(node, ast.If)]
    for imported in seen.body:
        assert isinstance(imported, ast.ImportFrom)
        for alias in imported.names:
            home = importlib.import_module(f"{name}.{imported.module}")
            assert getattr(package, alias.name) is getattr(home, alias.name)
            assert alias.name in package.__all__
    assert all(hasattr(package, public) for public in package.__all__)
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert names.keys() >= set(package.__all__)
    for public in package.__all__:
        value = getattr(package, public)
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value
            assert public in pydoc.plain(pydoc.render_doc(value))
    with pytest.raises(AttributeError, match=rf"^module '{name}' has no attribute 'nothing'$"):
        package.nothing  # noqa: B018
