"""Follow the pages like a reader: each page in its own environment, which has what the page installs.

    python -m tests.isolated.pages dist/jsonrpc_fast-….whl [docs/http.md …]

Code, commands and installations run in the order of the page. The wheel is installed first, without extras.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..support.pages import PAGES, Reader, packages, page_name, steps


def follow(page: Path, wheel: Path, folder: Path) -> str:
    """Follow a page, and return what was done."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", str(environment)], check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JSONRPC_FAST"))}
    variables = {**own, "PATH": os.pathsep.join([str(environment / "bin"), own["PATH"]])}

    def install(*names: str) -> None:
        found = [f"jsonrpc_fast{name} @ {wheel.as_uri()}" if name[:1] in ("", "[") else name for name in names]
        subprocess.run([str(environment / "bin" / "python"), "-m", "pip", "install", "-qq", *found], check=True)

    install("")
    found = steps(page)
    work = folder / "work"
    work.mkdir()
    with Reader(work, variables) as reader:
        for kind, text in found:
            if kind == "install":
                install(*packages(text))
            elif kind == "python":
                reader.run_code(text)
            else:
                reader.run_commands(text)
    return ", ".join(f"{[kind for kind, _ in found].count(each)} {each}" for each in ("install", "python", "console"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pages", type=Path, nargs="*")
    options = parser.parse_args()
    failed = 0
    for page in [path.resolve() for path in options.pages] or PAGES:
        if not steps(page):
            continue
        begin, folder = time.monotonic(), Path(tempfile.mkdtemp())
        try:
            outcome = follow(page, options.wheel.resolve(), folder)
        except (AssertionError, subprocess.SubprocessError) as error:
            outcome = f"FAILED: {error}"
            failed += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # a server that has just ended may still write its caches
        print(f"{page_name(page)}: {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
