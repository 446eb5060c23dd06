"""The package in several interpreters of one process: one has the core, the others the pure backend.

With one GIL for all, the first one that imports the package has the core; one with its own GIL (Python 3.12) never
does. From Python 3.12 on all but the main interpreter work without orjson.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from ..support.installed_codec import USE
from ..support.needs import unmeasured
from ..support.tables import rows

CREATE = """
import sys

if sys.version_info >= (3, 13):
    import _interpreters as interpreters

    def create():
        return interpreters.create("isolated" if isolated else "legacy")

    def run(interpreter, code):
        failure = interpreters.run_string(interpreter, code)
        assert failure is None, failure.formatted
else:
    import _xxsubinterpreters as interpreters

    def create():
        return interpreters.create(isolated=isolated)

    def run(interpreter, code):
        interpreters.run_string(interpreter, code)
"""

MAIN_FIRST = """
rounds = 50 * times
exec(USE)
assert backend.BACKEND == expected, backend.CORE_FAULT
for _ in range(3):
    other = create()
    run(other, OTHER)
    exec(USE)
    interpreters.destroy(other)
    exec(USE)
"""

# The code that another interpreter of the process runs.
OTHER = f"""
rounds = 30 * times
{USE}
import sys
from jsonrpc_fast.codec._json import ORJSON_FAULT

assert backend.BACKEND == "python"
reasons = ("JSONRPC_FAST_PURE is set", "one interpreter", "does not support loading in subinterpreters")
assert any(reason in backend.CORE_FAULT for reason in reasons), backend.CORE_FAULT
assert ORJSON_FAULT is not None or sys.version_info < (3, 12)
"""

# With orjson, before Python 3.12, the other interpreter stays until the end: orjson may crash if it ends.
OTHER_FIRST = """
import datetime  # CPython 3.12.1 crashes at its end if the first import is in an interpreter with a GIL of its own

in_main, in_other = (expected, "python") if isolated else ("python", expected)
other = create()
run(other, f"rounds = {50 * times}" + USE + f"assert backend.BACKEND == {in_other!r}")
rounds = 50 * times
exec(USE)
assert backend.BACKEND == in_main
run(other, f"rounds = {50 * times}" + USE)
if sys.version_info >= (3, 12):
    interpreters.destroy(other)
"""

IN_THREADS = """
import threading

sys.setswitchinterval(1e-5)
rounds = 30 * times
exec(USE)
others = [create() for _ in range(2)]
for other in others:
    # CPython 3.11 hangs at exit if the first import of threading in an interpreter is not in the main thread.
    run(other, "import threading")
failures = []


def run_in(interpreter):
    try:
        for _ in range(5):
            exec(USE, {"rounds": 30 * times}) if interpreter is None else run(interpreter, OTHER)
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=run_in, args=(one,)) for one in (*others, None, None)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
for other in others:
    interpreters.destroy(other)
"""


IN_A_POOL = """
import copy, operator, jsonrpc_fast
from concurrent.futures import InterpreterPoolExecutor

rounds = 50 * times
exec(USE)
with InterpreterPoolExecutor(2) as pool:
    for message in (Request(1, "m", {"a": [1.5]}), Response(2, error=Error(-1, "no")), decode(b"[")):
        assert pool.submit(copy.copy, message).result() == message
    written = pool.map(operator.methodcaller("to_bytes"), [Request(number, "m") for number in range(20)])
    assert [decode(text).id for text in written] == list(range(20))
    text = pool.submit(jsonrpc_fast.encode, Request(3, "m", [2**70])).result()
    assert pool.submit(jsonrpc_fast.decode, text).result() == decode(text)
    assert pool.submit(jsonrpc_fast.Response, 4, "x").result() == Response(4, "x")
"""
pytestmark = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("_interpreters", "_xxsubinterpreters"))),
    reason="this Python has one interpreter for each process",
)
OWN_GIL = pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters have one GIL before Python 3.12")


def run_script(script: str, backend: str, **names: object) -> None:
    """Run a script in a new process, with `expected` and these names."""
    given = "".join(f"{name} = {value!r}\n" for name, value in {"expected": backend, **names}.items())
    code = f"{given}{CREATE}\nUSE = {USE!r}\nOTHER = {given + OTHER!r}\n{script}"
    # Coverage measures no interpreter but the main one, and says so on stderr.
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=unmeasured(JSONRPC_FAST_PURE="" if backend == "cython" else "1"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=OWN_GIL)], ids=["one GIL", "own GIL"])
@rows("script", [MAIN_FIRST, OTHER_FIRST, IN_THREADS], ids=["main first", "other first", "threads"])
@pytest.mark.ci
def test_only_one_interpreter_has_the_core(script: str, impl: ModuleType, isolated: bool, times: int) -> None:
    backend = "cython" if impl.__name__.endswith("_core") else "python"
    run_script(script, backend, isolated=isolated, times=times)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 has pools of interpreters")
def test_messages_pass_between_the_interpreters_of_a_pool(impl: ModuleType) -> None:
    run_script(IN_A_POOL, "cython" if impl.__name__.endswith("_core") else "python", isolated=True, times=1)
