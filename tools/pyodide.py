"""Run the tests of the codec and of the framings in Pyodide, under Node, on the pure wheel in `dist`.

The arguments are those of pytest.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from .packages import ROOT

TOOLS: Final = ("hypothesis>=6.100,<6.130", "pytest>=8.3", "pytest-benchmark>=5.3", "pytest-timeout>=2.3")
PROGRAM: Final = """
import os, sys
os.chdir("/work")
sys.path.insert(0, "/work")
import pytest
assert pytest.main({}) == 0
"""
# Emscripten has no timer for pytest-timeout.
OPTIONS: Final = ("-q", "--pure-only", "--ci", "-p", "no:cacheprovider", "-o", "timeout=0")


def main(arguments: list[str]) -> None:
    runner = ROOT / "tests" / "peers" / "pyodide"
    [wheel] = (ROOT / "dist").glob("*-py3-none-any.whl")
    [archive] = (ROOT / "dist").glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = folder / "wheels"
        download = ("download", "-q", "--only-binary=:all:", "--platform=any", "-d", str(wheels), *TOOLS)
        subprocess.run([sys.executable, "-m", "pip", *download], check=True)
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        sources = folder / archive.name.removesuffix(".tar.gz")
        shutil.rmtree(sources / "jsonrpc_fast")
        program = folder / "program.py"
        program.write_text(PROGRAM.format([*OPTIONS, *(arguments or ["tests/codec", "tests/framing"])]))
        subprocess.run(["npm", "ci", "--prefix", str(runner)], check=True)
        found = [str(path) for path in (wheel, *wheels.iterdir())]
        # Calls of C take the stack of Node: those of Hypothesis for a regular expression more than its default.
        node = ("node", "--stack-size=3000")
        subprocess.run([*node, str(runner / "run.mjs"), str(sources), str(program), *found], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
