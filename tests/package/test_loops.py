"""The loops that readers copy: on every page and in every example, they handle a batch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..support.command_line import run_program_here
from ..support.pages import PAGES, write_scripts
from ..support.places import ROOT

BATCH = b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":8,"result":3}]\n'
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_each_loop_knows_batches(tmp_path: Path) -> None:
    """A loop over items has a case for a list, or passes each item on to what has one."""
    scripts = []
    for page in PAGES:
        (tmp_path / page.stem).mkdir()
        scripts += write_scripts(page, tmp_path / page.stem)
    loops = 0
    for script in [*scripts, *EXAMPLES]:
        text = script.read_text(encoding="utf-8")
        if re.search(r"\bfor \w+ in \w*decoder\w*\.feed\(|, decoder\.feed\(", text):
            loops += 1
            assert re.search(r"case list\(\)|, list\)|engine\.receive\(", text), script
    assert loops >= 5


@pytest.mark.parametrize(("page", "name"), [("docs/codec.md", "handle"), ("docs/codec.md", "settle")])
def test_a_loop_handles_a_batch(page: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [script] = [
        text for path in write_scripts(ROOT / page, tmp_path) if f"def {name}(" in (text := path.read_text("utf-8"))
    ]
    names: dict[str, object] = {}
    exec(compile(script, page, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    if name == "handle":
        assert printed[0] == "notification hello None"
        assert printed[1].startswith("invalid MISSING_METHOD ")
        assert printed[2].startswith("unreadable (8,) INVALID_ERROR_TYPE ")
        exec(f"for item in Decoder().feed({BATCH!r}): handle(item)", names)
        assert capsys.readouterr().out.splitlines() == ["request 1 a None", "notification b None", "result 8 3"]
    else:
        assert names["calls"] == {}


def test_an_example_counts_the_messages_of_a_batch(tmp_path: Path) -> None:
    (tmp_path / "capture").write_bytes(BATCH)
    done = run_program_here(ROOT / "examples" / "capture.py", str(tmp_path / "capture"))
    assert done.stdout.split() == ["1", "Notification", "b", "1", "Request", "a", "1", "result"]
