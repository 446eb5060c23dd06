"""Documents of OpenRPC that nobody here wrote, and the schema of the specification."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any, Final

import pytest

from .places import TESTS

VECTORS: Final = TESTS / "vectors" / "openrpc"
DOCUMENTS: Final = (*sorted(path.stem for path in (VECTORS / "examples").glob("*.json")), "ethereum")


def document(name: str) -> Any:
    """Return a document of `DOCUMENTS`."""
    if name == "ethereum":
        return json.loads(gzip.decompress((VECTORS / "ethereum.json.gz").read_bytes()))
    return json.loads((VECTORS / "examples" / f"{name}.json").read_text())


def openrpc_faults(document: Any) -> list[str]:
    """Return where and why a document breaks the schema of OpenRPC."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    return [
        f"{list(fault.instance_path)}: {fault.message}" for fault in _validator(jsonschema_rs).iter_errors(document)
    ]


@functools.cache
def _validator(jsonschema_rs: Any) -> Any:
    schema, json_schema = (
        json.loads((VECTORS / name).read_text()) for name in ("openrpc.schema.json", "json.schema.json")
    )
    # Both name a dialect of JSON-Schema.tools, which is draft 7.
    del schema["$schema"], json_schema["$schema"]
    known = jsonschema_rs.Registry([("https://meta.json-schema.tools", json_schema)])
    return jsonschema_rs.Draft7Validator(schema, registry=known)
