"""The package in several interpreters of one process: the first that imports it has the core, the others the pure
backend. From Python 3.12 on all but the main interpreter work without orjson."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from ..support.tables import rows

CREATE = """
import sys

if sys.version_info >= (3, 13):
    import _interpreters as interpreters

    def create():
        return interpreters.create("legacy")

    def run(interpreter, code):
        failure = interpreters.run_string(interpreter, code)
        assert failure is None, failure.formatted
else:
    import _xxsubinterpreters as interpreters

    def create():
        return interpreters.create(isolated=False)

    def run(interpreter, code):
        interpreters.run_string(interpreter, code)
"""

USE = """
import jsonrpc_fast.codec._backend as backend
from jsonrpc_fast import EncodeError, Error, ParseError, Raw, Request, Response, decode, encode, encode_result

for number in range(rounds):
    text = b'{"jsonrpc":"2.0","id":%d,"method":"m%d","params":{"a%d":[1,"b"]}}' % (number, number, number)
    message = decode(text)
    assert message == Request(number, f"m{number}", {f"a{number}": [1, "b"]})
    assert encode(message, delimited=False) == text
    assert encode(decode(text, raw=True), delimited=False) == text
    fault = decode(text[:-1] + b",]")
    assert type(fault) is ParseError and fault.rpc_code == -32700
    response = Response(number, error=Error(-1, "no", {"name": number}))
    assert decode(encode(response)) == response
assert encode_result(1, {"b": 2, "a": [1.5]}, option=32, delimited=False) == (
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1.5],"b":2}}'
)
assert encode_result(1, {1, 2}, default=sorted, delimited=False) == b'{"jsonrpc":"2.0","id":1,"result":[1,2]}'
assert encode_result(1, Raw(b"[0]"), delimited=False) == b'{"jsonrpc":"2.0","id":1,"result":[0]}'
for option in (0, 32):
    try:
        encode_result(1, {"a": object()}, option=option)
    except EncodeError as error:
        assert str(error) == "Type is not JSON serializable: object"
        assert error.__cause__ is None
    else:
        raise AssertionError
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

# What another interpreter of the process runs.
OTHER = f"""
rounds = 30 * times
{USE}
assert backend.BACKEND == "python"
assert backend.CORE_FAULT == "JSONRPC_FAST_PURE is set" or "one interpreter" in backend.CORE_FAULT
"""

# The interpreter that loads orjson first stays until the end: orjson may crash if it ends.
OTHER_FIRST = """
other = create()
run(other, f"rounds = {50 * times}" + USE + f"assert backend.BACKEND == {expected!r}")
exec(OTHER)
run(other, f"rounds = {50 * times}" + USE)
"""

IN_THREADS = """
import threading

sys.setswitchinterval(1e-5)
rounds = 30 * times
exec(USE)
others = [create() for _ in range(2)]
for other in others:
    # CPython 3.10 and 3.11 hang at exit if the first import of threading in an interpreter is not in the main thread.
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


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
@rows("script", [MAIN_FIRST, OTHER_FIRST, IN_THREADS], ids=["main first", "other first", "threads"])
def test_only_one_interpreter_has_the_core(script: str, impl: ModuleType, times: int) -> None:
    expected = "cython" if impl.__name__.endswith("_core") else "python"
    other = f"times = {times}\n{OTHER}"
    code = f"{CREATE}\nUSE = {USE!r}\nOTHER = {other!r}\nexpected = {expected!r}\ntimes = {times}\n{script}"
    # Coverage measures no interpreter but the main one, and says so on stderr.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "JSONRPC_FAST_PURE": "" if expected == "cython" else "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
