"""OpenRPC documents by other authors, and the schema of the specification, from npm packages."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

import pytest

from ..peers.node import install
from .places import PEERS

FOLDER: Final = PEERS / "openrpc"
PACKAGES: Final = FOLDER / "node_modules"
DOCUMENTS: Final = (
    "api-with-examples",
    "link-example",
    "params-by-name-petstore",
    "petstore",
    "petstore-expanded",
    "simple-math",
)


def document(name: str) -> Any:
    """Return a document of `DOCUMENTS`."""
    install(FOLDER)
    path = PACKAGES / "@open-rpc" / "examples" / "build" / "service-descriptions" / f"{name}-openrpc.json"
    return json.loads(path.read_text())


def openrpc_faults(document: Any) -> list[str]:
    """Return where and why a document does not match the schema of OpenRPC."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    install(FOLDER)
    return [
        f"{list(fault.instance_path)}: {fault.message}" for fault in _validator(jsonschema_rs).iter_errors(document)
    ]


@functools.cache
def _validator(jsonschema_rs: Any) -> Any:
    schema = _exported(PACKAGES / "@open-rpc" / "meta-schema" / "index.js")
    json_schema = _exported(PACKAGES / "@json-schema-tools" / "meta-schema" / "index.js")
    # Both name a dialect of JSON-Schema.tools, which is draft 7.
    del schema["$schema"], json_schema["$schema"]
    known = jsonschema_rs.Registry([("https://meta.json-schema.tools", json_schema)])
    return jsonschema_rs.Draft7Validator(schema, registry=known)


def _exported(path: Path) -> Any:
    """Return the first JSON object that a script exports."""
    text = path.read_text()
    return json.JSONDecoder().raw_decode(text[text.index("{", text.rindex("= {", 0, text.index("$schema"))) :])[0]
