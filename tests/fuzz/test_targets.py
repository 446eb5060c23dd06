"""The fuzz targets: each runs its stored inputs and some new ones, and their oracles fail where they must."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, ParseErrorCode, Raw, Request, decode
from jsonrpc_fast.codec import _pure
from jsonrpc_fast.session.inbound import Serving

from ..conftest import is_pure_only
from ..support.raw_laws import broken_law, broken_law_of_stream

try:
    from jsonrpc_fast.codec import _core

    from . import __main__ as command
except ImportError:  # the core is missing, which the targets compare
    pytest.skip("the targets need the core", allow_module_level=True)
from .target import CANARY, Finding, Target
from .wire import Replies, check_replies

TARGETS = command.load_targets()
INPUTS = 60


@pytest.fixture(autouse=True)
def needs_core(pytestconfig: pytest.Config) -> None:
    if is_pure_only(pytestconfig):
        pytest.skip("only one backend was requested: there is nothing to compare")


@pytest.fixture(autouse=True, scope="module")
def loop_left() -> Iterator[None]:
    """Close the loop of the targets."""
    yield
    from . import wire

    wire.close()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.ci
def test_target(name: str) -> None:
    fuzzer = command.Fuzzer(name, TARGETS[name], random.Random(1), [command.CORPUS])
    stored = fuzzer.inputs
    assert stored > 2
    fuzzer.fuzz(float("inf"), stored + INPUTS)
    assert fuzzer.inputs >= stored + INPUTS


def test_every_target_runs_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["raw", "uri", "--seconds", "60", "--inputs", "100", "--directory", str(tmp_path)]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines()] == ["raw", "uri", "inputs"]
    assert {path.name for path in tmp_path.iterdir()} == {"raw.txt", "uri.txt", "counts.json"}
    assert next(command.read_corpus(tmp_path, "raw"), None) is not None


def test_the_differential_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["differential", "--seconds", "60", "--inputs", "100"]) == 0
    count = int(capsys.readouterr().out.split()[0])
    assert 100 <= count < 200


def test_a_finding_is_printed_with_its_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(data: bytes) -> None:
        if b"\n" in data:
            raise KeyError("undocumented")

    target = Target(run, lambda rng: rng.choice((b"a", b"b\n")))
    monkeypatch.setattr(command, "load_targets", lambda: {"broken": target})
    assert command.main(["broken", "--seconds", "60"]) == 1
    printed = capsys.readouterr().out
    assert "target broken, input b'b\\n'" in printed
    assert "KeyError: 'undocumented'" in printed


def test_a_slow_input_is_a_finding() -> None:
    target = Target(lambda data: sum(range(1000)), bytes)
    with pytest.raises(Finding, match="s of processor time, input b'12'"):
        command.Fuzzer("sum", target, random.Random(1), [], max_seconds=0.0).run(b"12")


ITEMS = decode('[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"m"},1]')
RIGHT = b'[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}]\n'


def test_the_oracle_of_replies() -> None:
    check_replies(ITEMS, Replies(RIGHT), 0)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b'{"jsonrpc":"2.0","id":1.0,"result":1}\n',
        b'{"jsonrpc":"2.0","id":"1","result":1}\n',
        b'{"jsonrpc":"2.0","id":1,"result":1}\n' * 2,
        RIGHT * 2,
        b'{"jsonrpc":"2.0","id":1,"result":1}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}\n',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"%s"}}\n' % CANARY.encode(),
        b"[]\n",
        b"1\n",
    ],
)
def test_the_oracle_of_replies_fails(sent: bytes) -> None:
    with pytest.raises(Finding):
        check_replies(ITEMS, Replies(sent), 0)


@pytest.mark.parametrize(
    ("payload", "value"),
    [('["a"]', ["b"]), ("[1]", [1.0]), ("[-0.0]", [0.0]), ('{"a":1}', {"a": 1, "b": 2}), ("[1]", None)],
)
def test_the_laws_of_raw_payloads_fail(payload: str, value: Any) -> None:
    raw, eager = Request(1, "m", Raw(payload)), Request(1, "m", value)
    assert broken_law_of_stream(_core, [raw], [eager], JSONRPC) is not None
    assert broken_law_of_stream(_core, [raw], [Request(1, "m", Raw(payload).decode())], JSONRPC) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":987654321,"method":"m","params":[]}',
        b'{"jsonrpc":"2.0","id":987654321,"method":"m","params":[1}\n',
        b'{"jsonrpc":"2.0","id":987654321,"method":"n","params":[1]}\n',
        b'{"jsonrpc":"2.0","id":987654321,"method":"m","params":[1],"id":3}\n',
        b'{"jsonrpc":"2.0","id":3,"id":987654321,"method":"m","params":[1]}\n',
    ],
)
def test_a_gateway_that_writes_another_message_is_found(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(_pure, "encode_request", lambda *_: line)
    messages = [_pure.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', raw=raw) for raw in (True, False)]
    found = broken_law_of_stream(_pure, [messages[0]], [messages[1]], JSONRPC)
    assert found is not None
    assert "987654321" in found


@pytest.mark.parametrize("code", ["INTEGER_TOO_LARGE", "TOO_DEEP"])
@pytest.mark.parametrize("digits", [20, 5000])
def test_a_fault_of_dicts_alone_is_found(monkeypatch: pytest.MonkeyPatch, code: str, digits: int) -> None:
    fault = _pure.ParseError(ParseErrorCode[code], 1, reply_expected=True)
    monkeypatch.setattr(_pure, "decode_dict", lambda *_, **__: fault)
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","x":%s}' % (b"7" * digits)
    is_allowed = broken_law(_pure, text, JSONRPC) is None
    assert is_allowed is ((code, digits) == ("INTEGER_TOO_LARGE", 5000))


def test_an_engine_that_answers_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: Any = Serving._end_request
    monkeypatch.setattr(Serving, "_end_request", lambda self, request, text: answer(self, request, text) * 2)
    with pytest.raises(Finding, match="replies to nothing"):
        TARGETS["engine"].run(b'\x00\x00{"jsonrpc":"2.0","id":1,"method":"m"}\n')


def test_an_input_in_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from . import session_targets

    async def fail(*params: Any) -> None:
        raise ValueError(params)

    monkeypatch.setattr(session_targets, "HANDLERS", session_targets.Handlers({"m": fail}))
    with pytest.raises(Finding, match="the input is in the log"):
        TARGETS["session"].run(b'\x00\x00{"jsonrpc":"2.0","id":1,"method":"m","params":["%s"]}\n' % CANARY.encode())
