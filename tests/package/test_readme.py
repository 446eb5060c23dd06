"""The README's examples run as they are written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jsonrpc_fast

from ..support.places import ROOT

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
EXAMPLES = {
    "codec": "message = decode(",
    "handlers": "handlers.dispatch(",
    "transport": "run_stdio(serve)",
    "session": "memory_pair()",
    "server": "server.serve_stdio()",
}


def example(name: str) -> str:
    [block] = [block for block in BLOCKS if EXAMPLES[name] in block]
    return block


@pytest.mark.parametrize("pure", ["0", "1"])
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.timeout(60)
def test_an_example_runs(tmp_path: Path, name: str, pure: str) -> None:
    if name == "server":
        pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    env = {**os.environ, "PYTHONPATH": str(Path(jsonrpc_fast.__file__).parents[1]), "JSONRPC_FAST_PURE": pure}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example(name)],
        env=env,
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_the_others_are_python() -> None:
    assert len(BLOCKS) > len(EXAMPLES)
    for block in BLOCKS:
        compile(block, "README", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_links_and_pictures_work_on_the_page_of_the_package() -> None:
    """A package index shows the README alone: what it points at is on the page, or has an address of its own."""
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r"""(?:src|href)=["']?([^"'\s>]+)""", prose)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert [target for target in targets if not (target.startswith("https://") or target in anchors)] == []
