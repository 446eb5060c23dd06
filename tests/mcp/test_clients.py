"""The client of the Python SDK, against `serve`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a shell notes the server's exit code"),
]

REVIEW = """{# Reviews a piece of code. #}
Review this {{ language }} code{% if tone == "strict" %}, and spare nothing{% endif %}:
{{ code }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "greeting.txt").write_text("Hello {{ name }}")
    (folder / "review.md.j2").write_text(REVIEW)
    return folder


def command(folder: Path) -> list[str]:
    """Return a command that serves the folder, in a shell that writes the exit code next to the folder."""
    serve = [sys.executable, "-m", "jsonrpc_fast", "serve", "--template-dir", str(folder)]
    return ["sh", "-c", '"$@"; echo $? > "$0"', str(folder.parent / "exit"), *serve]


def exit_code(folder: Path) -> int:
    return int((folder.parent / "exit").read_text())


@pytest.mark.time_limit(60)
@pytest.mark.parametrize(
    ("mode", "revision", "not_found"),
    [("legacy", "2025-11-25", -32002), ("auto", "2026-07-28", -32602), ("2026-07-28", "2026-07-28", -32602)],
)
async def test_serve_and_the_python_sdk(folder: Path, mode: str, revision: str, not_found: int) -> None:
    pytest.importorskip("mcp")
    from mcp import MCPError
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp_types import PromptListChangedNotification, PromptReference

    changed = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification):
            changed.set()

    async def failure(awaitable: Any) -> tuple[int, Any]:
        with pytest.raises(MCPError) as raised:
            await awaitable
        return raised.value.error.code, raised.value.error.data

    async def change(client: Client) -> None:
        """Add a template, and wait until the client is notified."""
        if revision != "2026-07-28":
            (folder / "later.txt").write_text("Later, {{ name }}.")
            await changed.wait()
            return
        async with client.listen(prompts_list_changed=True, tools_list_changed=True) as subscription:
            assert subscription.honored.prompts_list_changed
            assert not subscription.honored.tools_list_changed
            (folder / "later.txt").write_text("Later, {{ name }}.")
            await anext(subscription)

    program, *arguments = command(folder)
    server = stdio_client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))
    async with Client(server, mode=mode, message_handler=on_message) as client:
        assert client.protocol_version == revision
        listed = (await client.list_prompts()).prompts
        assert [(prompt.name, [item.name for item in prompt.arguments or ()]) for prompt in listed] == [
            ("greeting", ["name"]),
            ("review", ["language", "tone", "code"]),
        ]
        assert listed[1].description == "Reviews a piece of code."
        prompt = await client.get_prompt("greeting", {"name": "Ada"})
        assert [(message.role, message.content.text) for message in prompt.messages] == [("user", "Hello Ada")]
        resources = (await client.list_resources()).resources
        assert [resource.uri for resource in resources] == [
            "resource://templates/greeting.txt",
            "resource://templates/review.md.j2",
        ]
        [contents] = (await client.read_resource(resources[1].uri)).contents
        assert (contents.text, contents.mime_type) == (REVIEW, "text/markdown")
        completed = await client.complete(PromptReference(name="review"), {"name": "tone", "value": ""})
        assert completed.completion.values == ["strict"]
        assert await failure(client.get_prompt("../secret")) == (-32602, None)
        assert await failure(client.get_prompt("greeting")) == (-32602, None)
        missing = "resource://templates/none.txt"
        assert await failure(client.read_resource(missing)) == (not_found, {"uri": missing})
        await change(client)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greeting", "later", "review"]
    assert exit_code(folder) == 0
