"""The applications on docs/mcp-http.md, served."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...support.asgi_servers import serving
from ...support.mcp_http import ACCEPT, begin, call, client_of, events_of, message_of
from ...support.pages import write_scripts
from ...support.places import ROOT

NAMES = ["weather", "mounted", "browser", "report", "protected"]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The modules of the page, by name."""
    assert [script.stem for script in write_scripts(ROOT / "docs" / "mcp-http.md", tmp_path)] == NAMES
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name)


async def test_the_mounted_application(modules: dict[str, Any]) -> None:
    async with (
        serving(modules["mounted"].app) as url,
        httpx.AsyncClient(base_url=f"{url}/tools", headers={**ACCEPT, "host": "example.org"}) as client,
    ):
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        messages = [message_of(event) async for event in events_of(answer) if event.data]
        assert messages[-1]["result"]["content"] == [{"type": "text", "text": "Sunny in Rome"}]
        assert (await client.post("/mcp", headers={"host": "localhost"})).status_code == 421
    assert modules["mounted"].mcp.is_closing


async def test_a_page_of_an_allowed_origin(modules: dict[str, Any]) -> None:
    origin = "https://app.example.org"
    names = "authorization,content-type,last-event-id,mcp-param-region,mcp-protocol-version,mcp-session-id"
    asked = {"access-control-request-method": "DELETE", "access-control-request-headers": names}
    async with client_of(modules["browser"].app) as client:
        answer = await client.options("/mcp", headers={"origin": origin, **asked})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        allowed = answer.headers["access-control-allow-headers"].replace(" ", "")
        assert set(names.split(",")) <= set(allowed.split(","))
        assert "DELETE" in answer.headers["access-control-allow-methods"]
        client.headers["origin"] = origin
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"
        client.headers["origin"] = "https://other.example.org"
        assert (await client.options("/mcp", headers=asked)).status_code == 400
        answer = await client.post("/mcp", json=call(1, "forecast", city="Rome"))
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_the_report_comes_after_the_connection_is_closed(modules: dict[str, Any]) -> None:
    async with client_of(modules["report"].app) as client:
        await begin(client)
        [primer] = [event async for event in events_of(await client.post("/mcp", json=call(1, "report")))]
        assert (primer.data, primer.retry) == (b"", 500)
        answer = await client.get("/mcp", headers={"last-event-id": primer.id})
        [event] = [event async for event in events_of(answer)]
        assert message_of(event)["result"]["content"] == [{"type": "text", "text": "the report"}]


async def test_the_protected_application(modules: dict[str, Any]) -> None:
    async with client_of(modules["protected"].app) as client:
        assert (await client.post("/mcp", json=call(1, "whoami"))).status_code == 401
        client.headers["authorization"] = "Bearer secret"
        await begin(client)
        answer = await client.post("/mcp", json=call(1, "whoami"))
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "anna"}]
        metadata = await client.get("/.well-known/oauth-protected-resource/mcp")
        assert metadata.json()["authorization_servers"] == ["https://login.example.org"]
