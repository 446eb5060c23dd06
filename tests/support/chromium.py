"""Pages in headless Chromium. A page of a test has its findings in `window.report`, a promise."""

from __future__ import annotations

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
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--window-size=390,900",
)


def visit(url: str, expressions: list[str], folder: Path, *options: str) -> tuple[list[Any], set[str], list[Any]]:
    """Open a page, and evaluate expressions in it, by the DevTools protocol. Promises are awaited.

    The test is skipped if Chromium is not installed. It keeps its files in the folder.

    Returns:
        The values, the URLs of all requests, and the errors that the page has caused.
    """
    from websockets.sync.client import connect

    program = needs.require("chromium")
    events: list[dict[str, Any]] = []
    command = [program, *OPTIONS, *options, "--remote-debugging-port=0", f"--user-data-dir={folder}"]
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
