"""The command `serve` as a process, and a client that can send any message."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 20
LOOPING = "{% for a in range(9999) %}" * 3 + "{% endfor %}" * 3
"""A template that exceeds its time limit."""


class Process:
    """The process of `serve` and its three streams. Every wait ends after SECONDS."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "jsonrpc_fast", "serve", "--template-dir", str(folder), *arguments]
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._stderr: list[bytes] = []
        self._answers: dict[Any, Any] = {}
        self._last_id = 0
        self.notifications: list[Any] = []
        self._threads = [
            threading.Thread(target=self._read, args=(self.popen.stdout, self._lines.put)),
            threading.Thread(target=self._read, args=(self.popen.stderr, self._stderr.append)),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: Any, put: Any) -> None:
        for line in stream:
            put(line)

    def send(self, *texts: bytes) -> None:
        assert self.popen.stdin is not None
        for text in texts:
            self.popen.stdin.write(text + b"\n")
        self.popen.stdin.flush()

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(json.dumps(message if params is None else {**message, "params": params}).encode())
        return self._last_id

    def answer(self, id: Any, seconds: float = SECONDS) -> Any:
        """Return the response to a request. Raises queue.Empty if it does not arrive in time."""
        deadline = time.monotonic() + seconds
        while id not in self._answers:
            received = json.loads(self._lines.get(timeout=max(0.001, deadline - time.monotonic())))
            for message in received if isinstance(received, list) else [received]:
                if "method" in message:
                    self.notifications.append(message)
                else:
                    assert message["id"] not in self._answers
                    self._answers[message["id"]] = message
        return self._answers[id]

    def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return self.answer(self.request(method, params))["result"]

    def error(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, str]:
        error = self.answer(self.request(method, params))["error"]
        return error["code"], error["message"]

    def initialize(self, version: Any = "2025-11-25") -> Any:
        client = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        result = self.result("initialize", client)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return result

    def greet(self) -> str:
        """Render a prompt, to check that the server still works."""
        result = self.result("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}})
        return str(result["messages"][0]["content"]["text"])

    def ids(self) -> set[Any]:
        """Return the ids of the responses so far."""
        return set(self._answers)

    def end(self) -> tuple[int, str]:
        """Close the stdin of the process. Return its exit code and its stderr."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Wait for the end of the process. Return its exit code and its stderr."""
        code = self.popen.wait(SECONDS)
        for thread in self._threads:
            thread.join(SECONDS)
        return code, b"".join(self._stderr).decode()

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.wait()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            assert stream is not None
            stream.close()
