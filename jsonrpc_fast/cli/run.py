"""The command `run`: an unchanged program of another library, with the adapter of that library installed.

Rules:
  - The program runs in this process, as `python PROGRAM` or `python -m MODULE` would run it.
  - An adapter is installed after the program has imported the library that it adapts, so that no library is imported
    needlessly. This happens at the end of the outermost import, because until then parts of the library may be missing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from .output import Status, escape, print_error

_PROGRAM: Final = "jsonrpc-fast run"
# The modules whose classes an adapter replaces. A program that imports one of them uses the library.
_ADAPTERS: Final = {
    "aiorpcx": "aiorpcx",
    "mcp.client.stdio": "mcp",
    "mcp.server.stdio": "mcp",
    "pygls.client": "pygls",
    "pygls.lsp.client": "pygls",
    "pygls.lsp.server": "pygls",
    "pygls.server": "pygls",
    "pylsp_jsonrpc.streams": "pylsp",
}
"""The adapter to install after the import of a module, by the module's name."""
_LIBRARIES: Final = frozenset(name.partition(".")[0] for name in _ADAPTERS)
_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:\s+(\S+))?")
# The launcher that pip writes if the path of the interpreter is too long for a shebang line, or has a space: /bin/sh
# runs it, and Python reads it as a string.
_LONG_SHEBANG: Final = re.compile(rb"#!/bin/sh\n'''exec' [\"']?([^\"'\n]+?)[\"']? \"\$0\"")


def run(words: Sequence[str]) -> int:
    """Run a file, a program on the path, or a module after -m, with its arguments. Its exceptions propagate."""
    name, *arguments = words
    is_module = name == "-m"
    if is_module:
        if not arguments:
            return _fail("-m needs the name of a module", Status.WRONG)
        name, *arguments = arguments
        # Like `python -m`.
        sys.path.insert(0, os.getcwd())
        why = ""
        try:
            spec = find_spec(name)
        except (ImportError, ValueError) as error:
            spec = None
            # A package above it may need a module that is missing.
            if not f"{name}.".startswith(f"{getattr(error, 'name', None)}."):
                why = f": {error}"
        if spec is None:
            return _fail(f"there is no module {escape(name)}{escape(why)}", Status.NOT_FOUND)
        path = name
    else:
        found = _found(name)
        if isinstance(found, int):
            return found
        path = found
        # Like `python PROGRAM`: the folder of the link's target.
        sys.path.insert(0, str(Path(path).resolve().parent))
    sys.argv[:] = [path, *arguments]
    sys.meta_path.insert(0, _Installer())
    if is_module:
        runpy.run_module(path, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(path, run_name="__main__")
    return Status.SUCCESS


def _found(name: str) -> str | int:
    """Return the file of a program in Python, or an exit status if no such program is found."""
    path = name if os.path.dirname(name) or os.path.isfile(name) else shutil.which(name)
    if path is None or not os.path.exists(path):
        return _fail(f"{escape(name)} is not found", Status.NOT_FOUND)
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, "__main__.py")):
        return _fail(f"{escape(path)} is a folder without a __main__.py", Status.CANNOT_RUN)
    if path.endswith((".py", ".pyw", ".pyz")) or os.path.isdir(path) or sys.platform == "win32":
        return path
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        return _fail(f"cannot read {escape(path)}: {error.strerror}", Status.CANNOT_RUN)
    match = _LONG_SHEBANG.match(start) or _SHEBANG.match(start)
    words = [] if match is None else [os.fsdecode(word) for word in match.groups() if word]
    interpreter = words[-1] if words and os.path.basename(words[0]) == "env" else "".join(words[:1])
    if not re.match(r"(?:python|pypy)", os.path.basename(interpreter)):
        return _fail(f"{escape(path)} is not a program in Python", Status.CANNOT_RUN)
    folder = os.path.dirname(interpreter)
    # Another interpreter has other packages installed, so the program would not find its own.
    if folder and os.path.realpath(folder) != os.path.realpath(os.path.dirname(sys.executable)):
        return _fail(
            f"{escape(path)} belongs to another Python: install jsonrpc_fast there, "
            f"and run it with {escape(os.path.join(folder, 'jsonrpc-fast'))} run",
            Status.CANNOT_RUN,
        )
    return path


class _Installer(importlib.abc.MetaPathFinder):
    """Finds the modules of libraries as the other finders do, and installs the adapters after their import."""

    def __init__(self) -> None:
        self._is_finding = False
        self._depth = 0  # of imports of libraries
        self._pending: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the spec of a module that is watched, None for all others."""
        # `find_spec` below asks all finders, this one included.
        if self._is_finding or (name not in _ADAPTERS and name not in _LIBRARIES):
            return None
        self._is_finding = True
        try:
            spec = find_spec(name)
        finally:
            self._is_finding = False
        if spec is not None:
            # The loader itself is kept, because the library may ask it for the data in its package.
            loader: Any = spec.loader
            # A zip file has one loader for all its modules, which may be looked up several times.
            if loader is not None and "exec_module" not in vars(loader):
                loader.exec_module = partial(self._execute, loader, loader.exec_module)
        return spec

    def _execute(self, loader: Any, execute: Callable[[ModuleType], object], module: ModuleType) -> None:
        """Execute a module, and install the adapters that are due."""
        del loader.exec_module  # restores the method of its class
        self._depth += 1
        try:
            execute(module)
            parent, _, name = module.__name__.rpartition(".")
            if parent:
                setattr(sys.modules[parent], name, module)  # the import does this next, but the adapter needs it now
            if module.__name__ in _ADAPTERS:
                self._pending.append(_ADAPTERS[module.__name__])
            # Not inside another import of the library: the adapter imports parts that may still be missing.
            while self._depth == 1 and self._pending:
                self._install(self._pending.pop())
        finally:
            self._depth -= 1

    def _install(self, adapter: str) -> None:
        try:
            importlib.import_module(f"..adapters.{adapter}", __package__).install()
        except ImportError as error:
            print_error(f"the program runs without the adapter {adapter}: {error}", _PROGRAM)


def _fail(text: str, status: int) -> int:
    print_error(text, _PROGRAM)
    return status
