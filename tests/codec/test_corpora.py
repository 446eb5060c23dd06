"""Real traffic and test vectors of other implementations; this project wrote none of it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.profile import (
    JSONRPC,
    LSP,
    MCP_2024_11_05,
    MCP_2025_03_26,
    MCP_2025_06_18,
    MCP_2025_11_25,
    MCP_2026_07_28,
    Profile,
)

from ..fuzz.mutate import LINES
from ..support.describe import describe
from ..support.oracle import orjson
from ..support.places import SPEC, WIRE
from ..support.tables import rows

# Requests, notifications, results, errors.
WIRE_COUNTS = {
    "json-rpc-1.15.0-client": (JSONRPC, 1, 1, 0, 0),
    "json-rpc-1.15.0-server": (JSONRPC, 0, 0, 1, 2),
    "json-rpc-2.0-1.8.1-client": (JSONRPC, 2, 1, 0, 0),
    "jsonrpcclient-4.0.3-client": (JSONRPC, 3, 1, 0, 0),
    "jsonrpcserver-5.0.9-server": (JSONRPC, 0, 0, 2, 5),
    "mcp-python-sdk-2.3.0-client-2025-11-25": (MCP_2025_11_25, 12, 2, 1, 0),
    "mcp-python-sdk-2.3.0-client-2026-07-28": (MCP_2026_07_28, 10, 1, 0, 0),
    "mcp-python-sdk-2.3.0-server-2025-11-25": (MCP_2025_11_25, 1, 1, 10, 1),
    "mcp-python-sdk-2.3.0-server-2026-07-28": (MCP_2026_07_28, 0, 1, 7, 2),
    "mcp-ts-sdk-1.32.2-client": (MCP_2025_11_25, 13, 3, 3, 0),
    "mcp-ts-sdk-1.32.2-server": (MCP_2025_11_25, 3, 2, 10, 2),
    "pjrpc-2.2.0-client": (JSONRPC, 1, 1, 0, 0),
    "pjrpc-2.2.0-server": (JSONRPC, 0, 0, 1, 2),
    "vscode-jsonrpc-10.0.0-client": (LSP, 7, 4, 0, 0),
    "vscode-jsonrpc-10.0.0-server": (LSP, 0, 0, 3, 4),
}
MCP_COUNTS = {
    "2024-11-05": (MCP_2024_11_05, 15, 10, 13, 5),
    "2025-03-26": (MCP_2025_03_26, 15, 10, 13, 5),
    "2025-06-18": (MCP_2025_06_18, 19, 9, 19, 5),
    "2025-11-25": (MCP_2025_11_25, 27, 11, 26, 10),
    "2026-07-28": (MCP_2026_07_28, 15, 9, 15, 4),
}


def stream(impl: ModuleType, data: bytes, profile: Profile) -> list[Any]:
    decoder = impl.Decoder(profile=profile)
    return decoder.feed(data) + decoder.close()  # type: ignore[no-any-return]


def counts(items: list[Any]) -> tuple[int, int, int, int]:
    """The number of messages of each kind, including those inside batches. A fault fails the test."""
    flat = [each for item in items for each in (item if isinstance(item, list) else [item])]
    kinds = Counter(describe(each)[0] for each in flat)
    assert kinds["ParseError"] == 0, [describe(each) for each in flat if describe(each)[0] == "ParseError"]
    return kinds["Request"], kinds["Notification"], kinds["Result"], kinds["Error"]


def check_payloads(items: list[Any], lines: list[bytes]) -> None:
    """Whether each message equals what orjson reads, except for members that JSON-RPC does not define."""
    for item, line in zip(items, lines, strict=True):
        made = [each.to_dict() for each in item] if isinstance(item, list) else item.to_dict()
        assert made == orjson.loads(line)


def test_all_wire_files_are_present() -> None:
    assert sorted(path.stem for path in WIRE.iterdir()) == sorted(WIRE_COUNTS)


@rows("name", WIRE_COUNTS)
def test_wire(impl: ModuleType, name: str) -> None:
    profile, *expected = WIRE_COUNTS[name]
    data = WIRE.joinpath(f"{name}.ndjson").read_bytes()
    items = stream(impl, data, profile)
    assert counts(items) == tuple(expected)
    check_payloads(items, data.splitlines())
    assert counts(stream(impl, data, JSONRPC)) == tuple(expected)


def test_wire_equals_the_corpora(corpora: Path) -> None:
    theirs = {path.name: path.read_bytes() for path in (corpora / "wire").iterdir()}
    assert {path.name: path.read_bytes() for path in WIRE.iterdir()} == theirs


def test_spec_equals_the_corpora(corpora: Path) -> None:
    name = "jsonrpc20_examples.json"
    assert (SPEC / name).read_bytes() == (corpora / "spec" / name).read_bytes()


def test_ethereum(impl: ModuleType, corpora: Path) -> None:
    data = (corpora / "eth" / "messages.ndjson").read_bytes()
    items = stream(impl, data, JSONRPC)
    assert counts(items) == (236, 0, 189, 47)
    check_payloads(items, data.splitlines())


def test_language_servers(impl: ModuleType, corpora: Path) -> None:
    data = (corpora / "lsp" / "inspector_messages.ndjson").read_bytes()
    items = stream(impl, data, LSP)
    assert counts(items) == (103, 69, 96, 0)
    for item, line in zip(items, data.split(b"\n"), strict=False):
        expected = orjson.loads(line)
        if expected.get("params", 0) is None:
            del expected["params"]
        assert item.to_dict() == expected


def test_mcp_messages(impl: ModuleType, corpora: Path) -> None:
    by_version: dict[str, list[str]] = {version: [] for version in MCP_COUNTS}
    for line in (corpora / "mcp" / "spec_messages.ndjson").read_bytes().splitlines():
        record = json.loads(line)
        by_version[record["version"]].append(record["raw"])
    for version, (profile, *expected) in MCP_COUNTS.items():
        texts = by_version[version]
        items = [impl.decode(text, profile) for text in texts]
        assert counts(items) == tuple(expected), version
        check_payloads(items, [text.encode() for text in texts])


def test_mcp_examples(impl: ModuleType, corpora: Path) -> None:
    texts = json.loads((corpora / "mcp" / "examples-2026-07-28.json").read_bytes()).values()
    whole = [text for text in texts if "jsonrpc" in json.loads(text)]
    assert counts([impl.decode(text, MCP_2026_07_28) for text in whole]) == (10, 8, 11, 3)


def test_benchmark_payloads(impl: ModuleType, corpora: Path) -> None:
    paths = sorted(path for path in (corpora / "bench").iterdir() if path.suffix == ".json")
    assert len(paths) == 22
    for path in paths:
        data = path.read_bytes()
        item = impl.decode(data)
        counts([item])
        check_payloads([item], [data])


def verdict(item: Any) -> str | list[str]:
    """The result of decoding, in the terms of the vectors."""
    if isinstance(item, list):
        return [str(verdict(each)) for each in item]
    described = describe(item)
    if described[0] == "ParseError":
        return "parse_error" if described[2] == -32700 else "invalid"
    return str(described[0]).lower()


def test_vectors_of_other_implementations(impl: ModuleType, corpora: Path) -> None:
    """Every vector decodes as its `spec` says."""
    vectors = json.loads((corpora / "peer_vectors.json").read_bytes())
    found_kinds = Counter[str]()
    for vector in vectors:
        text = base64.b64decode(vector["raw_b64"]) if "raw_b64" in vector else vector["raw"].encode()
        found = verdict(impl.decode(text))
        assert found == vector["spec"], vector
        found_kinds["batch" if isinstance(found, list) else found] += 1
    assert found_kinds == {
        "request": 39,
        "notification": 9,
        "result": 11,
        "error": 8,
        "batch": 17,
        "invalid": 51,
        "parse_error": 15,
    }


@pytest.mark.ci
def test_both_backends_agree(backends: tuple[ModuleType, ModuleType], corpora: Path) -> None:
    texts = list(LINES)
    for name in ("eth/messages.ndjson", "lsp/inspector_messages.ndjson"):
        texts += (corpora / name).read_bytes().split(b"\n")
    for line in (corpora / "mcp" / "spec_messages.ndjson").read_bytes().splitlines():
        texts.append(json.loads(line)["raw"].encode())
    for vector in json.loads((corpora / "peer_vectors.json").read_bytes()):
        texts.append(base64.b64decode(vector["raw_b64"]) if "raw_b64" in vector else vector["raw"].encode())
    texts += [path.read_bytes() for path in sorted((corpora / "jsontestsuite").rglob("*.json"))]
    assert len(texts) > 1500
    core, pure = backends
    for text in texts:
        for profile in (JSONRPC, LSP, MCP_2025_11_25):
            assert repr(describe(core.decode(text, profile))) == repr(describe(pure.decode(text, profile)))
