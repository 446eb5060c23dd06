"""Templates rendered in processes of their own, so that none can hang the server or take its memory.

Why a process: `{{ "x" * 10**9 }}`, `{{ 9**9**9 }}` and `{{ "%1000000000d" % 1 }}` are one operation each, during which
the interpreter looks at no flag and runs no other thread of its own. Only from outside can they be ended.

Rules:
  - A process is started when it is needed, kept for the next call, and ended when a call is over its deadline, or
    when what it says cannot be understood. At most `processes` run; more calls wait for one of them.
  - The deadline counts from the moment that a process takes up the call.
  - Every method blocks, and may be called from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_COMMAND: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from jsonrpc_fast.mcp.templates.sandbox import main; main()"
)
_START_SECONDS: Final = 60.0
_LOAD_SECONDS: Final = 60.0
_ANSWER_BYTES: Final = 64 * 1024  # of an answer beside the text in it
_ESCAPED_BYTES: Final = 6  # of one character


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """What rendering one template may use.

    seconds       from the start of its rendering
    characters    of the text that it makes
    memory_bytes  of its process; not on Windows
    processes     that render at the same time
    """

    seconds: float = 5.0
    characters: int = 1024 * 1024
    memory_bytes: int = 512 * 1024 * 1024
    processes: int = 2


class RenderTimeout(Exception):
    """The template was not done at the deadline."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts of templates by name. They are told apart by `key`, and given to a process once."""

    key: int
    texts: Mapping[str, str]


class Renderer:
    """Renders and analyses templates. `close` it when it is no longer needed."""

    def __init__(self, limits: RenderLimits | None = None) -> None:
        self.limits: RenderLimits = limits or RenderLimits()
        self._free = threading.BoundedSemaphore(self.limits.processes)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._running: set[_Process] = set()
        self._is_closed = False

    def render(self, sources: Sources, template: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """What became of a template: `text`, or `error`: "missing" with `argument`, "large", "failed".

        Raises RenderTimeout; RuntimeError after `close`.
        """
        request = {"do": "render", "template": template, "arguments": arguments, "characters": self.limits.characters}
        return self._ask(sources, request)

    def analyse(self, sources: Sources, template: str) -> dict[str, Any]:
        """What a template asks for: `arguments` (name, required, values), `description`, `is_open` (it includes what
        only the running template knows), `is_alone` (it refers to no other); or `error`, as `render`.
        """
        return self._ask(sources, {"do": "analyse", "template": template})

    def close(self) -> None:
        """Ends the processes. Calls that wait for one fail; a second `close` does nothing."""
        with self._lock:
            self._is_closed = True
            running, self._idle = [*self._running], []
        for process in running:
            process.end()

    def _ask(self, sources: Sources, request: dict[str, Any]) -> dict[str, Any]:
        with self._free:
            process = self._take()
            answer = None
            try:
                if process.loaded != sources.key:
                    process.ask({"do": "load", "sources": dict(sources.texts)}, _LOAD_SECONDS, _ANSWER_BYTES)
                    process.loaded = sources.key
                size = _ANSWER_BYTES + _ESCAPED_BYTES * self.limits.characters
                answer = process.ask({**request, "seconds": self.limits.seconds}, self.limits.seconds, size)
            finally:
                self._give_back(process, is_usable=answer is not None)
            return answer

    def _take(self) -> _Process:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the renderer is closed")
            while self._idle:
                process = self._idle.pop()
                if process.is_alive():
                    return process
                self._running.discard(process)
                process.end()
        process = _Process(self.limits.memory_bytes)
        with self._lock:
            if not self._is_closed:
                self._running.add(process)
                return process
        process.end()
        raise RuntimeError("the renderer is closed")

    def _give_back(self, process: _Process, is_usable: bool) -> None:
        with self._lock:
            if is_usable and not self._is_closed:
                self._idle.append(process)
                return
            self._running.discard(process)
        process.end()


class _Process:
    """One rendering process. `loaded` is the key of the sources that it has."""

    def __init__(self, memory_bytes: int) -> None:
        self.loaded: int | None = None
        paths = json.dumps([os.path.abspath(path) for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _COMMAND, paths, str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the terminal is for the server alone
        )
        try:
            self._read(_Deadline(self._process, _START_SECONDS), _ANSWER_BYTES)
        except BaseException:
            self.end()
            raise

    def ask(self, request: dict[str, Any], seconds: float, answer_bytes: int) -> dict[str, Any]:
        """The answer to a request. Raises RenderTimeout, and RuntimeError if the process is gone."""
        line = json.dumps(request).encode() + b"\n"
        deadline = _Deadline(self._process, seconds)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone; reading tells
            self._process.stdin.write(line)
            self._process.stdin.flush()
        return self._read(deadline, answer_bytes)

    def is_alive(self) -> bool:
        """Whether nobody has ended it, while it had nothing to do."""
        return self._process.poll() is None

    def end(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not yet written
                    pipe.close()

    def _read(self, deadline: _Deadline, size: int) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline(size)
        if deadline.passed():
            raise RenderTimeout
        if not line.endswith(b"\n"):
            raise RuntimeError("the rendering process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


class _Deadline:
    """Kills a process when the time is over, unless what it is for has come before."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._is_over = False
        self._has_passed = False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def passed(self) -> bool:
        """Ends the wait: whether the process was killed."""
        with self._lock:
            self._is_over = True
        self._timer.cancel()
        return self._has_passed

    def _expire(self) -> None:
        with self._lock:
            if not self._is_over:
                self._has_passed = True
                self._process.kill()
