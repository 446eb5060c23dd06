"""Read the documentation pages and run what a reader would run: code, commands and `pip install`.

- Each block of code is a script. If it begins with `# NAME.py`, it is saved under that name for the blocks after it;
  one that ends with `.run())` is a server, which a command of the page starts.
- In a block of the language `console`, `$ ` begins a command, and its output follows; `...` is any output. A server,
  whose command is `uvicorn` or whose output begins with `listening on`, continues while the rest of the page runs.
- `pip install` may be in the text or in a shell block.
"""

from __future__ import annotations

import contextlib
import doctest
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from .places import ROOT
from .waiting import accepts, blocking_eventually

PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SECONDS: Final = 60

_BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME: Final = re.compile(r"# (\w+\.py)\n")
_STEP: Final = re.compile(
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$|^```sh\n(?P<shell>.*?)^```$|^```.*?^```$"
    r"|`(?P<install>pip install [^`]+)`",
    re.DOTALL | re.MULTILINE,
)


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


class Step(NamedTuple):
    """One thing that a reader of a page runs."""

    kind: Literal["python", "console", "install"]
    text: str


def steps(page: Path) -> list[Step]:
    """Return the steps of a reader, in the order of the page, up to the last code or command."""
    found = []
    for match in _STEP.finditer(page.read_text(encoding="utf-8")):
        if match["kind"]:
            found.append(Step(match["kind"], match["text"]))  # type: ignore[arg-type]
        else:
            lines = [match["install"]] if match["install"] else (match["shell"] or "").splitlines()
            found += [Step("install", line) for line in lines if line.startswith("pip install") and "&&" not in line]
    while found and found[-1].kind == "install":
        found.pop()
    return found


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, and the output of each."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def packages(text: str) -> list[str]:
    """Return the packages in a `pip install` of a page. This package is `""`, or its extras in brackets."""
    words = [word for word in shlex.split(text)[2:] if not word.startswith("-")]
    return [re.sub(r"^(?:\.|jsonrpc_fast)(?=\[|$)", "", word) for word in words]


class Reader(contextlib.ExitStack):
    """Runs the code and the commands of a page in a folder. Its servers end when it ends."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__()
        self._folder = folder
        self._environment = environment
        self._scripts = 0

    def run_code(self, text: str) -> None:
        """Run a block as a script, whose warnings are errors."""
        self._scripts += 1
        named = _FILE_NAME.match(text)
        path = self._folder / (named[1] if named else f"script_{self._scripts}.py")
        path.write_text(text, encoding="utf-8")
        if named and text.endswith(".run())\n"):
            return
        done = self._run("python", "-W", "error", path.name)
        assert (done.returncode, done.stdout.partition("Traceback")[1]) == (0, ""), f"{text}\n{done.stdout}"

    def run_commands(self, text: str) -> None:
        """Run the commands of a block, and compare their output."""
        for command, output in commands(text):
            if command.startswith("uvicorn ") or output.startswith("listening on "):
                self._start(command, output or command)
                continue
            done = self._run("sh", "-c", command)
            found = done.stdout if done.stdout[-1:] in ("", "\n") else f"{done.stdout}\n"  # curl adds no line ending
            is_right = doctest.OutputChecker().check_output(output, found, doctest.ELLIPSIS)
            assert is_right, f"{command}\n{done.stdout}"

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def _start(self, command: str, place: str) -> None:
        [port] = map(int, re.findall(r"\b\d{4,5}\b", place))
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.callback(process.wait, SECONDS)
        self.callback(process.terminate)
        blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
        assert process.poll() is None, command


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
