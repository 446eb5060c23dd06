"""The page to try methods: who gets it, what it allows, and what it does in a browser."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.http.page import CONTENT_SECURITY_POLICY, PAGE, methods_page

from ..support.asgi_servers import serving
from ..support.chromium import visit
from ..support.tables import rows

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "Host": "localhost"}


def described() -> Handlers:
    handlers = Handlers(discover={"title": "Sums", "version": "1.0"})

    @handlers.register("add", typed=True)
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        They may be long.
        """
        return a + b

    @handlers.register("paint", typed=True)
    def paint(color: Literal["red", "green"], note: str = "", deep: bool = False) -> list[Any]:
        return [color, note, deep]

    handlers.register("title", lambda: None)  # an id of the page itself
    return handlers


@rows(
    ("method", "headers", "options", "status"),
    [
        ("GET", HTML, {"page": True}, 200),
        ("HEAD", HTML, {"page": True}, 200),
        ("GET", {**HTML, "Accept": "application/json"}, {"page": True}, 405),
        ("GET", {"Host": "localhost"}, {"page": True}, 405),
        ("GET", HTML, {}, 405),
        ("PUT", HTML, {"page": True}, 405),
        ("GET", {**HTML, "Host": "evil.example"}, {"page": True}, 421),
        ("GET", {**HTML, "Origin": "https://evil.example"}, {"page": True}, 403),
    ],
)
async def test_who_gets_the_page(method: str, headers: dict[str, str], options: dict[str, Any], status: int) -> None:
    answers = [
        await Endpoint(described(), **options).serve(method, headers, b""),
        WsgiEndpoint(described(), **options).serve(method, headers, b""),
    ]
    assert answers[0] == answers[1]
    found, fields, body = answers[0]
    assert found == status
    assert (body == PAGE) == (status == 200 and method == "GET")
    if status == 200:
        assert fields["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert fields["content-type"] == "text/html; charset=utf-8"
        assert fields["content-length"] == str(len(PAGE))


async def test_health_stays_and_the_page_needs_a_description() -> None:
    status, _, body = await Endpoint(described(), page=True).serve("GET", HTML, b"", path="/health")
    assert (status, body) == (200, b"ok\n")
    for endpoint in (Endpoint, WsgiEndpoint):
        with pytest.raises(ValueError, match="discover="):
            endpoint({"add": max}, page=True)
        with pytest.raises(TypeError, match="page"):
            endpoint(described(), page=1)  # type: ignore[arg-type]


def checksums_of(text: str) -> set[str]:
    found = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", text, re.DOTALL)
    assert len(found) == 2
    return {f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in found}


def test_the_policy_allows_what_is_in_the_page_and_no_other_host() -> None:
    text = PAGE.decode()
    assert set(re.findall(r"'sha256-[^']+'", CONTENT_SECURITY_POLICY)) == checksums_of(text)
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'; ")
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+", text)


def test_a_page_in_a_file_holds_the_document_whatever_is_in_it() -> None:
    document = {"info": {"title": '</script><script>alert("1")</script>', "version": "1"}, "methods": [], "n": 2**70}
    text = methods_page(document, "jsonrpc-fast call ", ' -- sh -c "x"')
    [data] = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert json.loads(data) == document
    assert text.count("<script") == text.count("</script>") == 2
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert checksums_of(text) == set(re.findall(r"'sha256-[^']+'", html.unescape(policy)))


CALL = """
(async () => {
  const box = document.getElementById("add");
  box.open = true;
  box.querySelector("[name=a]").value = "12345678901234567890";
  box.querySelector("form").requestSubmit();
  while (!box.querySelector("pre")) await new Promise(resolve => setTimeout(resolve, 20));
  return box.querySelector("pre").textContent;
})()
"""
SEARCH = """
(() => {
  const search = document.getElementById("search");
  search.value = "color";
  search.oninput();
  return [...document.querySelectorAll("details")].filter(box => !box.hidden).map(box => box.id);
})()
"""
LINK = """
(async () => {
  location.hash = "#title";
  while (!document.querySelector("details#title").open) await new Promise(resolve => setTimeout(resolve, 20));
  return document.querySelector("details#title").getBoundingClientRect().top >=
    document.querySelector(".tools").getBoundingClientRect().bottom;
})()
"""
LABELS = """[...document.querySelectorAll("input, select, textarea")].every(field => field.labels.length > 0)"""
WIDTH = "document.documentElement.scrollWidth <= innerWidth"


@pytest.mark.slow
@pytest.mark.time_limit(100)
async def test_a_browser_shows_and_calls_the_methods(tmp_path: Path) -> None:
    async with serving(Endpoint(described(), page=True)) as url:
        values, requests, faults = await asyncio.to_thread(visit, url, [CALL, LINK, SEARCH, LABELS, WIDTH], tmp_path)
    assert json.loads(values[0])["result"] == 12345678901234567891
    assert "12345678901234567891" in values[0]  # no number has passed through one of JavaScript
    assert values[1:] == [True, ["paint"], True, True]
    assert {request.split("/")[2] for request in requests} == {url.split("/")[2]}
    assert faults == []


@pytest.mark.slow
def test_a_browser_shows_the_page_in_a_file(tmp_path: Path) -> None:
    page = tmp_path / "api.html"
    document = json.loads(described().dispatch(b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}'))["result"]
    page.write_text(methods_page(document, "jsonrpc-fast call tcp://h:1 "), encoding="utf-8")
    values, requests, faults = visit(page.as_uri(), [CALL.replace("12345678901234567890", "1")], tmp_path)
    assert values == ["""jsonrpc-fast call tcp://h:1 'add' '{"a":1}'"""]
    assert requests == {page.as_uri()}
    assert faults == []
