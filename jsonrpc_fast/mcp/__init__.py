"""The Model Context Protocol, revisions 2024-11-05 to 2026-07-28, over the sessions of this package.

    versions      the revisions, and what each of them has
    capabilities  what client and server can do, as typed records; `records` is what all records share
    handshake     who says what before the first request is served, sans-IO, for both sides
    tools         tool definitions, checked arguments, results
    resources     URIs, resources and their templates
    prompts       prompts made of a folder of text templates: `templates` reads the folder, `rendering` renders
                  in processes of its own, where `sandbox` runs
    paging        cursors
    server        `Server`: what it offers is in `registry`, as `functions` with a `context` or from sources; `answers`
                  answers, `inputs` is what a function asks its client back, and `subscriptions` says who is told of
                  changes
    server_folder a server of a folder of templates
    client        `connect`: a client for scripts and tests
    relay         messages passed between two peers

Needs the extra `mcp`. What is here is imported by name: this file loads nothing. `mcp.connect` loads its module when it
is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.client import connect as connect


def __getattr__(name: str) -> Any:
    if name == "connect":
        from .client.client import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
