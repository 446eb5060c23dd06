"""The command `stubs`: the modules that it writes, hostile documents, and its types compared with the schemas."""

from __future__ import annotations

import ast
import contextlib
import http.server
import inspect
import json
import keyword
import os
import shutil
import subprocess
import sys
import threading
import types
import typing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest

pytest.importorskip("msgspec", reason="the extra `typed` is not installed")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jsonrpc_fast import Raw
from jsonrpc_fast.cli import shapes
from jsonrpc_fast.cli.shapes import DocumentError
from jsonrpc_fast.cli.stubs import stubs_of
from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.handlers.caller import result_reader
from jsonrpc_fast.handlers.interface import methods_of
from jsonrpc_fast.handlers.openrpc import openrpc
from jsonrpc_fast.session import Session
from jsonrpc_fast.session.proxies import proxy
from jsonrpc_fast.transports import memory_pair

from ..support.command_line import SECONDS, command, environment, posix, run_here
from ..support.forking import MARK
from ..support.openrpc import DOCUMENTS, document
from ..support.places import PACKAGE
from ..support.tables import rows

PETS: dict[str, Any] = {
    "openrpc": "1.3.2",
    "info": {"title": "Pets & more", "version": "1"},
    "methods": [
        {
            "name": "pets.find",
            "summary": 'All "pets"\\',
            "paramStructure": "by-name",
            "params": [
                {"name": "from", "required": True, "schema": {"$ref": "#/components/schemas/Id"}},
                {"name": "limit", "schema": {"type": "integer", "default": 10}},
            ],
            "result": {"name": "pets", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}},
        },
        {
            "name": "owner",
            "params": [
                {"name": "pet id", "required": True, "schema": {"$ref": "#/components/schemas/Id"}},
                {"name": "at", "schema": {"enum": ["home", "work", None]}},
            ],
            "result": {"name": "owner", "schema": {"type": ["string", "null"]}},
        },
        {"name": "changed", "params": []},
    ],
    "components": {
        "schemas": {
            "Id": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            "Pet": {
                "type": "object",
                "required": ["id", "kind"],
                "properties": {
                    "id": {"$ref": "#/components/schemas/Id"},
                    "kind": {"const": "dog"},
                    "parents": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                },
            },
        }
    },
}
PETS_MODULE = '''\
"""The interface of Pets & more, from its OpenRPC document: for `proxy`."""

from __future__ import annotations

from typing import Literal, Protocol, TypedDict

from jsonrpc_fast.handlers.interface import method


class _PetRequired(TypedDict):
    id: int | str
    kind: Literal['dog']


class Pet(_PetRequired, total=False):
    parents: list[Pet]


class PetsMore(Protocol):
    @method('pets.find', params={'from_': 'from'})
    async def pets_find(self, *, from_: int | str, limit: int = 10) -> list[Pet]:
        """All \\"pets\\"\\\\"""
        ...

    async def owner(self, pet_id: int | str, at: Literal['home', 'work'] | None = None, /) -> str | None: ...

    # 'changed' is a notification, which `notify` sends.
'''


def module_of(text: str) -> dict[str, Any]:
    """Run a module and return its names."""
    module = types.ModuleType("jsonrpc_fast_stubs")
    sys.modules[module.__name__] = module
    exec(compile(text, "stubs", "exec"), vars(module))
    return vars(module)


def protocol_of(names: dict[str, Any]) -> Any:
    [found] = [value for value in names.values() if isinstance(value, type) and Protocol in value.__bases__]
    return found


def with_result(schema: Any, **components: Any) -> dict[str, Any]:
    method = {"name": "m", "params": [], "result": {"name": "r", "schema": schema}}
    return {"methods": [method], "components": {"schemas": components}}


def result_type(document: dict[str, Any]) -> str:
    """Return the type of the result of the method m, as written."""
    [line] = [line for line in stubs_of(document).splitlines() if " def m(" in line]
    return line.partition(" -> ")[2].removesuffix(":").removesuffix(": ...")


def test_a_module() -> None:
    assert stubs_of(PETS) == PETS_MODULE
    names = module_of(PETS_MODULE)
    hints = typing.get_type_hints(protocol_of(names).owner)
    assert hints["at"] == typing.Optional[typing.Literal["home", "work"]]  # noqa: UP045


async def test_its_protocol_calls_a_server() -> None:
    interface = protocol_of(module_of(stubs_of(PETS)))
    handlers = {
        "pets.find": lambda **params: [{"id": list(params.items()), "kind": "dog"}],
        "owner": lambda *params: json.dumps(params),
    }
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as session:
        pets = proxy(session, interface)
        assert await pets.owner(5) == "[5]"
        assert await pets.owner(5, None) == "[5, null]"
        with pytest.raises(InvalidResponse, match=r"the result of pets.find has another type: /0/id"):
            await pets.pets_find(from_=1)
    with pytest.raises(
        TypeError, match=r"^pets_find of PetsMore renames params, which a proxy can and handlers cannot$"
    ):
        Handlers().add(types.SimpleNamespace(pets_find=print), interface)


class Corner:
    async def price(self, item: str, count: int = 1) -> float:
        """Return the price."""
        return len(item) * count

    async def find(self, *, words: list[str], near: dict[str, float] | None = None) -> dict[str, list[str]]:
        return dict.fromkeys(words, words)


async def test_our_own_document_and_back() -> None:
    handlers = Handlers()
    handlers.add(Corner(), Corner, prefix="shop.")
    text = stubs_of(openrpc(handlers, title="Shop", version="1"))
    assert "    async def shop_price(self, item: str, count: int = 1) -> int | float:\n" in text
    interface = protocol_of(module_of(text))
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as session:
        shop = proxy(session, interface)
        assert await shop.shop_price("tea", count=2) == 6
        assert await shop.shop_find(words=["a"]) == {"a": ["a"]}

    class Other:
        shop_price = Corner.price
        shop_find = Corner.find

    again = Handlers()
    again.add(Other(), interface)
    assert openrpc(again, title="Shop", version="1") == openrpc(handlers, title="Shop", version="1")


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OTHER = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, "required": ["a", "b"]}
MIXED = {"type": "array", "items": {"type": ["integer", "string"]}}
VALUES = {"type": "object", "additionalProperties": {"type": ["null", "string"]}}


@rows(
    ("schema", "expected"),
    [
        ({}, "Any"),
        (True, "Any"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "int | float"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"items": {"type": "string"}}, "list[str]"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, "list[str]"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "list[Any]"),
        ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": "object", "patternProperties": {"^a": {"type": "boolean"}}}, "dict[str, Any]"),
        ({"enum": ["b", "a", 1, 1]}, "Literal[1, 'a', 'b']"),
        ({"enum": ["a", True, 1.5, None]}, "bool | int | float | Literal['a'] | None"),
        ({"const": {"a": 1}}, "Any"),
        ({"enum": [str(number) for number in range(300)]}, "str"),
        ({"anyOf": [{"type": "string"}, {"enum": ["a"]}]}, "str"),
        ({"anyOf": [{"type": "number"}, {"enum": [1]}]}, "int | float"),
        ({"allOf": [{"type": ["number", "string"]}, {"enum": [1, "a"]}]}, "Literal[1, 'a']"),
        ({"oneOf": [{"items": {"type": "string"}}, {"items": {"type": "null"}}]}, "list[str | None]"),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["string", "integer"]}]}, "str"),
        ({"allOf": [{"type": "number"}, {"type": "integer"}]}, "int"),
        ({"type": "string", "allOf": [{"enum": ["a", 1]}]}, "Literal['a']"),
        ({"type": "array", "allOf": [MIXED, {"type": "array", "items": {"type": "integer"}}]}, "list[int]"),
        ({"allOf": [{"type": ["array", "string"]}, {"type": ["string", "integer"]}]}, "str"),
        ({"allOf": [VALUES, {"type": "object", "additionalProperties": {"type": "null"}}]}, "dict[str, None]"),
        ({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "str"),
        ({"allOf": [OBJECT, {"type": "object"}]}, "MResult"),
        ({"type": "what"}, "Any"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "https://example.org/schema"}, "Any"),
        ({"$ref": "#/components/schemas/Loop"}, "Any"),
        ({"$ref": "#/components/schemas/Tree"}, "list[Any]"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    loop = {"$ref": "#/components/schemas/Loop"}
    tree = {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}
    document = with_result(schema, Loop=loop, Tree=tree)
    assert result_type(document) == expected
    module_of(stubs_of(document))


def test_objects_that_are_joined_and_met() -> None:
    for first, b in ((OBJECT, "Any"), ({**OBJECT, "additionalProperties": False}, "None")):
        joined = stubs_of(with_result({"$ref": "#/components/schemas/Both"}, Both={"oneOf": [first, OTHER]}))
        assert "class _BothRequired(TypedDict):\n    a: int | str\n" in joined
        assert f"class Both(_BothRequired, total=False):\n    b: {b}\n" in joined
    met = stubs_of(with_result({"allOf": [{"$ref": "#/components/schemas/A"}, OTHER]}, A={**OBJECT, "title": "A"}))
    assert "class MResult(TypedDict):\n    a: int\n    b: None\n" in met


def test_names_that_python_does_not_have() -> None:
    properties = {name: {"type": "integer"} for name in ("a-b", "class", "int", "__a", "ﬁ", "")}
    text = stubs_of(with_result({"type": "object", "properties": properties, "title": "str", "required": ["int"]}))
    names = module_of(text)
    read = result_reader(typing.get_type_hints(protocol_of(names).m)["return"])
    value = dict.fromkeys(properties, 1)
    assert read("m", Raw(json.dumps(value))) == value
    with pytest.raises(InvalidResponse, match=r"/int: is required"):
        read("m", {})


ALLOWED = (
    *(ast.Module, ast.ImportFrom, ast.alias, ast.ClassDef, ast.AsyncFunctionDef, ast.AnnAssign, ast.Assign, ast.Pass),
    *(ast.Name, ast.Load, ast.Store, ast.Constant, ast.Expr, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple),
    *(ast.arguments, ast.arg, ast.keyword, ast.Call, ast.Dict, ast.UnaryOp, ast.USub),
)


def test_a_summary_that_is_cut_says_so() -> None:
    def text_of(summary: str) -> str:
        return stubs_of(
            {"openrpc": "1.3.2", "methods": [{"name": "m", "params": [], "result": {"schema": {}}, "summary": summary}]}
        )

    assert f'"{"a" * 300}"' in text_of("a" * 300)
    assert f'"{"a" * 299}…"' in text_of("a" * 301)


TEXTS = st.text(max_size=6) | st.sampled_from(
    [
        '"""\nimport os\n"""',
        "'",
        "\\",
        "x: int = print()",
        "__init__",
        "self",
        "list",
        "Any",
        "\u2028",
        "\ud800",
        "eval",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
KEYWORDS = st.sampled_from(
    [
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "title",
        "default",
        "nullable",
    ]
)
ANYTHING = st.recursive(
    LEAVES | st.sampled_from(["object", "string", "array", "#", "#/methods/0", "#/components/schemas/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {
            "methods": st.lists(
                st.fixed_dictionaries(
                    {"name": TEXTS},
                    optional={
                        "params": st.lists(
                            st.fixed_dictionaries(
                                {"name": TEXTS, "schema": ANYTHING}, optional={"required": st.booleans()}
                            ),
                            max_size=3,
                        ),
                        "paramStructure": st.sampled_from(["by-name", "by-position", "either"]),
                        "result": st.fixed_dictionaries({"schema": ANYTHING}),
                        "summary": TEXTS,
                    },
                ),
                max_size=3,
            )
        },
        optional={"info": st.fixed_dictionaries({"title": TEXTS}), "components": ANYTHING},
    )
)
@pytest.mark.ci
def test_no_document_writes_code(document: dict[str, Any]) -> None:
    """Whatever the names and texts, the module has only imports, classes and declarations, and only its own."""
    text = stubs_of(document)
    text.encode()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        assert isinstance(node, ALLOWED), ast.dump(node)
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) in ("TypedDict", "method")
        if isinstance(node, ast.ImportFrom):
            assert node.module in ("__future__", "typing", "jsonrpc_fast.handlers.interface")
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            assert not keyword.iskeyword(node.name)


@rows(
    ("document", "said"),
    [
        ([], "this is not an OpenRPC document: it has no list of methods"),
        ({"methods": {}}, "this is not an OpenRPC document: it has no list of methods"),
        ({"methods": [{"name": 1}]}, "a method of the document has no name"),
        ({"methods": [{"$ref": "#/methods/0"}]}, "a method of the document has no name"),
        ({"methods": [{"name": "m", "params": [7]}]}, "a param of the document has no name"),
    ],
)
def test_what_is_no_document(document: Any, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        stubs_of(document)
    assert str(caught.value) == said


def test_large_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    schema: Any = {}
    for _ in range(200):
        schema = {"items": schema}
    with pytest.raises(DocumentError, match=r"^the document is nested more than 100 levels deep$"):
        stubs_of(with_result(schema))
    chain = {f"a{number}": {"items": {"$ref": f"#/components/schemas/a{number + 1}"}} for number in range(200)}
    with pytest.raises(DocumentError, match=r"^a schema refers to others more than 100 times in a row$"):
        stubs_of(with_result({"$ref": "#/components/schemas/a0"}, **chain))
    double = {f"a{number}": {"anyOf": [{"$ref": f"#/components/schemas/a{number + 1}"}] * 2} for number in range(45)}
    assert result_type(with_result({"$ref": "#/components/schemas/a0"}, **double)) == "Any"
    objects = {
        f"a{number}": {"properties": {"next": {"$ref": f"#/components/schemas/a{number + 1}"}}} for number in range(500)
    }
    assert stubs_of(with_result({"$ref": "#/components/schemas/a0"}, **objects)).count("(TypedDict") == 500
    monkeypatch.setattr(shapes, "MAX_CLASSES", 100)
    with pytest.raises(DocumentError, match=r"^the document needs more than 100 classes$"):
        stubs_of(with_result({"$ref": "#/components/schemas/a0"}, **objects))


def schemas() -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c"])
    plain = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    leaves = (
        st.just({})
        | plain.map(lambda kind: {"type": kind})
        | st.lists(plain, min_size=1, max_size=3, unique=True).map(lambda types: {"type": types})
        | st.lists(st.sampled_from(["x", "y", 1, 2, 1.5, 2.0, 2**70, None, True]), min_size=1, max_size=3).map(
            lambda found: {"enum": found}
        )
        | st.sampled_from(["A", "B"]).map(lambda name: {"$ref": f"#/components/schemas/{name}"})
    )
    return st.recursive(
        leaves,
        lambda inner: (
            inner.map(lambda items: {"type": "array", "items": items})
            | st.tuples(st.dictionaries(names, inner, max_size=3), st.lists(names, max_size=2, unique=True)).map(
                lambda found: {"type": "object", "properties": found[0], "required": found[1]}
            )
            | st.dictionaries(names, inner, max_size=2).map(
                lambda found: {"type": "object", "properties": found, "additionalProperties": False}
            )
            | inner.map(lambda values: {"type": "object", "additionalProperties": values})
            | st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)).map(
                lambda found: {found[0]: found[1]}
            )
        ),
        max_leaves=8,
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "y", "z", 1.0, 1.5, 2**53 + 1, 2**70]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)


NULL = {"type": "null"}
A_OR_AB = {"anyOf": [{"type": "object", "properties": names} for names in ({"a": NULL}, {"a": NULL, "b": NULL})]}


def is_part(read: Any, value: Any) -> bool:
    """Return whether a value was read unaltered, except for members that its type does not name."""
    if isinstance(read, dict) and isinstance(value, dict):
        return all(name in value and is_part(member, value[name]) for name, member in read.items())
    if isinstance(read, list) and isinstance(value, list):
        return len(read) == len(value) and all(map(is_part, read, value))
    return bool(read == value)


@settings(deadline=None)
@given(schemas(), schemas(), schemas(), st.lists(VALUES, min_size=10, max_size=10))
@example(A_OR_AB, {}, {}, [{"a": None, "b": False}])
@example({"anyOf": [{"type": "number"}, {"enum": [1]}]}, {}, {}, [0, 2**53 + 1])
@example({"type": "object", "properties": {"b": {}}}, {}, {}, [{"a": 1, "b": [2**53 + 1]}])
@pytest.mark.ci
def test_what_a_schema_accepts_has_its_type(schema: Any, a: Any, b: Any, values: list[Any]) -> None:
    """No type is narrower than its schema, as an independent validator reads it, and none alters what it names."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    document = with_result(schema, A=a, B=b)
    function = protocol_of(module_of(stubs_of(document))).m
    read = result_reader(typing.get_type_hints(function)["return"])
    try:
        validator = jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
        valid = [value for value in values if validator.is_valid(value)]
    except (ValueError, RecursionError):  # a reference to itself
        return
    for value in valid:
        assert is_part(read("m", Raw(json.dumps(value))), value)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(PETS))
    done = run_here("stubs", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, PETS_MODULE, "")
    made = tmp_path / "pets.py"
    done = run_here("stubs", "--sync", "--name", "pets-api", "-o", str(made), str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "class PetsApi(Protocol):" in made.read_text()
    assert "    def owner(" in made.read_text()
    path.write_text("[]")
    done = run_here("stubs", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("pets.json: this is not an OpenRPC document: it has no list of methods\n")
    done = run_here("stubs", str(tmp_path / "none.json"))
    assert (done.returncode, done.stderr.rpartition(": ")[2]) == (2, "No such file or directory\n")


def test_a_document_at_a_url_is_read_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx2", reason="the extra `http` is not installed")
    for module in ("call", "stubs"):
        monkeypatch.setattr(f"jsonrpc_fast.cli.{module}.MAX_DOCUMENT_BYTES", 100_000)
    whole = json.dumps({**PETS, "x-padding": "x" * 90_000}).encode()  # more than one read of a socket
    sent: list[int] = []

    class Files(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                for number in range(1 if self.path == "/whole.json" else 10_000):
                    self.wfile.write(whole)
                    sent.append(number)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        done = run_here("stubs", f"http://127.0.0.1:{server.server_port}/whole.json")
        assert (done.returncode, done.stdout, done.stderr) == (0, PETS_MODULE, "")
        done = run_here("stubs", f"http://127.0.0.1:{server.server_port}/endless.json")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith("the document is larger than 100000 bytes\n")
        server.shutdown()
    assert len(sent) < 1000


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(PETS))
    wrong = str(tmp_path / "none" / "pets.py")
    for source in ([str(path)], ["--", sys.executable, "-c", SERVER]):
        done = run_here("stubs", "-o", wrong, *source)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"jsonrpc-fast: cannot write {wrong}: No such file or directory\n"


@posix
@pytest.mark.ci
def test_a_reader_that_leaves_and_closed_descriptors(tmp_path: Path) -> None:
    method = {"params": [], "result": {"name": "r", "schema": {}}}
    document = {**PETS, "methods": [{"name": f"method_{number}", **method} for number in range(5000)]}
    path = tmp_path / "large.json"
    path.write_text(json.dumps(document))
    # Unbuffered, a write of more than a pipe holds is cut short when the reader leaves.
    process = subprocess.Popen(
        command("stubs", str(path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert (process.wait(SECONDS), process.communicate()[1]) == (141, b"")
    for closed, words, said in (
        (">&-", ["stubs", str(path)], "jsonrpc-fast: cannot write: Bad file descriptor\n"),
        (">&-", ["stubs", "--", sys.executable, "-c", SERVER], "jsonrpc-fast: cannot write: Bad file descriptor\n"),
        (
            ">&-",
            ["call", "add", "a=1", "--", sys.executable, "-c", SERVER],
            "jsonrpc-fast: cannot write: Bad file descriptor\n",
        ),
        ("<&-", ["stubs", "-"], "jsonrpc-fast stubs: -: Bad file descriptor\n"),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {closed}', "sh", *command(*words)],
            env=environment(),
            capture_output=True,
            timeout=SECONDS,
            text=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


SERVER = (
    MARK
    + """
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import run_stdio
handlers = Handlers(discover={"title": "Sums", "version": "1"})
@handlers.register("add")
def add(a: int, b: int = 0) -> int:
    return a + b
async def serve(transport):
    async with Session(transport, handlers) as session:
        await session.wait_closed()
raise SystemExit(run_stdio(serve))
"""
)


def test_the_document_of_a_server() -> None:
    done = run_here("stubs", "--", sys.executable, "-c", SERVER)
    assert (done.returncode, done.stderr) == (0, "")
    assert "class Sums(Protocol):\n    async def add(self, a: int, b: int = 0) -> int: ...\n" in done.stdout


@rows("name", DOCUMENTS)
async def test_documents_that_nobody_here_wrote(name: str) -> None:
    """Each makes a module that Python runs, and whose Protocol calls every method."""
    methods = {method["name"] for method in document(name)["methods"] if "result" in method}
    interface = protocol_of(module_of(stubs_of(document(name))))
    declared = methods_of(interface) if methods else {}
    assert {method.name for method in declared.values()} == methods
    called: set[str] = set()
    handlers = Handlers(middleware=[lambda context, params, call_next: called.add(context.method)])
    for method in methods:
        handlers.register(method, lambda: None)
    here, there = memory_pair()
    async with Session(there, handlers), Session(here) as session:
        for function in declared if methods else ():
            parameters = inspect.signature(getattr(interface, function)).parameters.values()
            required = [each for each in parameters if each.default is inspect.Parameter.empty][1:]
            positional = [1 for each in required if each.kind is not inspect.Parameter.KEYWORD_ONLY]
            named = {each.name: 1 for each in required if each.kind is inspect.Parameter.KEYWORD_ONLY}
            with contextlib.suppress(InvalidResponse):  # the result is null
                await getattr(proxy(session, interface), function)(*positional, **named)
    assert called == methods


CALLER = """
from jsonrpc_fast.http.client import AsyncHttpClient
from jsonrpc_fast.session.proxies import proxy
from petstore_async import Petstore


async def number_of_pets(client: AsyncHttpClient) -> int:
    return len(await proxy(client, Petstore).list_pets(3))
"""


@pytest.mark.slow
def test_type_checkers_accept_the_modules(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed (group `dev`)")
    (tmp_path / "pets.py").write_text(stubs_of(PETS))
    properties = {"int": {"type": "integer"}, "a-b": {"items": {"type": "integer"}}}
    (tmp_path / "names.py").write_text(stubs_of(with_result({"properties": properties, "required": ["int"]}, A=OBJECT)))
    for name in DOCUMENTS:
        for is_async in (True, False):
            module = f"{name.replace('-', '_')}_{'async' if is_async else 'sync'}.py"
            (tmp_path / module).write_text(stubs_of(document(name), is_async=is_async))
    (tmp_path / "caller.py").write_text(CALLER)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."]
    env = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}  # mypy does not follow the hook of an editable installation
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    if shutil.which("node") is None or find_spec("pyright") is None:
        return
    folder = str(PACKAGE.parent)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [folder], "typeCheckingMode": "strict"}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
