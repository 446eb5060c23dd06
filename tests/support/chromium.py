"""Pages in headless Chromium. A page sends its findings by POST to the address in its query parameter `report`."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
from pathlib import Path

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
