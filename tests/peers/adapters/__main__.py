"""Run the tests of libraries without and with their adapters, and measure both: python -m tests.peers.adapters NAME

For each library it makes an environment with what the library's tests need, gets the sources of the installed version
from the package index, and runs the tests twice. Some of these sources have no tests: `--sources FOLDER` names a folder
with checkouts, each named after its library. Ratios are those of the minima of many interleaved rounds; above 1 the
adapter is faster. At the end it prints the tables of docs/adapters.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import jsonrpc_fast
from jsonrpc_fast import codec

from ...support.places import PACKAGE
from . import aiorpcx, json, mcp, pygls, pylsp, web3
from .library import Library, Works
from .own_tests import Outcomes, run_own_tests
from .table import HEAD, OTHERS_HEAD, SIZES_HEAD, failure_rows, other_rows, row, size_rows

LIBRARIES: Final[dict[str, Library]] = {
    library.label or library.name: library
    for library in [
        pygls.LIBRARY,
        pylsp.LIBRARY,
        pylsp.SERVER,
        aiorpcx.LIBRARY,
        mcp.SDK,
        mcp.SDK_1,
        mcp.FASTMCP,
        web3.LIBRARY,
        json.JSON,
        json.JSONRPCSERVER,
        json.JSON_RPC,
        json.PJRPC,
    ]
}


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def main() -> int:
    """Return 1 if a test fails with an adapter for no known reason, or passes although there is one; otherwise 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(LIBRARIES)}; all without one")
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="checkouts of libraries, with their tests")
    parser.add_argument("--no-tests", action="store_true", help="measure only")
    parser.add_argument("--no-times", action="store_true", help="run the tests only")
    arguments = parser.parse_args()
    if jsonrpc_fast.BACKEND != "cython" and not arguments.no_times:
        parser.error(
            f"the figures are about the core, which is not in use: {codec.CORE_FAULT}; --no-times leaves them out"
        )
    before = load()
    rows, others, sizes, failures = [], [], [], []
    is_as_known = True
    for name in arguments.names or LIBRARIES:
        library = LIBRARIES[name]
        print(f"{name} ...", flush=True)
        outcomes: Outcomes | None = None
        works: Works = {}
        if library.tests and not arguments.no_tests:
            with tempfile.TemporaryDirectory() as folder:
                outcomes = run_own_tests(library, arguments.sources, Path(folder))
        if library.measure is not None and not arguments.no_times:
            works = library.measure()
            for work, (without, with_it) in works.items():
                print(f"  {work:28} {without * 1e6:10.1f} us {with_it * 1e6:10.1f} us {without / with_it:6.2f}")
        try:
            found = version(library.name) if outcomes is None else outcomes.version
        except PackageNotFoundError:
            found = "not installed" if library.tests else platform.python_version()
        if library.tests:
            lines = len((PACKAGE / "adapters" / f"{library.adapter}.py").read_text().splitlines())
            rows.append(row(library, found, lines, outcomes, works))
        others += other_rows(f"{library.name} {found}", works)
        sizes += size_rows(f"{library.name} {found}", works)
        if outcomes is not None:
            failures += failure_rows(f"{library.name} {found}", outcomes.failures)
            is_as_known = is_as_known and not outcomes.unknown
            for test in outcomes.unknown:
                print(f"  not as known: {test}")
    print(
        f"\nPython {platform.python_version()}, backend {jsonrpc_fast.BACKEND}, {os.cpu_count()} processors; "
        f"load {before} before the run and {load()} after it.\n"
    )
    print(HEAD, *rows, "", OTHERS_HEAD, *others, "", SIZES_HEAD, *sizes, "", *failures, sep="\n")
    return 0 if is_as_known else 1


if __name__ == "__main__":
    sys.exit(main())
