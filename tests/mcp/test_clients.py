"""Real clients: both TypeScript SDKs and the Python SDK, against `serve` and against a server made in code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..peers.node import node_command
from ..support.places import PEERS

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
    """Return a command that serves the folder, in a shell that writes the exit code beside the folder."""
    serve = [sys.executable, "-m", "jsonrpc_fast", "serve", "--template-dir", str(folder)]
    return ["sh", "-c", '"$@"; echo $? > "$0"', str(folder.parent / "exit"), *serve]


def exit_code(folder: Path) -> int:
    return int((folder.parent / "exit").read_text())


SDK_CLIENTS = pytest.mark.parametrize(
    "client",
    [
        ["sdk1_client.mjs"],
        ["sdk2_client.mjs", "legacy"],
        ["sdk2_client.mjs", "auto"],
        ["sdk2_client.mjs", "2026-07-28"],
    ],
    ids=" ".join,
)


@SDK_CLIENTS
def test_serve_and_the_typescript_sdk(folder: Path, client: list[str]) -> None:
    line = node_command(client[0], *client[1:], folder, *command(folder))
    run = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    output: dict[str, Any] = json.loads(run.stdout)
    # Version 2 of the SDK reports -32602 in all revisions.
    not_found = -32002 if client == ["sdk1_client.mjs"] else -32602
    assert output == {
        "server": "jsonrpc-fast",
        "prompts": [["greeting", ["name"]], ["review", ["language", "tone", "code"]]],
        "prompt": [["user", "text", "Hello Ada"]],
        "resources": ["resource://templates/greeting.txt", "resource://templates/review.md.j2"],
        "read": ["Hello {{ name }}"],
        "templates": [],
        "unknownPrompt": {"code": -32602, "data": None},
        "missingArgument": {"code": -32602, "data": None},
        "unknownResource": {"code": not_found, "data": {"uri": "resource://templates/none.txt"}},
        "completion": ["strict"],
        "promptsLater": ["greeting", "later", "review"],
    }
    assert exit_code(folder) == 0


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


SAMPLE = [sys.executable, str(PEERS / "sample_server.py")]
WRONG = "Invalid arguments for tool add:\n/a: "


@SDK_CLIENTS
def test_a_server_in_code_and_the_typescript_sdk(client: list[str]) -> None:
    run = subprocess.run(node_command(*client, "tools", *SAMPLE), capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    output: dict[str, Any] = json.loads(run.stdout)
    is_error, text = output.pop("wrong")
    assert is_error is True
    assert text.startswith(WRONG)
    assert output == {
        # Version 1 returns the first page, version 2 all pages.
        "tools": [["add", ["a", "b"]], ["count", ["to"]], *([] if len(client) == 1 else [["grow", []]])],
        "sum": {"sum": 5},
        "progress": [[1, 3], [2, 3], [3, 3]],
        "version": "2025-11-25" if client[1:] in ([], ["legacy"]) else "2026-07-28",
        "prompt": "Hello Ada",
        "memo": "about x",
        "later": "I am new",
    }


@pytest.mark.time_limit(60)
@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
)
async def test_a_server_in_code_and_the_python_sdk(mode: str, revision: str) -> None:
    pytest.importorskip("mcp")
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    received: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total))

    server = stdio_client(StdioServerParameters(command=SAMPLE[0], args=SAMPLE[1:], env=dict(os.environ)))
    async with Client(server, mode=mode) as client:
        first = await client.list_tools()
        second = await client.list_tools(cursor=first.next_cursor)
        assert [tool.name for tool in (*first.tools, *second.tools)] == ["add", "count", "grow"]
        assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"sum": 5}
        wrong = await client.call_tool("add", {"a": "two"})
        assert wrong.is_error
        assert wrong.content[0].text.startswith(WRONG)
        counted = await client.call_tool("count", {"to": 2}, progress_callback=on_progress)
        assert counted.content[0].text == revision
        assert received == [(1, 2), (2, 2)]
        [contents] = (await client.read_resource("memo://a%20b")).contents
        assert contents.text == "about a b"


TYPED = [sys.executable, str(PEERS / "typed_server.py")]


@pytest.mark.time_limit(60)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_typed_functions_and_the_python_sdk(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    from mcp import MCPError
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def use(log: Any) -> None:
        parameters = StdioServerParameters(command=TYPED[0], args=TYPED[1:], env=dict(os.environ))
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:

            async def text_of(name: str, **arguments: Any) -> tuple[bool, str]:
                result = await client.call_tool(name, arguments)
                return result.is_error, result.content[0].text

            ordered = await client.call_tool("order", {"order": {"items": [1, 2.0]}, "count": 2.0})
            assert ordered.structured_content == {"sum": "6", "kinds": [1]}
            invalid = "Invalid arguments for tool order:\n"
            too_many = await text_of("order", order={"items": [1]}, count=99)
            assert too_many == (True, invalid + "/count: is greater than the maximum of 5")
            too_few = await text_of("order", order={"items": [0]})
            assert too_few == (True, invalid + "/order/items/0: is less than the minimum of 1")
            pictured = await client.call_tool("image")
            assert [(block.type, getattr(block, "data", None)) for block in pictured.content] == [
                ("image", "AA=="),
                ("text", None),
            ]
            assert await text_of("fail", argument="a payload") == (True, "Tool fail failed")
            with pytest.raises(MCPError, match="Internal error"):
                await client.call_tool("wrong")
            prompt = await client.get_prompt("ask", {"count": "2"})
            assert [message.content.text for message in prompt.messages] == ["?", "?"]
            with pytest.raises(MCPError, match="count"):
                await client.get_prompt("ask", {"count": "4"})
            [contents] = (await client.read_resource("data://config")).contents
            assert (contents.mime_type, contents.text) == ("application/json", '{"a":1}')
            [contents] = (await client.read_resource("data://file/a%2Fb")).contents
            assert contents.text == "a/b"
            for part in ("..%2fetc", "%00", "%ff"):
                with pytest.raises(MCPError, match="Resource not found"):
                    await client.read_resource(f"data://file/{part}")

    with open(tmp_path / "stderr", "w+") as log:
        await use(log)
        log.seek(0)
        logged = log.read()
    assert logged.startswith("tool fail failed, request ")
    assert "\nValueError: why it failed\n" in logged
    assert "/content/0/text must be a string" in logged
    assert "a payload" not in logged
