"""Prompts and resources from a folder of text templates.

    server     the folder as a source of an MCP server, with a file watcher
    prompts    reads the folder; prompts, completions and resources from the templates
    rendering  renders and analyses templates in child processes
    sandbox    the program of such a process

Needs the extra `mcp-templates`.
"""

from __future__ import annotations

from importlib.util import find_spec

for _name in ("jinja2", "watchfiles"):
    if find_spec(_name) is None:  # not imported here
        text = 'templates need the extra `mcp-templates`: pip install "jsonrpc_fast[mcp-templates]"'
        raise ModuleNotFoundError(text, name=_name)
