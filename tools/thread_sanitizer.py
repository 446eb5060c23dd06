"""Run `tests.isolated.threads` under the thread sanitizer, with a free-threaded Python built `--with-thread-sanitizer`.

Without one on the path nothing is run, and that is said. The arguments are those of `tests.isolated.threads`.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from .packages import ROOT, copy_sources

PYTHONS: Final = ("python3.14t", "python3.13t")
FLAGS: Final = ("-O1", "-g", "-w", "-fPIC", "-fno-omit-frame-pointer", "-fsanitize=thread")
FOLDER: Final = ROOT / "build" / "thread_sanitizer"
WATCHES_THREADS: Final = """
from sysconfig import get_config_var
assert get_config_var("Py_GIL_DISABLED") and "--with-thread-sanitizer" in get_config_var("CONFIG_ARGS")
"""
PLACES: Final = "from sysconfig import *; print(get_path('include'), get_config_var('EXT_SUFFIX'))"
CHECK: Final = "import jsonrpc_fast; assert jsonrpc_fast.BACKEND == 'cython', jsonrpc_fast.BACKEND"


def python_that_watches_threads() -> str | None:
    """Return the first Python on the path that can be used, or None."""
    for folder in os.get_exec_path():
        for name in PYTHONS:
            python = shutil.which(name, path=folder)
            if python and subprocess.run([python, "-c", WATCHES_THREADS], stderr=subprocess.DEVNULL).returncode == 0:
                return python
    return None


def main(arguments: list[str]) -> None:
    python = python_that_watches_threads()
    if python is None:
        print("skipped: no free-threaded Python on the path was built with --with-thread-sanitizer")
        return
    copy_sources(FOLDER)
    with tempfile.TemporaryDirectory() as tools:
        install = ("-m", "pip", "install", "-q", "--target", tools, "Cython>=3.1", "hypothesis>=6.100,<6.130")
        subprocess.run([sys.executable, *install], check=True)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([tools, str(FOLDER)])}

        def run(*command: str) -> str:
            return subprocess.run(command, cwd=FOLDER, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout

        # setuptools itself takes minutes under the sanitizer.
        codec = Path("jsonrpc_fast", "codec")
        run(sys.executable, "-m", "cython", "-o", "core.c", str(codec / "_core.pyx"))
        include, suffix = run(python, "-c", PLACES).split()
        checksum = runpy.run_path(str(FOLDER / codec / "_sources.py"))["checksum"](str(FOLDER / codec))
        macros = (f"-DJSONRPC_FAST_SOURCES={checksum}UL", "-DCYTHON_CLINE_IN_TRACEBACK=1")
        run("gcc", "-shared", *FLAGS, *macros, f"-I{include}", "core.c", "-o", str(codec / f"_core{suffix}"))
        suppressions = ROOT / "tests" / "isolated" / "thread_sanitizer.txt"
        env["TSAN_OPTIONS"] = f"suppressions={suppressions} history_size=7"
        run(python, "-c", CHECK)
        print(run(python, "-m", "tests.isolated.threads", *arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
