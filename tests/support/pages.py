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
