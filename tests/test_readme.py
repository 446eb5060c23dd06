"""The README's example runs as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jsonrpc_fast

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_first_example(tmp_path: Path, pure: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks, "the README has no python block"
    assert "jsonrpc_fast" in blocks[0]
    env = {**os.environ, "PYTHONPATH": str(Path(jsonrpc_fast.__file__).parents[1]), "JSONRPC_FAST_PURE": pure}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[0]], env=env, cwd=tmp_path, capture_output=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, b"")
