"""The cells of the page about notebooks, in the kernel of Jupyter."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import write_scripts
from ..support.places import ROOT

PAGE = ROOT / "docs" / "scripts.md"
MORE = [
    'with mcp.blocking("python", "mcp_server.py") as client:\n    found = client.call_tool("add", {"a": 1})\nfound',
    "client.list_tools()",
    "import asyncio\n\nasync def main(): ...\n\nasyncio.run(main())",
]


@pytest.mark.slow
@pytest.mark.time_limit(120)
def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (group `dev`)")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (group `dev`)")
    write_scripts(PAGE, tmp_path)
    text = PAGE.read_text(encoding="utf-8").partition("## In a notebook")[2]
    cells = [
        re.sub("^ {5}", "", cell, flags=re.M) for cell in re.findall(r"^\[\d\]: ((?:.*\n)(?: {5}.*\n)*)", text, re.M)
    ]
    assert len(cells) == 8
    cells.insert(2, "client")
    cells[5] += "\nclient"
    cells[-1] += "\nclient"
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in [*cells, *MORE]])
    kernel: Any = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    kernel.execute()
    shown = [[output.get("data") or output.get("evalue", output) for output in cell.outputs] for cell in notebook.cells]
    assert shown[0] == shown[4] == []
    assert shown[1][0]["text/plain"] == "3.0"
    assert shown[2][0]["text/plain"] == "<Session running transport=StdioClient calls=0 requests=0>"
    assert shown[3][0]["text/plain"] == "['divide']"
    transport = "transport=ProgramTransport calls=0 requests=0>, 2026-07-28>"
    assert shown[5][0]["text/plain"] == f"<Client with <ClientSession running {transport}"
    assert shown[6][0]["text/html"] == "<table><tr><td>add</td><td>Add two numbers.</td></tr></table>"
    assert shown[7][0]["text/plain"] == "{'sum': 2}"
    assert shown[8][0]["text/plain"] == f"<Client with <ClientSession closed {transport}"
    assert "'structuredContent': {'sum': 2}" in shown[9][0]["text/plain"]
    assert shown[10] == ["it is closed, and connects only once: make a new one"]
    assert shown[11] == ["asyncio.run() cannot be called from a running event loop"]
