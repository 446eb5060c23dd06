"""The official conformance suite of MCP, against the server and the client in conformance/.

All scenarios for servers run here, and all for clients except most of those of OAuth:
`python -m tests.peers.conformance` runs these, too, and prints a table.
"""

from __future__ import annotations

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from ..support.tables import rows
from .conformance.suites import DRAFT, Result, is_unfit, run_client, run_server, running_server

pytestmark = pytest.mark.slow


def check(results: list[Result], minimum: int) -> None:
    """Check that no scenario fails, and that as many as expected have run."""
    failed = [
        f"{result.revision} {result.scenario}: {'; '.join(result.faults) or 'no check'}"
        for result in results
        if result.outcome == "FAIL" and not is_unfit(result)
    ]
    assert not failed, "\n".join(failed)
    assert sum(result.outcome == "pass" for result in results) >= minimum


@rows(("release", "minimum"), [("0.1", 32), ("0.2", 61)])
def test_server(release: str, minimum: int) -> None:
    with running_server() as url:
        check(run_server(release, url), minimum)


def test_server_of_the_latest_revision() -> None:
    with running_server() as url:
        check(run_server("0.2", url, DRAFT), 37)


OLD = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]
NEW = [
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    "auth/metadata-default",
    "auth/scope-step-up",
    "auth/dpop-nonce",
]


def test_client() -> None:
    check(run_client("0.2", names=[*OLD, *NEW]), len(OLD) + len(NEW))


def test_client_of_the_latest_revision() -> None:
    names = ["tools_call", "auth/basic-cimd"]
    check(run_client("0.2", DRAFT, names), len(names))
