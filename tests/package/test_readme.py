"""The code on the README and the pages in docs/ runs as it is written, and their links lead somewhere."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from ..support import needs
from ..support.pages import PAGES, Reader, page_name, steps, write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.tables import rows
from ..support.waiting import free_port

README = ROOT / "README.md"


def follow(page: Path, folder: Path, **variables: str) -> None:
    """Run the code and the commands of a page, in this environment and with a free port in place of 8000."""
    port = str(free_port())
    # `python` in an example is the Python that runs the tests.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with Reader(folder, {**own, "PATH": path, "PYTHONPATH": str(PACKAGE.parent), **variables}) as reader:
        for kind, text in steps(page):
            if kind == "python":
                reader.run_code(text)
            elif kind == "console":
                reader.run_commands(text.replace("8000", port))


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_the_first_page_of_the_site(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra `test`)")
    needs.require("curl")
    follow(ROOT / "docs" / "index.md", tmp_path)


@rows("pure", ["0", "1"])
@rows("page", PAGES, ids=page_name)
@pytest.mark.timeout(120)
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_a_page_runs(tmp_path: Path, page: Path, pure: str) -> None:
    if any("mcp" in text for _, text in steps(page)):
        pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
        pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    follow(page, tmp_path, JSONRPC_FAST_PURE=pure)


def test_the_readme_has_code(tmp_path: Path) -> None:
    assert len(write_scripts(README, tmp_path)) >= 4
    assert (tmp_path / "server.py").is_file()


def headings(text: str) -> set[str]:
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }


@rows("page", PAGES, ids=page_name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, re.MULTILINE):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.is_file(), target
            assert not anchor or anchor in headings(linked.read_text(encoding="utf-8")), target


def test_the_readme_has_no_picture_of_the_repository() -> None:
    """A package index shows the README alone."""
    text = README.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text) + re.findall(r"""src=["']?([^"'\s>]+)""", text)
    assert [picture for picture in pictures if not picture.startswith("https://")] == []


def test_the_two_commands_of_the_readme() -> None:
    """`.ci/run` runs them as they are written: the installation and the tests."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    first, second, *_ = "".join(blocks).splitlines()
    assert first.startswith(
        "pip install . && jsonrpc-fast call add a=1 b=2 -- python examples/server.py && jsonrpc-fast check "
    )
    assert second == "pip install -e '.[test]' && pytest -n auto --dist loadfile"
