"""Renders templates in child processes, so that no template can hang the server or exhaust its memory.

`{{ "x" * 10**9 }}`, `{{ 9**9**9 }}` and `{{ "%1000000000d" % 1 }}` are single operations of the interpreter: no flag is
checked and no other thread runs before they end. Only another process can stop them. Every method blocks, and may be
called from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from ...support import on_failure

RENDER_SECONDS: Final = 5.0
"""How long rendering a template may take."""
MAX_TEXT_CHARACTERS: Final = 1024 * 1024
"""Maximum length of a rendered text."""
MAX_MEMORY_BYTES: Final = 512 * 1024 * 1024
"""Maximum memory of a process; without effect on Windows."""

Sources = Mapping[str, str]
"""The texts of templates by name. A process loads them once, as long as they are the same object."""

_COMMAND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from jsonrpc_fast.mcp.templates.sandbox import main; main()"
)
_RESPONSE_BYTES: Final = 64 * 1024  # maximum size of a response without the rendered text


class RenderTimeout(Exception):
    """The template exceeded its deadline."""


class Renderer:
    """Render and analyse templates. Call `close` at the end."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(2)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._running: set[_Process] = set()
        self._is_closed = False

    def render(self, sources: Sources, template: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Render a template.

        Returns:
            `text`; or `error`: "missing" with `argument`, "large", or "failed" with `class` and `line`.

        Raises:
            RenderTimeout: The template exceeded its deadline.
            RuntimeError: The process died, or the renderer is closed.
            OSError: No process could be started.
        """
        request = {"do": "render", "template": template, "arguments": arguments, "characters": MAX_TEXT_CHARACTERS}
        return self._call(sources, request)

    def analyse(self, sources: Sources, template: str) -> dict[str, Any]:
        """Analyse a template without rendering it. Raises what `render` raises.

        Returns:
            `arguments` (each with `name`, `required` and `values`), `description`, `is_dynamic` (it includes templates
            whose names are known only when it is rendered) and `has_no_includes` (it refers to no other template); or
            `error`, as in `render`.
        """
        return self._call(sources, {"do": "analyse", "template": template})

    def close(self) -> None:
        """Kill the processes. Calls that wait for one fail; a second `close` does nothing."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            running = self._running.difference(idle)
        for process in idle:
            process.kill()
        for process in running:
            process.end()  # the call that uses its pipes closes them

    def _call(self, sources: Sources, request: dict[str, Any]) -> dict[str, Any]:
        # Further calls wait here, before their deadline begins.
        with self._slots:
            process = self._acquire()
            response = None
            try:
                if process.loaded is not sources:
                    process.exchange({"do": "load", "sources": dict(sources)}, 60.0, _RESPONSE_BYTES)
                    process.loaded = sources
                # Maximum size of an escaped character.
                size = _RESPONSE_BYTES + 6 * MAX_TEXT_CHARACTERS
                response = process.exchange({**request, "seconds": RENDER_SECONDS}, RENDER_SECONDS, size)
            finally:
                # A process that did not respond in time, or not in JSON, may be in any state.
                self._release(process, is_usable=response is not None)
            return response

    def _acquire(self) -> _Process:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the renderer is closed")
            # The system may kill a process that is idle, for example for lack of memory.
            while self._idle:
                process = self._idle.pop()
                if process.is_alive():
                    return process
                self._running.discard(process)
                process.kill()
        process = _Process()
        with self._lock:
            if not self._is_closed:
                self._running.add(process)
                return process
        process.kill()
        raise RuntimeError("the renderer is closed")

    def _release(self, process: _Process, is_usable: bool) -> None:
        with self._lock:
            if is_usable and not self._is_closed:
                self._idle.append(process)
                return
            self._running.discard(process)
        process.kill()


class _Process:
    """A process that runs `sandbox.main`.

    Attributes:
        loaded: The sources that it has loaded; None before the first.
    """

    def __init__(self) -> None:
        self.loaded: Sources | None = None
        paths = json.dumps([os.path.abspath(path) for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _COMMAND, paths, str(MAX_MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A template can cause an endless stream of warnings.
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the terminal reaches only the server
        )
        with on_failure(self.kill):
            self.exchange(None, 60.0, _RESPONSE_BYTES)

    def is_alive(self) -> bool:
        """Return whether the process still runs: someone may have killed it while it was idle."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process: an exchange in another thread fails."""
        self._process.kill()

    def kill(self) -> None:
        """Kill the process, wait for its end, and close its pipes, which no other thread may use."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unwritten data
                    pipe.close()

    def exchange(self, request: dict[str, Any] | None, seconds: float, max_bytes: int) -> dict[str, Any]:
        """Send a request, None at the start, and return the response.

        Raises:
            RenderTimeout: It takes longer.
            RuntimeError: The process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True  # the interpreter must not wait for a deadline at its exit
        end = time.monotonic() + seconds
        timer.start()
        with contextlib.suppress(OSError):  # the process has ended; the read below reports this
            if request is not None:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
        line = self._process.stdout.readline(max_bytes)
        timer.cancel()
        # Checked even after a complete line: the timer may be killing the process, and the next call would fail.
        if time.monotonic() >= end:
            raise RenderTimeout
        if not line.endswith(b"\n"):
            raise RuntimeError("the rendering process ended")
        response: dict[str, Any] = json.loads(line)
        return response
