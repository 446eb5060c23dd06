"""Pages in headless Chromium.

A page of a test sends its findings by POST to the address in its query parameter `report`; in any other page `visit`
evaluates expressions.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from . import needs
from .http_process import HOST

SECONDS = 120
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


def report_of(url: str, folder: Path, *options: str) -> str:
    """Open a page and return its report. The test is skipped if Chromium is not installed.

    Args:
        url: The address of the page, with or without a query.
        folder: Where Chromium keeps its files.
        options: Further options of Chromium.
    """
    program = needs.require("chromium")
    reports: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            reports.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.HTTPServer((HOST, 0), Handler) as listener:
        listener.timeout = SECONDS
        query = f"{'&' if '?' in url else '?'}report=http://{HOST}:{listener.server_port}/"
        command = [program, *OPTIONS, *options, f"--user-data-dir={folder}", url + query]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                listener.handle_request()
            finally:
                os.killpg(process.pid, signal.SIGKILL)
    assert reports, "the page has reported nothing"
    return reports[0]


def visit(url: str, expressions: list[str], folder: Path) -> tuple[list[Any], set[str], list[Any]]:
    """Open a page, and evaluate expressions in it, by the DevTools protocol. Promises are awaited.

    Returns:
        The values, the URLs of all requests, and the errors that the page has caused.
    """
    from websockets.sync.client import connect

    program = needs.require("chromium")
    events: list[dict[str, Any]] = []
    command = [program, *OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={folder}", "--window-size=390,900"]
    with subprocess.Popen(
        [*command, "about:blank"], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            port = next(found[1] for line in process.stderr if (found := re.search(r"ws://[^:]+:(\d+)/", line)))
            with urllib.request.urlopen(f"http://{HOST}:{port}/json", timeout=SECONDS) as answer:
                [page] = [target for target in json.load(answer) if target["type"] == "page"]
            with connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=SECONDS) as socket:

                def read() -> dict[str, Any]:
                    message: dict[str, Any] = json.loads(socket.recv(timeout=SECONDS))
                    events.append(message)
                    return message

                def send(method: str, **params: Any) -> Any:
                    socket.send(json.dumps({"id": len(events), "method": method, "params": params}))
                    own = len(events)
                    while (message := read()).get("id") != own:
                        pass
                    return message["result"]

                for domain in ("Network", "Log", "Runtime", "Page"):
                    send(f"{domain}.enable")
                send("Page.navigate", url=url)
                while read().get("method") != "Page.loadEventFired":
                    pass
                values = [
                    send("Runtime.evaluate", expression=each, awaitPromise=True, returnByValue=True)["result"].get(
                        "value"
                    )
                    for each in ["new Promise(resolve => setTimeout(resolve, 500))", *expressions]
                ]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    requests = {e["params"]["request"]["url"] for e in events if e.get("method") == "Network.requestWillBeSent"}
    faults = [e["params"] for e in events if e.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
    return values[1:], requests, faults
