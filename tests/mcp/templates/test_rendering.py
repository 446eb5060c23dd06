"""Rendering processes: started on demand, killed at the deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.mcp.templates import rendering
from jsonrpc_fast.mcp.templates.rendering import Renderer, RenderTimeout

from ...support.places import ROOT
from ...support.processes import wait_until_asleep, wait_until_busy
from ...support.waiting import blocking_eventually

SOURCES = {
    "hello": "Hello {{ name }}",
    "loop": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
}


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Renderer]:
    monkeypatch.setattr(rendering, "RENDER_SECONDS", 1)
    made = Renderer()
    yield made
    made.close()


def processes_of(renderer: Renderer) -> set[int]:
    return {process._process.pid for process in renderer._running}


def test_a_process_is_kept(renderer: Renderer) -> None:
    assert processes_of(renderer) == set()
    assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}
    before = processes_of(renderer)
    assert len(before) == 1
    assert renderer.render(SOURCES, "hello", {"name": "Al"}) == {"text": "Hello Al"}
    assert renderer.render(SOURCES, "hello", {}) == {"error": "missing", "argument": "name"}
    assert processes_of(renderer) == before


def test_a_process_loads_other_sources(renderer: Renderer) -> None:
    assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}
    assert renderer.render({"hello": "Bye"}, "hello", {}) == {"text": "Bye"}
    assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}


@pytest.mark.ci
def test_a_process_is_killed_at_the_deadline(renderer: Renderer) -> None:
    renderer.render(SOURCES, "hello", {"name": "Bob"})
    [before] = processes_of(renderer)
    began = time.monotonic()
    with pytest.raises(RenderTimeout):
        renderer.render(SOURCES, "loop", {})
    assert 0.9 < time.monotonic() - began < 5
    assert processes_of(renderer) == set()
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}


@pytest.mark.ci
def test_a_process_that_dies_while_it_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "RENDER_SECONDS", 30)
    renderer = Renderer()
    try:
        renderer.render(SOURCES, "hello", {"name": "Bob"})
        [before] = processes_of(renderer)
        killing = threading.Timer(0.3, os.kill, (before, signal.SIGTERM))
        killing.start()
        with pytest.raises(RuntimeError, match="ended"):
            renderer.render(SOURCES, "loop", {})
        killing.join()
        assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}
    finally:
        renderer.close()


@pytest.mark.ci
def test_a_process_that_died_while_it_was_idle_is_replaced(renderer: Renderer) -> None:
    """The next call does not fail."""
    renderer.render(SOURCES, "hello", {"name": "Bob"})
    [before] = processes_of(renderer)
    os.kill(before, signal.SIGTERM)
    [idle] = renderer._idle
    blocking_eventually(lambda: not idle.is_alive())
    assert renderer.render(SOURCES, "hello", {"name": "Bob"}) == {"text": "Hello Bob"}
    assert len(processes_of(renderer) - {before}) == 1


@pytest.mark.ci
def test_calls_from_many_threads(renderer: Renderer) -> None:
    answers = []

    def render(number: int) -> None:
        answers.append(renderer.render(SOURCES, "hello", {"name": str(number)}))

    threads = [threading.Thread(target=render, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answer["text"] for answer in answers) == [f"Hello {number}" for number in range(8)]
    assert 1 <= len(processes_of(renderer)) <= 2


def test_close_kills_an_idle_process() -> None:
    renderer = Renderer()
    renderer.render(SOURCES, "hello", {"name": "Bob"})
    [process] = processes_of(renderer)
    renderer.close()
    renderer.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(RuntimeError, match="closed"):
        renderer.render(SOURCES, "hello", {"name": "Bob"})


def test_close_kills_a_process_that_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "RENDER_SECONDS", 30)
    renderer = Renderer()
    renderer.render(SOURCES, "hello", {"name": "Bob"})
    [process] = processes_of(renderer)
    wait_until_asleep(process)
    errors: list[str] = []

    def loop() -> None:
        try:
            renderer.render(SOURCES, "loop", {})
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=loop)
    thread.start()
    wait_until_busy(process)
    renderer.close()
    thread.join(10)
    assert errors == ["the rendering process ended"]


def test_a_call_that_has_a_process_finds_its_end_when_the_renderer_is_closed(renderer: Renderer) -> None:
    class Closing(UserDict[str, str]):
        """Sources: while they are read for a process, the renderer is closed."""

        def keys(self) -> Any:
            renderer.close()
            return super().keys()

    with pytest.raises(RuntimeError, match="the rendering process ended"):
        renderer.render(Closing(SOURCES), "hello", {"name": "Bob"})


@pytest.mark.ci
def test_a_process_imports_the_package_of_its_parent() -> None:
    """Even if only the parent's environment says where the package is."""
    code = (
        "from jsonrpc_fast.mcp.templates.rendering import *; r = Renderer(); "
        "print(r.render({'a': 'found'}, 'a', {})['text']); r.close()"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], cwd="/", env=env, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("found\n", "")


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="this system has no alarm")
@pytest.mark.slow
def test_a_process_ends_without_its_parent() -> None:
    code = (
        "import os, threading, time\n"
        "from jsonrpc_fast.mcp.templates import rendering\n"
        "rendering.RENDER_SECONDS = 1\n"
        "r = rendering.Renderer()\n"
        "r.render({'a': ''}, 'a', {})\n"
        "[p] = r._running\n"
        "print(p._process.pid, flush=True)\n"
        f"s = {{'loop': {SOURCES['loop']!r}}}\n"
        "threading.Thread(target=lambda: r.render(s, 'loop', {}), daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "os._exit(0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    process = int(run.stdout)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{process}/stat").exists() and " Z " in Path(f"/proc/{process}/stat").read_text():
            return  # a zombie: it has ended
        time.sleep(0.1)
    pytest.fail("the process still runs")
