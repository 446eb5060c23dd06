"""A page that uses an MCP server of its own origin with fetch and EventSource, and reports what it received."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server

PAGE = """<!doctype html><meta charset="utf-8"><title>test</title><script type="module">
const lines = [];
const headers = { "content-type": "application/json", "accept": "application/json, text/event-stream" };
async function post(more, message) {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  return fetch("/mcp", { method: "POST", headers: { ...headers, ...more }, body });
}
async function* events(answer) {
  let text = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\\n\\n")) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).split("\\n").find(line => line.startsWith("data: {"));
      if (data) yield JSON.parse(data.slice(6));
    }
  }
}
window.report = (async () => {
try {
  const clientInfo = { name: "page", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const begun = await post({}, { id: 1, method: "initialize", params });
  const version = (await begun.json()).result.protocolVersion;
  const session = { "mcp-session-id": begun.headers.get("mcp-session-id"), "mcp-protocol-version": version };
  lines.push(version, (await post(session, { method: "notifications/initialized" })).status);
  const call = { name: "count", arguments: { to: 3 }, _meta: { progressToken: "p" } };
  for await (const message of events(await post(session, { id: 2, method: "tools/call", params: call }))) {
    lines.push(message.params ? message.params.progress : message.result.content[0].text);
  }
  const listening = events(await fetch("/mcp", { headers: { ...session, accept: "text/event-stream" } }));
  await (await post(session, { id: 3, method: "tools/call", params: { name: "grow", arguments: {} } })).text();
  lines.push((await listening.next()).value.method);
  lines.push((await fetch("/mcp", { method: "DELETE", headers: session })).status);
  // EventSource cannot send the header with the session: the server refuses its request.
  lines.push(await new Promise(resolve => {
    const source = new EventSource("/mcp");
    source.onopen = () => resolve("open");
    source.onerror = () => resolve(`refused ${source.readyState}`);
  }));
} catch (error) {
  lines.push(String(error));
}
return lines.join(" ");
})();
</script>
"""

server = Server("page", "1.0")


@server.tool
async def count(to: int, context: Context) -> str:
    """Count."""
    for number in range(1, to + 1):
        context.report_progress(number, total=to)
        await asyncio.sleep(0)
    return "counted"


@server.tool
def grow() -> None:
    """Add a tool."""
    server.tool("grown")(lambda: None)


async def show(request: object) -> HTMLResponse:
    return HTMLResponse(PAGE)


app = Starlette(routes=[Route("/", show), Mount("/", McpEndpoint(server))])
