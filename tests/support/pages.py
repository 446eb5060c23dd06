"""The pages for people and the Python code on them.

Each block of code is a script. One that begins with `# NAME.py` is saved under that name for the blocks after it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .places import ROOT

PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME: Final = re.compile(r"# (\w+\.py)\n")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def write_scripts(page: Path, folder: Path) -> list[Path]:
    """Write each block of a page as a file, and return the files in the order of the page."""
    scripts = []
    for index, block in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8"))):
        named = _FILE_NAME.match(block)
        scripts.append(folder / (named[1] if named else f"{page.stem.lower().replace('-', '_')}_{index}.py"))
        scripts[-1].write_text(block, encoding="utf-8")
    return scripts


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks in one language on a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def table_rows(text: str, *header: str) -> list[list[str]]:
    """Return the rows of all tables with this header on a page."""
    rows: list[list[str]] = []
    is_wanted = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" |")]
        if not line.startswith("|"):
            is_wanted = False
        elif is_wanted and not set(line) <= set("|-: "):
            rows.append([cell.removeprefix("| ").strip() for cell in cells])
        elif cells == list(header):
            is_wanted = True
    assert rows, header
    return rows
