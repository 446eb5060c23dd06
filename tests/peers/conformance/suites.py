"""Runs the conformance suite: two releases of it, against the server and the client next to this file.

Rules:
  - Each scenario runs for each revision that the suite lists for it. Scenarios of extensions run at the latest one.
  - A scenario fails if a check fails or warns. It is skipped if the suite skips all of its checks. This includes the
    checks of messages against the schema of the revision.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ...support.places import ROOT
from ...support.processes import end_process
from ...support.waiting import free_port
from ..node import install

FOLDER: Final = Path(__file__).resolve().parent
RELEASES: Final = ("0.1", "0.2")
"""The releases of the suite: each is a package named `conformance-RELEASE` in package.json."""
LATEST: Final = "2025-11-25"
DRAFT: Final = "2026-07-28"
OTHERS: Final = ("2025-03-26", "2025-06-18", DRAFT)
"""The revisions at which scenarios made for another revision run, too."""
RUN_SECONDS: Final = 1200
_CLIENT_MILLISECONDS: Final = 600_000  # the clients of one run start at the same time and wait for each other
_START_SECONDS: Final = 60
_RUNS_AT_A_TIME: Final = 2

Side = Literal["server", "client"]

UNFIT: Final[dict[tuple[Side, str], str]] = {
    ("client", "auth/2025-03-26-oauth-metadata-backcompat"): (
        "the issuer in the metadata is not the one requested (RFC 8414, section 3.3), so the SDK's provider stops"
    )
}
"""Scenarios that do not pass, and why."""


@dataclass(frozen=True)
class Result:
    """What one scenario found at one revision.

    Attributes:
        release: The release of the suite.
        side: What it tested.
        revision: The revision of the protocol.
        scenario: Its name.
        counts: The number of checks by status: SUCCESS, FAILURE, WARNING, SKIPPED, INFO.
        faults: The checks that failed or warned, as texts.
        skipped: The checks that were skipped, as texts.
    """

    release: str
    side: Side
    revision: str
    scenario: str
    counts: dict[str, int]
    faults: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def outcome(self) -> Literal["pass", "FAIL", "skip"]:
        """Whether the scenario passes, fails or is skipped."""
        if self.faults or not self.counts:
            return "FAIL"
        return "pass" if "SUCCESS" in self.counts else "skip"


def command(release: str, *arguments: str) -> list[str]:
    """Return the command that runs a release of the suite. It installs the packages if necessary."""
    node = install(FOLDER)
    program = FOLDER / "node_modules" / f"conformance-{release}" / "dist" / "index.js"
    return [node, "--import", (FOLDER / "node20.mjs").as_uri(), str(program), *arguments]


def version(release: str) -> str:
    """Return the exact version of a release."""
    manifest = FOLDER / "node_modules" / f"conformance-{release}" / "package.json"
    found: str = json.loads(manifest.read_text())["version"]
    return found


def scenarios(release: str, side: Side) -> dict[str, list[str]]:
    """Return the scenarios of a release, each with its revisions, or ["extension"]."""
    run = subprocess.run(
        command(release, "list", f"--{side}"), capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    )
    found = re.findall(r"^ +- (\S+) \[(.*)\]$", run.stdout, re.MULTILINE)
    return {name: revisions.split(",") for name, revisions in found}


def run_server(release: str, url: str, revision: str | None = None) -> list[Result]:
    """Run the scenarios for servers.

    Args:
        release: The release of the suite.
        url: The URL of the server.
        revision: Run the scenarios of this revision; None: run each at the revision it was made for.
    """
    return _run(release, "server", ["--url", url], revision)


def run_client(release: str, revision: str | None = None, names: Sequence[str] = ()) -> list[Result]:
    """Run the scenarios for clients.

    Args:
        release: The release of the suite.
        revision: As in `run_server`.
        names: The scenarios to run; by default all.
    """
    with tempfile.TemporaryDirectory() as slots:
        client = shlex.join(["env", f"CONFORMANCE_SLOTS={slots}", sys.executable, str(FOLDER / "client.py")])
        arguments = ["--command", client, "--timeout", str(_CLIENT_MILLISECONDS)]
        return _run(release, "client", arguments, revision, names)


def _run(
    release: str, side: Side, arguments: list[str], revision: str | None, names: Sequence[str] = ()
) -> list[Result]:
    listed = scenarios(release, side)
    with tempfile.TemporaryDirectory() as name:
        filter = [] if revision is None else ["--spec-version", revision]
        base = command(release, side, *arguments, *filter, "-o", name)
        selections = [["--scenario", scenario] for scenario in names] or [["--suite", "all"]]

        def run(selection: list[str]) -> str:
            finished = subprocess.run(
                [*base, *selection],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS,
            )
            return finished.stdout[-2000:] + finished.stderr[-2000:]

        with ThreadPoolExecutor(_RUNS_AT_A_TIME) as runs:
            printed = list(runs.map(run, selections))
        folder = Path(name)
        results = []
        for path in sorted(folder.rglob("checks.json")):
            scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", path.parent.relative_to(folder).as_posix())
            scenario = scenario.removeprefix("server-") if side == "server" else scenario
            revisions = listed.get(scenario, [])
            made_for = LATEST if LATEST in revisions else DRAFT
            made_for = revisions[-1] if revisions and revisions[-1] < LATEST else made_for
            checks = json.loads(path.read_text())
            results.append(_result(release, side, revision or made_for, scenario, checks))
    if not results:
        raise RuntimeError(f"the suite ran no scenario: {''.join(printed)}")
    if any(result.outcome == "FAIL" and not is_unfit(result) for result in results):
        sys.stderr.write("".join(printed))  # why the client failed is not among the checks
    return results


def _result(release: str, side: Side, revision: str, scenario: str, checks: list[dict[str, Any]]) -> Result:
    counts: dict[str, int] = {}
    texts: dict[str, list[str]] = {"FAILURE": [], "WARNING": [], "SKIPPED": []}
    for check in checks:
        status = check["status"]
        if check["id"] != "wire-schema-valid" or status == "FAILURE":
            counts[status] = counts.get(status, 0) + 1
        if status in texts:
            texts[status].append(f"{check['id']}: {check.get('errorMessage') or check.get('description')}")
    faults = (*texts["FAILURE"], *texts["WARNING"])
    return Result(release, side, revision, scenario, counts, faults, tuple(texts["SKIPPED"]))


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """Run the server, and yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    program = [sys.executable, "-m", "tests.peers.conformance.server", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(program, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_for(url, process)
            yield url
        finally:
            end_process(process)
            if os.environ.get("CONFORMANCE_LOG"):
                log.seek(0)
                sys.stderr.write(log.read().decode(errors="replace"))


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    address = urlsplit(url)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection((str(address.hostname), address.port or 80), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server did not start")
        time.sleep(0.05)


def everything(sides: tuple[Side, ...] = ("server", "client")) -> list[Result]:
    """Run all scenarios of both releases at all their revisions."""
    results: list[Result] = []
    if "server" in sides:
        with running_server() as url:
            for release in RELEASES:
                results += run_server(release, url)
            for revision in OTHERS:
                results += run_server("0.2", url, revision)
    if "client" in sides:
        for release in RELEASES:
            results += run_client(release)
        for revision in OTHERS[1:]:
            results += run_client("0.2", revision)
    unique = {(result.release, result.side, result.scenario, result.revision): result for result in results}
    return [unique[key] for key in sorted(unique)]


def table(results: list[Result]) -> str:
    """Return the results as a table with a row for each scenario, its faults, and a summary."""
    lines = []
    for release in RELEASES:
        for side in ("server", "client"):
            rows = [result for result in results if result.release == release and result.side == side]
            if not rows:
                continue
            revisions = sorted({row.revision for row in rows})
            lines.append(f"\nconformance {version(release)}, {side}")
            width = max(len(row.scenario) for row in rows)
            lines.append(f"{'':{width}}  {'  '.join(revisions)}")
            for scenario in sorted({row.scenario for row in rows}):
                by_revision = {row.revision: row for row in rows if row.scenario == scenario}
                cells = [f"{_mark(by_revision.get(revision)):10}" for revision in revisions]
                lines.append(f"{scenario:{width}}  {'  '.join(cells)}".rstrip())
            for revision in revisions:
                of_revision = [row for row in rows if row.revision == revision]
                outcomes = [row.outcome for row in of_revision]
                skipped = f", {outcomes.count('skip')} skipped" if "skip" in outcomes else ""
                lines.append(f"{revision}: {outcomes.count('pass')} of {len(outcomes)} scenarios pass{skipped}")
    faults = [
        f"  {row.release} {row.side} {row.revision} {row.scenario}: {fault}" for row in results for fault in row.faults
    ]
    if faults:
        lines += ["\nChecks that fail or warn:", *faults]
    reasons = {(row.side, row.scenario): UNFIT[row.side, row.scenario] for row in results if is_unfit(row)}
    if reasons:
        lines += [
            "\nScenarios that cannot pass:",
            *[f"  {side} {name}: {why}" for (side, name), why in reasons.items()],
        ]
    return "\n".join(lines).lstrip("\n")


def summary(results: list[Result]) -> str:
    """Return the rows of the table in docs/proof.md."""
    revisions = sorted({result.revision for result in results})
    lines = []
    for release in RELEASES:
        for side in ("server", "client"):
            rows = [result for result in results if result.release == release and result.side == side]
            cells = []
            for revision in revisions:
                outcomes = [row.outcome for row in rows if row.revision == revision]
                skipped = f", {outcomes.count('skip')} skipped" if "skip" in outcomes else ""
                cells.append(f"{outcomes.count('pass')} of {len(outcomes)}{skipped}" if outcomes else "")
            if rows:
                lines.append(f"| {version(release)} | {side} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mark(result: Result | None) -> str:
    if result is None:
        return "-"
    return f"pass {result.counts['SUCCESS']}" if result.outcome == "pass" else result.outcome


def is_unfit(result: Result) -> bool:
    """Whether a scenario fails and cannot pass: see UNFIT."""
    return result.outcome != "pass" and (result.side, result.scenario) in UNFIT
