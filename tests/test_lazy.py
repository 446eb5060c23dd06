"""Names that are imported at their first use: which there are, and what an import loads without them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import jsonrpc_fast
from jsonrpc_fast._lazy import lazy_names

from .support.tables import rows

STDIO = "jsonrpc_fast.transports.stdio"


def loaded(code: str, *prefixes: str) -> list[str]:
    """Return the modules of the package, by prefix, that a new process has loaded after some code."""
    shown = f"{code}\nimport sys; print(*[name for name in sys.modules if name.startswith({prefixes!r})])"
    return subprocess.run([sys.executable, "-c", shown], capture_output=True, check=True, text=True).stdout.split()


@rows(
    "code, prefixes",
    [
        ("import jsonrpc_fast.session, jsonrpc_fast.transports", ("jsonrpc_fast.handlers", STDIO, "asyncio")),
        ("from jsonrpc_fast.session import Session", (STDIO, "jsonrpc_fast.transports.stream")),
        ("from jsonrpc_fast.transports import memory_pair", (STDIO, "jsonrpc_fast.session")),
    ],
)
def test_an_import_does_not_load(code: str, prefixes: tuple[str, ...]) -> None:
    assert loaded(code, *prefixes) == []


def test_the_limits_of_a_backend_are_known_at_first_use() -> None:
    code = "from jsonrpc_fast.profile import Limits; print(Limits().message_bytes)"
    environment = {"JSONRPC_FAST_PURE": "1"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert printed.stdout == "16777216\n"


@rows("package", ["jsonrpc_fast.session", "jsonrpc_fast.transports"])
def test_each_name_is_found_and_listed(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert {*module.__all__, "__doc__"} <= set(dir(module))
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


@rows(
    "package, modules",
    [
        ("jsonrpc_fast", "codec codes errors framing profile types"),
        ("jsonrpc_fast.session", "conventions engine session"),
        ("jsonrpc_fast.transports", "stdio stream"),
    ],
)
def test_an_import_of_a_package_is_enough_for_its_modules(package: str, modules: str) -> None:
    for module in modules.split():
        command = [sys.executable, "-c", f"import {package}; print({package}.{module}.__name__)"]
        printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        assert printed == f"{package}.{module}\n"


def test_a_name_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("package")
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.module", jsonrpc_fast)
    names, find, list_names = lazy_names("package", {"module": "decode encode"})
    assert names == ["decode", "encode"]
    assert set(names) <= set(list_names())
    assert find("decode") is jsonrpc_fast.decode
    assert vars(package)["decode"] is jsonrpc_fast.decode
    assert "encode" not in vars(package)
