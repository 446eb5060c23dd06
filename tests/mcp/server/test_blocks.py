"""Content blocks: classes, guessed types, blocks in lists and messages, per revision."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS
from jsonrpc_fast.mcp.server import (
    Annotations,
    AssistantMessage,
    Audio,
    EmbeddedResource,
    Icon,
    Image,
    ResourceLink,
    Server,
    Text,
    ToolResult,
    UserMessage,
)

from ...support.mcp_conversation import converse
from ...support.mcp_schemas import schema_of
from ...support.tables import rows

PNG = b"\x89PNG\r\n\x1a\n0000"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_blocks() -> None:
    note = Annotations(audience=["user"], priority=0.5)
    assert Text("a", annotations=note, meta={"x": 1}) == {
        "type": "text",
        "text": "a",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "_meta": {"x": 1},
    }
    assert Image(PNG) == {"type": "image", "data": encoded(PNG), "mimeType": "image/png"}
    assert Audio(memoryview(WAV)) == {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"}
    assert Image(b"?", "image/x-own")["mimeType"] == "image/x-own"
    assert ResourceLink("file:///logs/today.txt", icons=[Icon(src="https://a.example/i.png")], size=3) == {
        "type": "resource_link",
        "uri": "file:///logs/today.txt",
        "name": "today.txt",
        "mimeType": "text/plain",
        "size": 3,
        "icons": [{"src": "https://a.example/i.png"}],
    }
    assert EmbeddedResource("note://a", "text") == {"type": "resource", "resource": {"uri": "note://a", "text": "text"}}
    assert EmbeddedResource("note://a.png", PNG) == {
        "type": "resource",
        "resource": {"uri": "note://a.png", "mimeType": "image/png", "blob": encoded(PNG)},
    }


@rows(
    ("start", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"\x00\x00\x00\x1cftypavif", "image/avif"),
    ],
)
def test_the_first_bytes_show_the_type(start: bytes, mime_type: str) -> None:
    assert Image(start)["mimeType"] == mime_type


@rows(
    ("start", "mime_type"),
    [
        (WAV, "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"OggS\x00", "audio/ogg"),
        (b"fLaC\x00", "audio/flac"),
        (b"\x00\x00\x00\x1cftypM4A ", "audio/mp4"),
    ],
)
def test_the_first_bytes_show_the_type_of_audio(start: bytes, mime_type: str) -> None:
    assert Audio(start)["mimeType"] == mime_type


def test_files(tmp_path: Path) -> None:
    for name, kind, mime_type in (
        ("a.jpg", Image, "image/jpeg"),
        ("a.webp", Image, "image/webp"),
        ("a.wav", Audio, "audio/wav"),
        ("a.mp3", Audio, "audio/mpeg"),
        ("a.FLAC", Audio, "audio/flac"),
    ):
        path = tmp_path / name
        path.write_bytes(b"data")
        assert kind(path) == {"type": kind.__name__.lower(), "data": encoded(b"data"), "mimeType": mime_type}
    text, other = tmp_path / "a.json", tmp_path / "a.bin"
    text.write_text("{}")
    other.write_bytes(b"\xff")
    assert EmbeddedResource("x://a", text)["resource"] == {"uri": "x://a", "mimeType": "application/json", "text": "{}"}
    assert EmbeddedResource("x://a", other)["resource"]["blob"] == encoded(b"\xff")


def test_data_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(PNG)
    for data in (b"?", WAV, path):
        with pytest.raises(ValueError, match="the MIME type of image must be given"):
            Image(data)
    with pytest.raises(TypeError, match="the data of image must be bytes or a path, not str"):
        Image("a.png")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        Audio(tmp_path / "none.wav")


def server() -> Server:
    server = Server("test", "1")

    @server.tool
    def one() -> Image:
        return Image(PNG)

    @server.tool
    def mixed() -> list[Any]:
        return ["a", Image(PNG), 3, {"b": 1}, Text("c"), ResourceLink("x://y")]

    @server.tool
    def result() -> ToolResult:
        return ToolResult([Audio(WAV), "a"])

    @server.tool
    def plain() -> list[Any]:
        return ["a", "b"]

    @server.prompt
    def ask() -> list[Any]:
        return ["a", UserMessage("b"), AssistantMessage(Image(PNG)), UserMessage(EmbeddedResource("x://y", "c"))]

    return server


@rows("version", RELEASED_VERSIONS)
async def test_blocks_in_results(corpora: Path, version: str) -> None:
    image = {"type": "image", "data": encoded(PNG), "mimeType": "image/png"}
    async with converse(server(), version) as client:
        results = {}
        for name in ("one", "mixed", "result", "plain"):
            result = await client.result("tools/call", {"name": name})
            schema_of(corpora, version, "CallToolResult").validate(result)
            assert version == "2026-07-28" or "structuredContent" not in result
            results[name] = result["content"]
        prompt = await client.result("prompts/get", {"name": "ask"})
        schema_of(corpora, version, "GetPromptResult").validate(prompt)
    link = {"type": "resource_link", "uri": "x://y", "name": "y"}
    audio = {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"}
    texts = [{"type": "text", "text": text} for text in ("a", "3", '{"b":1}', "c")]
    assert results["one"] == [image]
    assert results["mixed"] == [
        *(texts[0], image, *texts[1:]),
        link if version >= "2025-06-18" else {"type": "text", "text": "x://y"},
    ]
    assert results["result"] == [
        audio if version >= "2025-03-26" else {"type": "text", "text": "[audio: audio/wav]"},
        texts[0],
    ]
    assert results["plain"] == [{"type": "text", "text": '["a","b"]'}]
    assert prompt["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "user", "content": {"type": "text", "text": "b"}},
        {"role": "assistant", "content": image},
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "x://y", "text": "c"}}},
    ]


@rows("version", RELEASED_VERSIONS)
async def test_icons_titles_and_meta_of_all_definitions(corpora: Path, version: str) -> None:
    more: dict[str, Any] = {
        "title": "T",
        "icons": [Icon(src="https://a.example/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")],
        "meta": {"example.com/a": 1},
    }
    server = Server(
        "test", "1", title="T", description="D", icons=more["icons"], website_url="https://a.example/", ttl_ms=1
    )
    annotations = Annotations(audience=["assistant"], priority=1.0, last_modified="2026-01-01T00:00:00Z")
    server.tool(name="tool", **more)(lambda: None)
    server.prompt(name="prompt", **more)(lambda: "a")
    server.resource("x://fixed", name="fixed", size=1, annotations=annotations, **more)(lambda: "a")

    @server.resource("x://{part}/page", name="template", annotations=annotations, **more)
    def page(part: str) -> str:
        return part

    shown: dict[str, Any] = {}
    async with converse(server, version) as client:
        for kind, method, record in (
            ("tools", "tools/list", "ListToolsResult"),
            ("prompts", "prompts/list", "ListPromptsResult"),
            ("resources", "resources/list", "ListResourcesResult"),
            ("resourceTemplates", "resources/templates/list", "ListResourceTemplatesResult"),
        ):
            result = await client.result(method, {})
            schema_of(corpora, version, record).validate(result)
            [shown[kind]] = result[kind]
        first = client.responses[1]["result"]  # of `initialize`, where there is one
        read = await client.result("resources/read", {"uri": "x://fixed"})
        schema_of(corpora, version, "ReadResourceResult").validate(read)
        templated = await client.result("resources/read", {"uri": "x://a/page"})
    for members in shown.values():
        assert members.get("title") == ("T" if version >= "2025-06-18" else None)
        assert members.get("_meta") == ({"example.com/a": 1} if version >= "2025-06-18" else None)
        assert [icon["src"] for icon in members.get("icons", ())] == (
            ["https://a.example/i.png"] if version >= "2025-11-25" else []
        )
    assert shown["resources"]["size"] == 1
    for kind in ("resources", "resourceTemplates"):
        assert shown[kind]["annotations"] == {
            "audience": ["assistant"],
            "priority": 1.0,
            **({"lastModified": "2026-01-01T00:00:00Z"} if version >= "2025-06-18" else {}),
        }
    assert read["contents"] == [{"_meta": {"example.com/a": 1}, "uri": "x://fixed", "text": "a"}]
    assert templated["contents"] == [{"_meta": {"example.com/a": 1}, "uri": "x://a/page", "text": "a"}]
    info = read["_meta"]["io.modelcontextprotocol/serverInfo"] if version == "2026-07-28" else first["serverInfo"]
    assert info.get("websiteUrl") == ("https://a.example/" if version >= "2025-11-25" else None)
