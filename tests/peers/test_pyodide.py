"""The pure wheel in Pyodide, under Node: it is installed, decodes and encodes. `tools.pyodide` runs more tests."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Final

import pytest

from ..support.installed_codec import USE
from ..support.places import PEERS, ROOT
from .node import install

FOLDER: Final = PEERS / "pyodide"
PROGRAM: Final = f"""
import sys
from importlib.metadata import version

assert sys.platform == "emscripten"
assert version("jsonrpc_fast")
rounds = 20
{USE}
for opening in (b"[", b'{{"a":', b'[{{"a":1,"b":'):
    assert decode(100_000 * opening).rpc_code == -32700
assert backend.BACKEND == "python"
assert backend.CORE_FAULT.startswith("the core was not built: JSONRPC_FAST_EXTENSION=no, as for the pure wheel.")
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pure wheel of these sources."""
    pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 reads all of pyproject.toml")
    if not (ROOT / "setup.py").exists():
        pytest.skip("the sources are missing")
    folder = tmp_path_factory.mktemp("wheel")
    build = ["setup.py", "-q", "egg_info", "-e", str(folder), "build", "-b", str(folder / "build")]
    build += ["bdist_wheel", "-d", str(folder)]
    environment = {**os.environ, "JSONRPC_FAST_EXTENSION": "no"}
    subprocess.run([sys.executable, *build], cwd=ROOT, env=environment, check=True, timeout=300)
    [wheel] = folder.glob("*-py3-none-any.whl")
    return wheel


def test_the_pure_wheel_works_in_pyodide(wheel: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [install(FOLDER), str(FOLDER / "run.mjs"), str(tmp_path), str(program), str(wheel)]
    run = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_pure_wheel_asks_for_orjson_where_it_can_be_installed(wheel: Path) -> None:
    requirements = pytest.importorskip("packaging.requirements")
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist", [])
    [orjson] = [found for found in map(requirements.Requirement, lines) if found.name == "orjson"]

    def is_required(implementation: str, platform: str) -> bool:
        names = {"platform_python_implementation": implementation, "sys_platform": platform, "extra": ""}
        return bool(orjson.marker.evaluate(names))

    assert is_required("CPython", "linux")
    assert is_required("CPython", "win32")
    assert not is_required("CPython", "emscripten")
    assert not is_required("PyPy", "linux")
