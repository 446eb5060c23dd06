from __future__ import annotations

import pytest

from jsonrpc_fast.mcp.server import Server

from .mcp_sample import sample


def test_what_cannot_be_registered() -> None:
    server = sample()

    with pytest.raises(ValueError, match="add is registered already"):
        server.tool("add")(lambda: None)
    with pytest.raises(TypeError, match="write the decorator with parentheses"):
        server.tool(lambda: None)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the input schema must have the type"):
        server.tool("bad", input_schema={"type": "array"})(lambda **members: None)
    with pytest.raises(TypeError, match="its arguments must be those of the URI"):
        server.resource("notes://{name}")(lambda number: "")
    with pytest.raises(ValueError, match="must name a provider"):
        server.resource("resource:///path", name="path")(lambda: "")
    with pytest.raises(TypeError, match="completions are given for what is no argument"):
        server.prompt("bad", complete={"x": []})(lambda: "")
    with pytest.raises(ValueError, match="page_size must be 1 or more"):
        Server("bad", "1", page_size=0)
    with pytest.raises(ValueError, match="versions must be some of"):
        Server("bad", "1", versions=["1999-01-01"])
