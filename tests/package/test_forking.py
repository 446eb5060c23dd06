"""A forked process behaves like one that an interpreter starts: both run each program here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..support.command_line import SECONDS, environment
from ..support.forking import MARK, forks, is_possible, without_site
from ..support.tables import rows

pytestmark = pytest.mark.skipif(not is_possible(), reason="interpreters start: no Linux, or their coverage is measured")
ATEXIT = """
import atexit, threading
atexit.register(print, "last")
threading.Thread(target=print, args=["first"]).start()
"""
FREED = """
class Said:
    def __del__(self):
        print("freed")
kept = Said()
"""
SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
PARENT = "import os; print(os.getppid(), os.getcwd(), os.environ['A_NAME'], os.readlink('/proc/self/fd/0'))"


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *words]
    env = environment(A_NAME="a value")
    return subprocess.run(
        command, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


@rows(
    ("code", "status", "output", "errors"),
    [
        ("import sys; print(sys.argv, __name__, sys.path[0] == '')", 0, "['-c', 'a', 'b'] __main__ True\n", ""),
        ("import sys; sys.stderr.write('half a line'); sys.exit()", 0, "", "half a line"),
        ("import sys; sys.exit(7)", 7, "", ""),
        ("import sys; sys.exit('a reason')", 1, "", "a reason\n"),
        ("1 / 0", 1, "", "ZeroDivisionError: division by zero\n"),
        (SIGNAL, -2, "", "KeyboardInterrupt\n"),
        (ATEXIT, 0, "first\nlast\n", ""),
        (FREED, 0, "freed\n", ""),
        ("import os, sys; print('never'); os.close(1); sys.stdout = sys.__stdout__", 120, "", "OSError"),
        ("import subprocess; print(subprocess.run(['echo', 'x'], capture_output=True).stdout)", 0, "b'x\\n'\n", ""),
    ],
)
@pytest.mark.ci
def test_a_program_and_its_end(code: str, status: int, output: str, errors: str) -> None:
    for start in ("", MARK):
        done = run(start + code, "a", "b")
        assert (done.returncode, done.stdout) == (status, output)
        assert errors in done.stderr
        assert bool(done.stderr) is bool(errors)


def test_the_process_is_a_child_in_the_folder_and_the_environment_that_were_asked_for() -> None:
    assert run(MARK + PARENT).stdout == run(PARENT).stdout
    assert forks.process is not None


@rows(
    "code, starts_without",
    [
        ("import json, sys", True),
        ("import sys, orjson", False),
        ("import sys, runpy; runpy.run_path(sys.argv[1])", False),
        ("import importlib; importlib.import_module('orjson')", False),
        ("import sys; __import__('orjson')", False),
        ("import sys; exit(1)", False),
        ("print(1)", False),
    ],
)
def test_a_script_starts_without_site_only_if_it_loads_nothing_from_there(code: str, starts_without: bool) -> None:
    command = [sys.executable, "-c", code]
    assert without_site(command) == ([sys.executable, "-S", "-c", code] if starts_without else command)
