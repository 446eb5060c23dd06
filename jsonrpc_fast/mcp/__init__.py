"""The Model Context Protocol, revisions 2024-11-05 to 2026-07-28, on the sessions of this package.

    protocol   what the specification defines: revisions, capabilities, records, JSON Schemas, URIs, names in `_meta`
    server     `Server`: tools, prompts and resources from functions and providers
    client     `connect`: a client for scripts and tests
    providers  a remote server as a provider of tools, prompts and resources
    templates  a folder of text templates as prompts and resources
    http       Streamable HTTP
    gateway    `Gateway`: one server made of many
    session    what the sessions of server and client share
    applications   the interface between `server` and `http`, which this package joins

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

from .applications import HttpServing, provide  # noqa: E402  # not before the extra is known to be there

if TYPE_CHECKING:
    from .client.blocking_client import blocking as blocking
    from .client.connecting import connect as connect
    from .gateway import Gateway as Gateway
else:

    def __getattr__(name: str) -> object:
        if name == "connect":
            from .client.connecting import connect

            return connect
        if name == "blocking":
            from .client.blocking_client import blocking

            return blocking
        if name == "Gateway":
            return _load_gateway()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Gateway", "blocking", "connect"]


def _load_http() -> HttpServing:
    from .http import serving

    return serving


def _load_gateway() -> type[Gateway]:
    from .gateway import Gateway

    return Gateway


provide(_load_http, _load_gateway)
