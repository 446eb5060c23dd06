"""Applications for the tests with a browser: a page that calls, and endpoints for pages of this and other origins."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse
from starlette.routing import Route

from jsonrpc_fast.http import Endpoint

PAGE = """<!doctype html><meta charset="utf-8"><title>test</title><script type="module">
window.report = (async () => {
  const target = new URLSearchParams(location.search).get("target");
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "add", params: [1, 2] });
  let line = "blocked";
  try {
    const answer = await fetch(target, { method: "POST", headers: { "content-type": "application/json" }, body });
    line = `${answer.status} ${await answer.text()}`;
  } catch (error) {}
  // What a browser sends without asking: the page cannot read the response.
  await fetch(target, { method: "POST", mode: "no-cors", body }).catch(() => {});
  return line;
})();
</script>
"""

called: list[int] = []


def add(a: int, b: int) -> int:
    called.append(a)
    return a + b


FUNCTIONS: dict[str, Any] = {"add": add, "called": lambda: len(called)}


async def show(request: object) -> HTMLResponse:
    return HTMLResponse(PAGE)


endpoint = Endpoint(FUNCTIONS)
app = Starlette(routes=[Route("/", show), Route("/rpc", endpoint)])
cors_app = CORSMiddleware(endpoint, allow_origins=["*"], allow_methods=["POST"], allow_headers=["content-type"])
