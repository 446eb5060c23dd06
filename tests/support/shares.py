"""Each worker of `pytest -n auto --dist loadfile` collects a share of the files, not all of them to run a share.

To compile, import and collect all tests costs a worker 10 to 25 seconds of processor time. The files are known before,
and their sizes divide them evenly enough. Files that import the same library of HEAVY are in one share: each of these
takes about a second to import. Files that the command line names are collected and divided as usual.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

FILES = pytest.StashKey[frozenset[Path]]()
"""The files of the share of this worker."""
NUMBERS = pytest.StashKey[dict[int, int]]()
"""The number of the share, by the specification of a worker."""
HEAVY: Final = re.compile(
    r"^\s*(?:import |from |(?:\w+ = )?pytest\.importorskip\(\s*\")"
    r"(?:jsonrpc_fast\.adapters(?: import |\.)(?:\w+, )*|jsonrpc_fast\.(?=mcp\.client\.oauth))?"
    r"(?P<library>mcp|nats|pygls|web3)\b",
    re.MULTILINE,
)
"""The import of a library that takes long to import, or of what imports it."""


def is_shared(config: pytest.Config) -> bool:
    """Return whether the command line names folders alone. Sizes say nothing of slow tests, which take minutes."""
    names_folders = all(os.path.isdir(each) for each in config.args)
    return config.getoption("dist", None) == "loadfile" and names_folders and not config.getoption("slow")


def files_in(folders: list[Path], patterns: list[str]) -> list[Path]:
    """Return the files of tests in some folders, without the environments of peers: these have 100,000 files."""
    found: set[Path] = set()
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if not name.startswith(".") and name != "node_modules"]
            found.update(Path(place, name) for name in names if any(fnmatch.fnmatch(name, each) for each in patterns))
    return list(found)


def divided(files: list[Path], count: int) -> list[list[Path]]:
    """Return shares of the files: each file, the largest first, belongs to the share that is the smallest by then."""
    together: dict[str, list[Path]] = {}
    for file in files:
        found = HEAVY.search(file.read_text(encoding="utf-8"))
        together.setdefault(found["library"] if found else str(file), []).append(file)
    sizes = [0] * count
    shares: list[list[Path]] = [[] for _ in sizes]
    for size, group in sorted(
        ((sum(file.stat().st_size for file in each), each) for each in together.values()), reverse=True
    ):
        least = sizes.index(min(sizes))
        sizes[least] += size
        shares[least] += group
    return shares


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    config, worker = node.config, node.workerinput
    if is_shared(config):
        folders = [(config.invocation_params.dir / each).resolve() for each in config.args]
        files = files_in(folders, config.getini("python_files"))
        numbers = config.stash.setdefault(NUMBERS, {})
        number = numbers.setdefault(id(node.gateway.spec), len(numbers))  # also that of a worker that has crashed
        worker["share"] = [str(file) for file in divided(files, worker["workercount"])[number]]


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if "share" in worker:
        config.stash[FILES] = frozenset(map(Path, worker["share"]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    files = config.stash.get(FILES, None)
    if files is None or not collection_path.is_file():
        return None
    return None if collection_path.resolve() in files else True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if not is_shared(config):
        return None
    from xdist.scheduler import EachScheduling  # type: ignore[import-untyped]

    class Shares(EachScheduling):  # type: ignore[misc]
        """Each worker runs what it has collected."""

        def schedule(self) -> None:
            # pytest-xdist has set this to the tests of one worker.
            session = config.pluginmanager.getplugin("dsession")._session
            session.testscollected = sum(map(len, self.node2collection.values()))
            super().schedule()

    return Shares(config, log)
