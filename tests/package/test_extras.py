"""A module whose library is missing says what to install: every module, in a process that has only orjson."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from jsonrpc_fast.cli.run import _ADAPTERS

from ..support.command_line import posix
from ..support.needs import unmeasured
from ..support.places import PACKAGE, ROOT
from ..support.tables import rows

BARE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
outcomes = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        outcomes[name] = str(error)
    except BaseException as error:
        outcomes[name] = repr(error)
    else:
        outcomes[name] = ""
print(json.dumps(outcomes))
"""
NEEDED = {  # what a part of the package tells the user to install; the first match applies
    "jsonrpc_fast.handlers.json_values": "jsonrpc_fast[typed]",
    "jsonrpc_fast.handlers.openrpc": "jsonrpc_fast[typed]",
    "jsonrpc_fast.handlers.schemas": "jsonrpc_fast[typed]",
    "jsonrpc_fast.session.proxies": "jsonrpc_fast[typed]",
    "jsonrpc_fast.mcp": "jsonrpc_fast[mcp]",
    "jsonrpc_fast.testing.plugin": "pytest>=8",
    "jsonrpc_fast.http.batching": "jsonrpc_fast[http]",
    "jsonrpc_fast.http.client": "jsonrpc_fast[http]",
    "jsonrpc_fast.http.library": "jsonrpc_fast[http]",
    "jsonrpc_fast.http.upstreams": "jsonrpc_fast[http]",
    "jsonrpc_fast.transports.websocket": "jsonrpc_fast[websocket]",
    "jsonrpc_fast.adapters.opentelemetry": "jsonrpc_fast[otel]",
    "jsonrpc_fast.adapters.acp": "agent-client-protocol>=0.12",
    "jsonrpc_fast.adapters.aiorpcx": "aiorpcX>=0.23",
    "jsonrpc_fast.adapters.mcp": "mcp>=2",
    "jsonrpc_fast.adapters.nats": "jsonrpc_fast[nats]",
    "jsonrpc_fast.adapters.pygls": "pygls>=2",
    "jsonrpc_fast.adapters.pylsp": "python-lsp-jsonrpc>=1.1",
    "jsonrpc_fast.adapters.redis": "jsonrpc_fast[mcp,redis]",
    "jsonrpc_fast.adapters.web3": "web3>=7.10",
    "jsonrpc_fast.adapters.web3_client": "jsonrpc_fast[http]",
}


def modules() -> list[str]:
    """Return the names of all modules of the package, `__main__` excepted: importing it runs the command line."""
    files = [file.relative_to(PACKAGE.parent).with_suffix("") for file in sorted(PACKAGE.rglob("*.py"))]
    names = [".".join(file.parts).removesuffix(".__init__") for file in files]
    return [name for name in names if not name.endswith("__main__")]


@posix
@pytest.mark.ci
def test_every_module_imports_or_says_what_to_install(tmp_path: Path) -> None:
    for package in (PACKAGE, Path(orjson.__file__).parent):
        (tmp_path / package.name).symlink_to(package)
    names = modules()
    assert len(names) > 150
    # -S: without site-packages.
    command = [sys.executable, "-I", "-S", "-c", BARE, str(tmp_path), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    expected = {}
    for name in names:
        needed = [text for part, text in NEEDED.items() if name == part or name.startswith(f"{part}.")]
        expected[name] = needed[0] if needed else ""
    found = {name: (re.search(r'pip install "(.*?)"$', text) or [text, text])[1] for name, text in outcomes.items()}
    assert found == expected


def test_no_plugin_enters_the_test_runs_of_others() -> None:
    assert "entry-points" not in (ROOT / "pyproject.toml").read_text()  # pytest would load the one of a dependency


def test_the_extras_and_the_versions_of_adapted_libraries_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for needed in NEEDED.values():
        if needed.startswith("jsonrpc_fast["):
            for extra in needed.removeprefix("jsonrpc_fast[").removesuffix("]").split(","):
                assert re.search(rf"^{re.escape(extra)} = \[", text, re.MULTILINE), extra
        elif needed not in ("mcp>=2", "pytest>=8"):
            adapted = text.partition("\nadapters = [")[2].partition("]")[0]
            assert f'"{needed}"' in adapted, needed


@pytest.mark.lint
def test_an_adapter_is_wherever_its_users_look() -> None:
    reference = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    configuration = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    mocked = set(re.findall(r'"(\w+)"', configuration.partition("\nLIBRARIES = (")[2].partition(")")[0]))
    for path in sorted((PACKAGE / "adapters").glob("[a-z]*")):
        name, text = path.stem, (path / "__init__.py" if path.is_dir() else path).read_text(encoding="utf-8")
        if "__all__" not in text:  # a part of another adapter
            continue
        assert f"jsonrpc_fast.adapters.{name}" in reference, name
        tests = ROOT / "tests" / "adapters"
        assert (tests / f"test_{name}.py").exists() or (tests / name).is_dir(), name
        guarded = re.findall(
            r"^    (?:import|from) (\w+)", text.partition("\ntry:\n")[2].partition("\nexcept ")[0], re.M
        )
        assert not guarded or not mocked.isdisjoint(guarded), name
        if '"install"' in text:  # `jsonrpc-fast run` installs it
            assert name in _ADAPTERS.values(), name


FEATURES = (
    *("asyncio", "logging", "msgspec", "pydantic", "opentelemetry", "httpx2"),
    *("jsonrpc_fast.hooks", "jsonrpc_fast.handlers", "jsonrpc_fast.session", "jsonrpc_fast.http", "jsonrpc_fast.mcp"),
    *("jsonrpc_fast.testing", "jsonrpc_fast.adapters"),
    *("jsonrpc_fast.cli", "jsonrpc_fast.codec._decimals", "jsonrpc_fast.codec.encoders"),
    *("jsonrpc_fast.session.proxies", "jsonrpc_fast.handlers.openrpc", "jsonrpc_fast.handlers.typed"),
    *("jsonrpc_fast.handlers.observed", "jsonrpc_fast.http.upstreams", "jsonrpc_fast.http.batching"),
    *("jsonrpc_fast.handlers.params.types", "jsonrpc_fast.handlers.json_values", "jsonrpc_fast.transports"),
    *("decimal", "fractions"),
)
HANDLERS = ("jsonrpc_fast.handlers", "jsonrpc_fast.codec.encoders")
ASYNC = (*HANDLERS, "asyncio", "logging", "jsonrpc_fast.hooks")
ADAPTER = ("jsonrpc_fast.adapters",)


@rows(
    ("statement", "loaded"),
    [
        ("import jsonrpc_fast", ()),
        ("from jsonrpc_fast.handlers import Handlers; Handlers({'a': abs})", HANDLERS),
        ("from jsonrpc_fast.http import Endpoint; Endpoint({'a': abs})", (*ASYNC, "jsonrpc_fast.http")),
        ("from jsonrpc_fast.session import Session", (*ASYNC, "jsonrpc_fast.session", "jsonrpc_fast.transports")),
        ("import pygls.lsp.server, pygls.lsp.client; had(); import jsonrpc_fast.adapters.pygls", ADAPTER),
        ("import pylsp_jsonrpc.streams; had(); import jsonrpc_fast.adapters.pylsp", ADAPTER),
    ],
)
@pytest.mark.ci
def test_what_is_not_used_is_not_loaded(statement: str, loaded: tuple[str, ...]) -> None:
    for library in ("pygls", "pylsp_jsonrpc"):
        if library in statement:
            pytest.importorskip(library, reason=f"{library} is not installed")
    code = f"""
import sys
before = set()
def had(): before.update(sys.modules)
{statement}
print(*[name for name in {FEATURES!r} if name in sys.modules.keys() - before])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=unmeasured())
    assert set(done.stdout.split()) == set(loaded)
