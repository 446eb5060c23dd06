"""The selector of the backend: whatever happens to the core, the package can be imported, with the true reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..support.command_line import environment
from ..support.needs import CPYTHON, require_processes
from ..support.places import PACKAGE
from ..support.tables import rows

USE = """
j = sys.modules["jsonrpc_fast"]
backend = sys.modules["jsonrpc_fast.codec._backend"]
assert (backend.CORE_FAULT is None) == (j.BACKEND == "cython"), backend.CORE_FAULT
assert j.Response(1, 3).to_bytes() == b'{"jsonrpc":"2.0","id":1,"result":3}'
assert j.Response(1, result=3).to_bytes() == b'{"jsonrpc":"2.0","id":1,"result":3}'
assert j.Response(1, None, j.Error(1, "m")).is_error and j.Response(1, error=j.Error(1, "m", data=2)).error.data == 2
assert j.Request(1, "m", [1]).params == [1] and j.Request(id=1, method="m").params is None
assert j.Notification("m", {"a": 1}).params == {"a": 1} and j.Notification(method="m").method == "m"
assert j.Raw(b" 1 ").decode() == 1 and j.ParseError.truncated(1).id == 1
decoder = j.Decoder()
for number in range(400):
    text = b'{"jsonrpc":"2.0","id":%d,"method":"m","params":{"a":[%d,2],"b":"x"}}' % (number, number)
    message = j.decode(text)
    assert (message.id, message.params) == (number, {"a": [number, 2], "b": "x"})
    assert j.encode(message, delimited=False) == text and decoder.feed(text + b"\\n") == [message]
"""

INTERRUPT = f"""
import json, os, sys

KINDS = {{"KeyboardInterrupt": KeyboardInterrupt, "MemoryError": MemoryError, "ImportError": ImportError}}
USE = {USE!r}


def attempt(number, kind):
    seen = 0

    def profile(frame, event, argument):
        nonlocal seen
        if event == "call" and "jsonrpc_fast" in frame.f_code.co_filename:
            seen += 1
            if seen == number:
                raise KINDS[kind]("interrupted")

    sys.setprofile(profile)
    try:
        import jsonrpc_fast
    except KINDS[kind]:
        pass
    sys.setprofile(None)
    for name in [name for name in sys.modules if name.split(".")[0] == "jsonrpc_fast"]:
        del sys.modules[name]
    import jsonrpc_fast

    exec(USE, {{"sys": sys}})
    return seen, jsonrpc_fast.BACKEND, sys.modules["jsonrpc_fast.codec._backend"].CORE_FAULT


import decimal, inspect, typing  # not part of what is interrupted

found = []
for number, kind in json.loads(sys.argv[1]):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, json.dumps(attempt(number, kind)).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    found.append([number, kind, status, json.loads(text or "null")])
print(json.dumps(found))
"""


def interrupted(cases: list[tuple[int, str]]) -> list[tuple[int, str, int, Any]]:
    """Import the package in a fork, interrupted at its Nth Python call, and again, and use it."""
    require_processes()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, json.dumps(cases)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [(number, kind, status, found) for number, kind, status, found in json.loads(done.stdout)]


def check_interrupted(cases: list[tuple[int, str]]) -> int:
    """Return how many Python calls the longest import made."""
    calls = 0
    for number, kind, status, found in interrupted(cases):
        assert status == 0, (number, kind, status)
        calls = max(calls, found[0])
        assert found[1] in ("cython", "python"), (number, kind, found)
    return calls


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")


@pytest.mark.ci
def test_an_interrupted_import_that_is_tried_again() -> None:
    [(_, _, _, (calls, backend, fault))] = interrupted([(10**9, "KeyboardInterrupt")])
    assert (fault is None) == (backend == "cython")
    check_interrupted(
        [(calls * part // 8 + 1, kind) for part in range(8) for kind in ("KeyboardInterrupt", "ImportError")]
    )
    if backend == "cython":
        # The last calls are those of the core's own module.
        [(_, _, status, found)] = interrupted([(calls - 20, "KeyboardInterrupt")])
        assert (status, found[1]) == (0, "python")
        assert "did not end" in found[2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "MemoryError", "ImportError"])
def test_an_import_that_is_interrupted_at_every_call(kind: str) -> None:
    calls = check_interrupted([(10**9, kind)])
    for start in range(1, calls + 1, 100):  # a process of its own, for its time limit
        check_interrupted([(number, kind) for number in range(start, min(start + 100, calls + 1))])


def selected(text: str, name: str = "jsonrpc_fast.codec._core", **variables: str) -> list[Any]:
    """BACKEND, and CORE_FAULT or ORJSON_FAULT, where the core, or orjson, is a module of this text."""
    require_processes()
    variables = {"JSONRPC_FAST_PURE": "0", "JSONRPC_FAST_WITHOUT_ORJSON": "0", **variables}
    fault = "backend.CORE_FAULT" if name.endswith("_core") else "backend.ORJSON_FAULT"
    code = f"""
import sys, types, json
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            import importlib.util
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec({text!r}, module.__dict__)
sys.meta_path.insert(0, Finder())
import jsonrpc_fast
exec({USE!r})
print(json.dumps([jsonrpc_fast.BACKEND, {fault}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment(**variables)
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.ci
@rows(
    ("core", "fault"),
    [
        ("raise ImportError('this Python is another one')", "this Python is another one"),
        ("raise SystemError('another layout')", "the core cannot be used: SystemError: another layout"),
        ("raise MemoryError", "the core cannot be used: MemoryError: "),
        ("SOURCES = None", "the core belongs to an earlier interpreter of this process, which has ended"),
        *(
            (
                "SOURCES = 1",
                "the core was built from other sources than those next to it: run python setup.py build_ext --inplace",
            )
            for _ in (PACKAGE / "codec").glob("_core.pyx")  # a wheel has no sources of the core
        ),
        ("", "the core cannot be used: AttributeError: module 'jsonrpc_fast.codec._core' has no attribute 'SOURCES'"),
    ],
)
def test_a_core_that_cannot_be_used(core: str, fault: str) -> None:
    assert selected(core) == ["python", fault]


@pytest.mark.ci
@rows("decode", ["lambda text: 1 / 0", "lambda text: None"])
def test_a_core_that_does_not_prove_itself(decode: str) -> None:
    core = "from jsonrpc_fast.codec._sources import checksum\nimport jsonrpc_fast.codec._sources as s, os\n"
    core += f"SOURCES = checksum(os.path.dirname(s.__file__)) or 0\ndecode = {decode}"
    backend, fault = selected(core)
    assert backend == "python"
    assert fault.startswith("the core cannot be used: ")


OLD_ORJSON = """
import json
OPT_SORT_KEYS = 32
loads = json.loads
__version__ = "3.8.3"

def dumps(value, default=None, option=0):
    return json.dumps(value).encode()
"""


@pytest.mark.ci
@rows(
    ("orjson", "fault"),
    [
        ("raise ImportError('this Python is another one')", "this Python is another one"),
        ("", "orjson cannot be used: AttributeError: module 'orjson' has no attribute 'loads'"),
        (OLD_ORJSON, "orjson 3.8.3 is too old"),
        (OLD_ORJSON.replace("json.loads", "len"), "orjson does not read what it has written"),
    ],
)
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="without the GIL orjson is not imported"
)
def test_an_orjson_that_cannot_be_used(orjson: str, fault: str) -> None:
    assert selected(orjson, "orjson")[1] == fault


PLAIN = f"""
import sys, jsonrpc_fast
exec({USE!r})
from jsonrpc_fast.codec import TRICKS
import json
print(json.dumps([jsonrpc_fast.BACKEND, TRICKS]))
"""


@pytest.mark.ci
def test_plain(core: ModuleType) -> None:
    found = {}
    for value in ("1", "0"):
        done = subprocess.run(
            [sys.executable, "-c", PLAIN],
            capture_output=True,
            text=True,
            check=True,
            env=environment(JSONRPC_FAST_PLAIN=value),
        )
        found[value] = json.loads(done.stdout)
    assert found["1"][0] == found["0"][0] == "cython"
    assert not any(found["1"][1].values())
    assert list(found["1"][1]) == list(found["0"][1]) == list(core.tricks())
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sysconfig.get_config_var("Py_DEBUG"):
        return
    assert all(found["0"][1].values())


EMBED = r"""
#include <Python.h>
int main(void) {
    for (int i = 0; i < 3; i++) {
        Py_Initialize();
        if (PyRun_SimpleString(
            "import json, sys, jsonrpc_fast\n"
            "exec(open(sys.argv[1] if len(sys.argv) > 1 else __import__('os').environ['USE']).read())\n"
            "print(json.dumps([jsonrpc_fast.BACKEND, backend.CORE_FAULT]), flush=True)\n") != 0)
            return 1;
        Py_Finalize();
    }
    return 0;
}
"""


@CPYTHON
@pytest.mark.slow
def test_an_interpreter_that_is_initialized_again(tmp_path: Path) -> None:
    config = Path(sys.base_prefix, "bin", f"python{sysconfig.get_config_var('VERSION')}-config")
    compiler = shutil.which("cc")
    if compiler is None or not config.exists() or not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("it needs a compiler, and a Python with a shared library")
    flags = subprocess.run(
        [config, "--embed", "--cflags", "--ldflags"], capture_output=True, text=True, check=True
    ).stdout.split()
    tmp_path.joinpath("embed.c").write_text(EMBED)
    tmp_path.joinpath("use.py").write_text("import sys\n" + USE)
    program = tmp_path / "embed"
    subprocess.run([compiler, tmp_path / "embed.c", *flags, "-o", program], check=True, capture_output=True)
    done = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        check=False,
        env=environment(
            USE=str(tmp_path / "use.py"), PYTHONHOME=sys.base_prefix, PYTHONPATH=os.pathsep.join(filter(None, sys.path))
        ),
    )
    assert done.returncode == 0, done.stderr
    first, *later = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(later) == 2
    assert (first[1] is None) == (first[0] == "cython")
    if first[0] == "cython":
        fault = "the core belongs to an earlier interpreter of this process, which has ended"
        assert later == 2 * [["python", fault]]
