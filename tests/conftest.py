"""Fixtures and hooks. A test with the fixture `impl` runs with each backend: the compiled core and plain Python."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from jsonrpc_fast import codec

from .support import async_tests, forking, loops, memory, needs, shares, tables, tiers
from .support.command_line import MIXED
from .support.examples import register_profiles
from .support.waiting import blocking_eventually

BACKENDS = {"cython": "jsonrpc_fast.codec._core", "python": "jsonrpc_fast.codec._pure"}
BOTH = {"impl", "backends"}
"""The fixtures of tests that use both backends."""
OF_THE_CORE_ALONE = ("test_fast_path.py", "test_paths.py", "test_templates.py")
LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""How many tests are left out, by the option that would include them."""
ROOT = Path(__file__).resolve().parent.parent

gc.disable()  # during collection: the tests are never freed, and the collector took a third of the time
register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pure-only",
        action="store_true",
        help="test the plain Python alone, for an installation without the core (as JSONRPC_FAST_EXTENSION=no does)",
    )
    parser.addoption(
        "--without-impl", action="store_true", help="leave out the tests that run on both backends whichever is chosen"
    )
    parser.addoption("--ci", action="store_true", help="also run the tests marked as ci or lint, as .ci/run does")
    parser.addoption("--any-cost", action="store_true", help="do not fail tests that cost more than their tier allows")
    parser.addoption("--slow", action="store_true", help="also run the tests marked as slow")
    parser.addoption("--all-loops", action="store_true", help="run the tests of drivers on each event loop")
    parser.addoption("--row", help="check that row of a table alone")


def pytest_configure(config: pytest.Config) -> None:
    tables.chosen = config.getoption("--row")
    forking.install()
    config.pluginmanager.register(shares)
    # A shell without job control starts a background job with SIGINT ignored, and nohup ignores SIGHUP. The children of
    # the tests inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than processors: some tests wait."""
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 2


class LeftOut(pytest.Module):
    """A file of tests that imports a library which is not installed."""

    def collect(self) -> NoReturn:
        missing = needs.missing_in(self.path)
        pytest.skip(f"could not import '{missing}'", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Skip the tests of models where their libraries are not installed, as on PyPy and without the GIL."""
    return LeftOut.from_parent(parent, path=module_path) if needs.missing_in(module_path) else None


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        # It ends what hangs. At night the machine is busy, and a property has a hundred times as many examples.
        if item.get_closest_marker("slow") or config.getoption("--slow"):
            item.add_marker(pytest.mark.timeout(3600))
        if isinstance(item, pytest.Function) and item.get_closest_marker("virtual_time"):
            item.fixturenames.append("virtual_time")  # after `loop` and `each_loop`
    if config.getoption("--without-impl"):
        left_out = [item for item in items if not BOTH.isdisjoint(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if BOTH.isdisjoint(getattr(item, "fixturenames", ()))]
    found = tiers.left_out(config, items)
    config.stash[LEFT_OUT] = {option: len(tests) for option, tests in found.items()}
    every = {item for tests in found.values() for item in tests}
    config.hook.pytest_deselected(items=list(every))
    items[:] = [item for item in items if item not in every]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the numbers of tests that a worker of pytest-xdist has left out."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", {})
    before = node.config.stash.setdefault(LEFT_OUT, {}) if shares.is_shared(node.config) else {}
    node.config.stash[LEFT_OUT] = Counter(before) + Counter(left_out)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, {})


def pytest_collection_finish() -> None:
    """Keep the modules and the items out of every later collection: tests collect, and look at what is left."""
    if sys.implementation.name == "cpython":
        gc.freeze()  # the garbage of the imports, too: to find it takes half a second
    gc.enable()


def pytest_runtest_setup() -> None:
    """Undo what libraries set at import, and make the draws of each test those of every run."""
    sys.setrecursionlimit(1000)  # with py_ecc's, deep values overflow the C stack
    random.seed(0)  # the delay before a connection may be none at all


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free what tests that expect a warning have left: freed later, it would warn during a test that expects none."""
    if expects_coroutines(item) and not expects_coroutines(nextitem):
        gc.collect()


def expects_coroutines(item: pytest.Item | None) -> bool:
    """Return whether a test expects warnings of coroutines that were never awaited."""
    marks = () if item is None else item.iter_markers("filterwarnings")
    return any("never awaited" in text for mark in marks for text in mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in what a test has printed and logged: the workers of pytest-xdist send it as UTF-8."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


pytest_runtest_protocol = tiers.pytest_runtest_protocol


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    async_tests.make_callable(pyfuncitem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why tests were skipped, one line for each reason, and which command installs what was missing."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if not is_pure_only(config) and core_fault() is not None:
        terminalreporter.write_line(f"these tests ran on the pure backend: {core_fault()}", red=True)
    for line in needs.summary(reasons):
        terminalreporter.write_line(line, yellow=True)
    for option, count in config.stash.get(LEFT_OUT, {}).items():
        if count:
            said = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"{said} left out: {option} includes them", yellow=True)


def is_pure_only(config: pytest.Config) -> bool:
    return bool(config.getoption("--pure-only")) or os.environ.get("JSONRPC_FAST_EXTENSION") == "no"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_for_the_core = collection_path.name in OF_THE_CORE_ALONE and is_pure_only(config)
    return True if config.getoption("benchmark_only") or is_for_the_core else None


def core_fault() -> str | None:
    """Return why the compiled core is not in use although nobody asked for the pure backend."""
    return None if codec.CORE_FAULT == "JSONRPC_FAST_PURE is set" else codec.CORE_FAULT


def load_backend(name: str) -> ModuleType:
    if name == "cython" and core_fault() is not None:
        pytest.fail(f"{core_fault()}; --pure-only tests the plain Python alone", pytrace=False)
    try:
        return importlib.import_module(BACKENDS[name])
    except ImportError as error:
        pytest.fail(f"{BACKENDS[name]} is missing ({error}); --pure-only tests the plain Python alone", pytrace=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "impl" in metafunc.fixturenames:
        names: Sequence[str] = ["python"] if is_pure_only(metafunc.config) else list(BACKENDS)
        metafunc.parametrize("impl", names, indirect=True, scope="session")
    is_virtual = metafunc.definition.get_closest_marker("virtual_time") is not None
    for fixture in loops.FIXTURES:
        if fixture in metafunc.fixturenames:
            all_loops = bool(metafunc.config.getoption("--all-loops"))
            names = loops.names_of(fixture, all_loops=all_loops, is_virtual=is_virtual)
            metafunc.parametrize(fixture, names, indirect=True)
            break


@pytest.fixture(scope="session")
def impl(request: pytest.FixtureRequest) -> ModuleType:
    """One of the backends, as a module."""
    return load_backend(request.param)


@pytest.fixture(scope="session")
def backends(pytestconfig: pytest.Config) -> tuple[ModuleType, ModuleType]:
    """Both backends: the core and plain Python."""
    if is_pure_only(pytestconfig):
        pytest.skip("only one backend was requested: there is nothing to compare")
    return load_backend("cython"), load_backend("python")


@pytest.fixture(scope="session")
def core(backends: tuple[ModuleType, ModuleType]) -> ModuleType:
    """The core, as a module."""
    return backends[0]


@pytest.fixture
def loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """`asyncio.run` uses asyncio's loop; with `--all-loops` also uvloop."""
    with loops.running_on(request.param):
        yield


@pytest.fixture
def each_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """`asyncio.run` uses asyncio's loop; with `--all-loops` each of the loops."""
    with loops.running_on(getattr(request, "param", loops.current)):
        yield


@pytest.fixture
def virtual_time() -> Iterator[None]:
    """`asyncio.run` uses a loop with a virtual clock: for tests with the mark of that name (see support/clock.py)."""
    with loops.running_on(loops.current, is_virtual=True):
        yield


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes of each write to a channel in memory."""
    from jsonrpc_fast.transports.memory import MemoryChannel

    written: list[bytes] = []
    write = MemoryChannel.write

    def record(self: MemoryChannel, data: bytes) -> None:
        written.append(data)
        write(self, data)

    monkeypatch.setattr(MemoryChannel, "write", record)
    return written


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    """The test closes each descriptor that it opens."""
    memory.collect()  # what earlier tests have left closes its descriptors now, not during the test
    before = _descriptors()
    yield
    # A thread closes its descriptor when it wakes up.
    blocking_eventually(lambda: _descriptors() <= before)


@pytest.fixture
def no_child_left() -> Iterator[None]:
    """The test leaves neither a child nor a zombie, except those of earlier tests, such as a resource tracker."""
    before = _children()
    yield
    assert _children() <= before


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - forking.forks.descriptors()


def _children() -> set[str]:
    """Return the ids of the children of this process, of any of its threads, except the one that forks."""
    found: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found.update(path.read_text().split())
    return {pid for pid in found if not forking.forks.is_child(pid)}


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Material that the project did not write, in a folder next to the repository."""
    path = ROOT.parent / "shared" / "corpora"
    if not path.is_dir():
        pytest.skip("the corpora are not next to the repository")
    return path


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a file in the current directory with every kind of message."""
    monkeypatch.chdir(tmp_path)
    Path("mixed.ndjson").write_bytes(MIXED)
    return "mixed.ndjson"
