"""The Model Context Protocol, revisions 2024-11-05 to 2026-07-28, on the sessions of this package.

    protocol   what the specification defines: revisions, capabilities, records, JSON Schemas, URIs, names in `_meta`
    server     `Server`: tools, prompts and resources from functions and providers
    client     `connect`: a client for scripts and tests
    providers  a remote server as a provider of tools, prompts and resources
    templates  a folder of text templates as prompts and resources
    http       Streamable HTTP
    gateway    `Gateway`: one server made of many
    connecting `connect` and `blocking`: a client of one server, or of many

Needs the extra `mcp`. Importing this package loads neither server nor client: `mcp.connect`, `mcp.blocking`
and `mcp.Gateway` load theirs on first use.
"""

from __future__ import annotations

from importlib.util import find_spec
from sys import implementation
from typing import TYPE_CHECKING

for _name in ("msgspec", "jsonschema_rs"):
    if find_spec(_name) is None:  # not imported here
        _cure = 'pip install "jsonrpc_fast[mcp]"'
        if implementation.name == "pypy":
            _cure = "but msgspec cannot be built for PyPy: use CPython"
        raise ModuleNotFoundError(f"MCP needs the extra `mcp`: {_cure}", name=_name)

from ..support import loader  # noqa: E402  # not before the extra is known to be there

if TYPE_CHECKING:
    from .connecting import BlockingClient, blocking, connect
    from .gateway import Gateway
else:
    __getattr__ = loader(__name__, {"connecting": ("BlockingClient", "blocking", "connect"), "gateway": ("Gateway",)})

__all__ = ["BlockingClient", "Gateway", "blocking", "connect"]
