"""The public names, and the choice of the backend behind them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

import jsonrpc_fast
from jsonrpc_fast import codec

from ..conftest import is_pure_only, load_backend
from ..support.needs import unmeasured
from ..support.places import PACKAGE
from ..support.tables import rows

NAMES = [
    "BACKEND",
    "CLIENT",
    "JSONRPC",
    "JSONRPC_1",
    "LENIENT",
    "LSP",
    "MCP_2024_11_05",
    "MCP_2025_03_26",
    "MCP_2025_06_18",
    "MCP_2025_11_25",
    "MCP_2026_07_28",
    "PRESETS",
    "UNSET",
    "CallCancelled",
    "CallTimeout",
    "Classification",
    "ConnectionLost",
    "Decoder",
    "EncodeError",
    "Error",
    "ErrorCode",
    "Framing",
    "HandshakeError",
    "Hint",
    "Limits",
    "LspErrorCode",
    "McpErrorCode",
    "Message",
    "MessageId",
    "Notification",
    "Params",
    "ParseError",
    "ParseErrorCode",
    "Profile",
    "Raw",
    "RawMessage",
    "Request",
    "Response",
    "RpcError",
    "StateError",
    "Unset",
    "__version__",
    "classify",
    "decode",
    "decode_dict",
    "encode",
    "encode_dict",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "parse",
]
REPORT = """
import json, jsonrpc_fast
from jsonrpc_fast import codec
message = jsonrpc_fast.decode(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
print(json.dumps([jsonrpc_fast.BACKEND, codec.CORE_FAULT, codec.backend.__name__, repr(message)]))
"""
REQUEST = "Request(id=1, method='m', params=None)"


PICKLED = """
import pickle, sys, jsonrpc_fast
public = {name: getattr(jsonrpc_fast, name) for name in jsonrpc_fast.__all__}
named = {name: value for name, value in public.items() if getattr(value, "__qualname__", None) == name}
assert len(named) > 30
if len(sys.argv) > 1:
    assert pickle.loads(bytes.fromhex(sys.argv[1])) == named
print(pickle.dumps(named, 0).hex())
"""


def test_names() -> None:
    assert jsonrpc_fast.__all__ == NAMES
    for name in NAMES:
        assert getattr(jsonrpc_fast, name) is not None


def test_functions_and_classes_are_pickled_by_their_public_names() -> None:
    """So a pickle of the core is read where only the pure backend is, as in interpreters that cannot have the core."""

    def pickled(pure: str, *given: str) -> str:
        command = [sys.executable, "-c", PICKLED, *given]
        environment = {**os.environ, "JSONRPC_FAST_PURE": pure}
        return subprocess.run(command, env=environment, capture_output=True, check=True, text=True, timeout=60).stdout

    of_core = pickled("")
    of_pure = pickled("1", of_core.strip())
    assert of_core == of_pure
    modules = set(re.findall(r"^c(jsonrpc_fast\S*)$", bytes.fromhex(of_pure).decode(), re.MULTILINE))
    assert modules == {"jsonrpc_fast", *[f"jsonrpc_fast.{name}" for name in ("codes", "errors", "profile", "types")]}


def test_a_star_import_gives_all_names() -> None:
    namespace: dict[str, Any] = {}
    exec("from jsonrpc_fast import *", namespace)
    assert namespace.keys() - {"__builtins__"} == set(NAMES)


def test_version() -> None:
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+([a-z.][a-z0-9.]*)?", jsonrpc_fast.__version__)


def test_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def report(prologue: str = "", **environment: str | None) -> list[Any]:
    """Return backend, fault, the module of a message and the message, from a new process."""
    changed = {"PYTHONPATH": str(PACKAGE.parent), "JSONRPC_FAST_PURE": None, **environment}
    env = {name: value for name, value in {**unmeasured(), **changed}.items() if value is not None}
    run = subprocess.run([sys.executable, "-c", prologue + REPORT], env=env, capture_output=True, check=True)
    assert run.stderr == b""
    return json.loads(run.stdout)  # type: ignore[no-any-return]


@rows("value", [None, "", "0", "false", "False", "no", " "])
@pytest.mark.ci
def test_the_core_is_chosen(pytestconfig: pytest.Config, value: str | None) -> None:
    if is_pure_only(pytestconfig):
        pytest.skip("the core is not under test")
    assert report(JSONRPC_FAST_PURE=value) == ["cython", None, "jsonrpc_fast.codec._core", REQUEST]


@rows("value", ["1", "yes", "true"])
@pytest.mark.ci
def test_the_pure_backend_is_chosen_on_request(value: str) -> None:
    found = report(JSONRPC_FAST_PURE=value)
    assert found == ["python", "JSONRPC_FAST_PURE is set", "jsonrpc_fast.codec._pure", REQUEST]


def test_the_limits_of_a_backend_are_known_at_first_use() -> None:
    code = "from jsonrpc_fast.profile import Limits; print(Limits().message_bytes)"
    environment = {**os.environ, "JSONRPC_FAST_PURE": "1"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert printed.stdout == "16777216\n"


@pytest.mark.ci
def test_what_only_unusual_profiles_need_is_not_loaded() -> None:
    """Decimals, the forms that `Profile.writes` selects, what sessions choose by the peer, and the event loop."""
    prologue = """
import sys, jsonrpc_fast
jsonrpc_fast.decode_dict(jsonrpc_fast.encode_dict({"jsonrpc": "2.0", "id": 1, "method": "m"}))
unusual = {"asyncio", "decimal", *("jsonrpc_fast.codec." + name for name in ("_decimals", "_forms", "encoders"))}
assert not unusual & sys.modules.keys(), unusual & sys.modules.keys()
layers = {name.split(".")[1] for name in sys.modules if name.startswith("jsonrpc_fast.")}
assert layers == {"_version", "codec", "codes", "errors", "framing", "profile", "support", "types"}, layers
"""
    for pure in (None, "1"):
        assert report(prologue, JSONRPC_FAST_PURE=pure)[3] == REQUEST


HINTS = """
import typing, jsonrpc_fast
classes = [value for name in jsonrpc_fast.__all__ if isinstance(value := getattr(jsonrpc_fast, name), type)]
assert len(classes) > 20
hints = {each.__name__: typing.get_type_hints(each) for each in classes}
assert hints["Request"] == hints["Decoder"] == {}
"""


@pytest.mark.ci
def test_the_annotations_of_the_public_classes_can_be_evaluated() -> None:
    """Whichever backend made them: their `__module__` is not the module whose names the annotations use."""
    for pure in (None, "1"):
        assert report(HINTS, JSONRPC_FAST_PURE=pure)[3] == REQUEST


def test_a_missing_core(pytestconfig: pytest.Config) -> None:
    backend, reason, module, message = report("import sys; sys.modules['jsonrpc_fast.codec._core'] = None")
    assert (backend, module, message) == ("python", "jsonrpc_fast.codec._pure", REQUEST)
    assert reason if is_pure_only(pytestconfig) else "jsonrpc_fast.codec._core" in reason


def test_a_core_that_cannot_be_loaded() -> None:
    prologue = """
import importlib.abc, sys
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "jsonrpc_fast.codec._core":
            raise ImportError("built for another interpreter")
sys.meta_path.insert(0, Broken())
"""
    found = report(prologue)
    assert found == ["python", "built for another interpreter", "jsonrpc_fast.codec._pure", REQUEST]


def test_a_core_with_a_bug_is_not_used() -> None:
    prologue = """
import importlib.abc, sys
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "jsonrpc_fast.codec._core":
            raise RuntimeError("a bug")
sys.meta_path.insert(0, Broken())
"""
    assert report(prologue)[:2] == ["python", "the core cannot be used: RuntimeError: a bug"]


def test_tests_of_the_core_say_why_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "CORE_FAULT", "it is stale: build it")
    with pytest.raises(
        pytest.fail.Exception, match=r"^it is stale: build it; --pure-only tests the plain Python alone$"
    ):
        load_backend("cython")


def test_the_backend_of_this_process(pytestconfig: pytest.Config) -> None:
    asked_for = os.environ.get("JSONRPC_FAST_PURE", "") not in ("", "0", "false", "no") or is_pure_only(pytestconfig)
    assert ("python" if asked_for else "cython") == jsonrpc_fast.BACKEND, codec.CORE_FAULT
    modules = {"python": "jsonrpc_fast.codec._pure", "cython": "jsonrpc_fast.codec._core"}
    assert codec.backend.__name__ == modules[codec.BACKEND]
    assert (codec.CORE_FAULT is None) is (codec.BACKEND == "cython")
    assert jsonrpc_fast.Request is codec.backend.Request
