"""Run commands on a core that is built with the sanitizers of GCC: `python -m tools.sanitized -m tests.isolated.hooks`.

The arguments are those of a Python in a copy of the sources. Without arguments: the codec's tests, and the fuzz targets
of the core for a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from jsonrpc_fast.framing.frames import STREAM_FRAMINGS

from .packages import ROOT, copy_sources

FOLDER: Final = ROOT / "build" / "sanitizers"
FLAGS: Final = (
    "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined "
    "-fno-sanitize=alignment"  # the tests of guard pages place objects at any address
)
OPTIONS: Final = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter frees little at its end
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
}
TARGETS: Final = (
    *("differential", "decode", "parse", "raw", "reader", "writer"),
    *[f"decoder-{framing}" for framing in STREAM_FRAMINGS],
)
"""The fuzz targets of the core."""
CHECK: Final = "import jsonrpc_fast; print(jsonrpc_fast.BACKEND, jsonrpc_fast.__file__)"


def main(arguments: list[str]) -> int:
    copy_sources(FOLDER)
    build = {**os.environ, "CC": "gcc", "CFLAGS": FLAGS, "JSONRPC_FAST_EXTENSION": "yes"}
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=FOLDER, env=build, check=True)
    libraries = [
        subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, check=True, text=True).stdout
        for name in ("asan", "ubsan")
    ]
    preload = " ".join(map(str.strip, libraries))
    env = {**os.environ, "PYTHONPATH": str(FOLDER), **OPTIONS, "LD_PRELOAD": preload}

    def run(*words: str, shown: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=FOLDER, env=env, check=True, text=True, stdout=None if shown else -1
        )
        return done.stdout or ""

    backend, _, place = run("-c", CHECK, shown=False).partition(" ")
    assert backend == "cython", backend
    assert place.startswith(str(FOLDER)), place
    if arguments:
        run(*arguments)
    else:
        run("-m", "pytest", "-n", "auto", "--dist", "loadfile", "-q", "--ci", "tests/codec")
        run("-m", "tests.fuzz", *TARGETS, "--seconds", "60")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
