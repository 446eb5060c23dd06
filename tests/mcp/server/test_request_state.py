"""What a modern client carries from one round of a request to the next: its owner, its age and its key."""

from __future__ import annotations

import base64
import datetime
import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast import RpcError
from jsonrpc_fast.mcp.server import Context, Server, inputs
from jsonrpc_fast.mcp.server.inputs import StateSeal

from ...support.mcp_conversation import Conversation, answered, converse
from ...support.tables import rows

MODERN = "2026-07-28"
ELICITATION = {"elicitation": {"form": {}}}
FORM = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
YES = {"action": "accept", "content": {}}
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
CALL = {"name": "delete", "arguments": {"path": "a", "force": True}}
REFUSED = (-32602, "requestState is invalid or has expired", None)


class Clock:
    """Returns the time that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(inputs, "time", SimpleNamespace(time=clock))
    return clock


def is_opened(seal: StateSeal, token: object, params: Any = CALL, subject: object = None) -> bool:
    try:
        return seal.open(token, "tools/call", params, subject) == b"contents"
    except RpcError as error:
        if (error.code, error.message) != REFUSED[:2]:
            raise
        return False


def test_a_token_belongs_to_one_request(clock: Clock) -> None:
    seal = StateSeal(KEY, "shop", 60)
    token = seal.seal(b"contents", "tools/call", CALL, ("iss", "sub", "ann"))
    ann = {"params": CALL, "subject": ("iss", "sub", "ann")}
    reordered = {"arguments": {"force": True, "path": "a"}, "name": "delete", "_meta": {"progressToken": 2}}
    cases: list[tuple[str, bool, dict[str, Any]]] = [
        ("the same", True, {}),
        ("another order, other params", True, {"params": reordered}),
        ("another tool", False, {"params": {**CALL, "name": "read"}}),
        ("another argument", False, {"params": {**CALL, "arguments": {"path": "b", "force": True}}}),
        ("an argument less", False, {"params": {**CALL, "arguments": {"path": "a"}}}),
        ("no arguments", False, {"params": {"name": "delete"}}),
        ("another user", False, {"subject": ("iss", "sub", "bob")}),
        ("the user of another issuer", False, {"subject": ("other", "sub", "ann")}),
        ("nobody", False, {"subject": None}),
    ]
    wrong = [name for name, expected, given in cases if is_opened(seal, token, **{**ann, **given}) is not expected]
    assert wrong == []
    assert not is_opened(StateSeal(KEY, "bank", 60), token, **ann)
    with pytest.raises(RpcError):
        seal.open(token, "prompts/get", CALL, ann["subject"])


def test_a_token_for_a_resource_belongs_to_its_uri(clock: Clock) -> None:
    seal = StateSeal(KEY, "shop", 60)
    token = seal.seal(b"contents", "resources/read", {"uri": "a://1"}, None)
    assert seal.open(token, "resources/read", {"uri": "a://1"}, None) == b"contents"
    with pytest.raises(RpcError):
        seal.open(token, "resources/read", {"uri": "a://2"}, None)


def test_a_token_expires(clock: Clock) -> None:
    seal = StateSeal(KEY, "shop", 60)
    token = seal.seal(b"contents", "tools/call", CALL, None)
    clock.now += 59.9
    assert is_opened(seal, token)
    clock.now += 0.1
    assert not is_opened(seal, token)


def test_no_altered_token_is_opened(clock: Clock) -> None:
    seal = StateSeal(KEY, "shop", 60)
    token = seal.seal(b"contents", "tools/call", CALL, None)
    data = base64.urlsafe_b64decode(token)
    altered: list[object] = [None, 5, "", "AAAA", token + "-TAMPERED", token[:-4], "\udcff" + token, token * 20_000]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        altered.append(base64.urlsafe_b64encode(flipped).decode())
    assert [each for each in altered if is_opened(seal, each)] == []
    assert is_opened(seal, token)


def test_keys_can_be_exchanged_one_after_the_other(clock: Clock) -> None:
    old, both, new = [StateSeal(key, "shop", 60) for key in (KEY, [OTHER_KEY, KEY], OTHER_KEY)]
    token = old.seal(b"contents", "tools/call", CALL, None)
    assert [is_opened(seal, token) for seal in (old, both, new)] == [True, True, False]
    token = both.seal(b"contents", "tools/call", CALL, None)
    assert [is_opened(seal, token) for seal in (old, both, new)] == [False, True, True]


def test_without_a_key_each_process_has_its_own() -> None:
    token = StateSeal(None, "shop", 60).seal(b"contents", "tools/call", CALL, None)
    assert not is_opened(StateSeal(None, "shop", 60), token)


def test_a_cipher_hides_the_state(clock: Clock) -> None:
    fernet = pytest.importorskip("cryptography.fernet")
    keys = [fernet.Fernet(base64.urlsafe_b64encode(key)) for key in (KEY, OTHER_KEY)]
    seal = StateSeal(keys[0], "shop", 60)
    token = seal.seal(b"contents", "tools/call", CALL, None)
    assert b"contents" not in base64.urlsafe_b64decode(token)
    assert is_opened(seal, token)
    assert is_opened(StateSeal(fernet.MultiFernet(keys[::-1]), "shop", 60), token)
    assert not is_opened(StateSeal(keys[1], "shop", 60), token)
    assert not is_opened(StateSeal(KEY, "shop", 60), token)


class PlainCipher:
    """Encrypts with a function, and decrypts nothing."""

    def __init__(self, function: Any) -> None:
        self.encrypt = function

    def encrypt(self, data: bytes) -> bytes:
        raise AssertionError

    def decrypt(self, token: bytes) -> bytes:
        return token


@rows(
    ("key", "seconds", "error"),
    [
        (b"short", 60, ValueError),
        ([KEY, b"short"], 60, ValueError),
        ([], 60, ValueError),
        ("k" * 32, 60, TypeError),
        (5, 60, TypeError),
        ([5], 60, TypeError),
        (PlainCipher(str), 60, TypeError),
        (PlainCipher(lambda data: b"\xff" + data), 60, TypeError),
        (PlainCipher(lambda data: b"other"), 60, TypeError),
        (PlainCipher, 60, TypeError),
        (KEY, -1, ValueError),
        (KEY, 0, ValueError),
        (KEY, float("nan"), ValueError),
        (KEY, float("inf"), ValueError),
    ],
)
def test_wrong_keys(key: Any, seconds: float, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^state_(key|seconds) must ") as raised:
        Server("shop", "1", state_key=key, state_seconds=seconds)
    assert "short" not in str(raised.value)


def shop(**options: Any) -> Server:
    """A server whose tool asks twice, and keeps a value from the first run."""
    server = Server("shop", "1", **options)
    runs: list[int] = []

    @server.tool
    async def delete(path: str, context: Context) -> str:
        runs.append(1)
        context.state.setdefault("first_run", len(runs))
        if "paths" not in context.state:
            context.state["paths"] = [path]
        for message in ("Sure?", "Really?"):
            await context.call("elicitation/create", {**FORM, "message": message})
        return f"{context.state['paths'][0]} in run {len(runs)}, first {context.state['first_run']}"

    return server


async def second_round(client: Conversation, path: str = "a") -> dict[str, Any]:
    """Begin a call, and return the params of its second round."""
    params = {"name": "delete", "arguments": {"path": path}}
    first = await client.result("tools/call", params)
    return {**params, **answered(first, YES)}


async def test_a_function_keeps_values_from_round_to_round() -> None:
    async with converse(shop(), MODERN, ELICITATION) as client:
        second = await client.result("tools/call", given := await second_round(client))
        result = await client.result("tools/call", {**given, **answered(second, YES)})
        assert result["structuredContent"] == {"result": "a in run 3, first 1"}


async def test_in_a_session_the_values_are_those_of_the_only_run() -> None:
    async with converse(shop(), "2025-11-25", ELICITATION) as client:
        id = client.request("tools/call", {"name": "delete", "arguments": {"path": "a"}})
        for _ in range(2):
            request = await client.notification("elicitation/create")
            client.send({"jsonrpc": "2.0", "id": request["id"], "result": YES})
        result = (await client.answer(id))["result"]
        assert result["structuredContent"] == {"result": "a in run 1, first 1"}


async def test_a_state_that_this_call_was_not_given_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with converse(shop(), MODERN, ELICITATION) as client:
        given = await second_round(client)
        forged = '{"asked":[],"responses":{},"values":{}}'
        with caplog.at_level(logging.WARNING, "jsonrpc_fast.mcp"):
            assert await client.error("tools/call", {**given, "arguments": {"path": "/etc"}}) == REFUSED
            assert await client.error("tools/call", {**given, "requestState": forged}) == REFUSED
            assert await client.error("tools/call", {**given, "requestState": given["requestState"] + "A"}) == REFUSED
        assert [record.getMessage() for record in caplog.records] == [
            "a requestState was refused: it belongs to another request",
            "a requestState was refused: it was not made with a key of this server, or was altered",
            "a requestState was refused: it was not made with a key of this server, or was altered",
        ]
        assert (await client.result("tools/call", given))["resultType"] == "input_required"
        assert await client.result("tools/list", {"requestState": 5})  # it means nothing there


async def test_several_processes_of_a_server_share_a_key() -> None:
    for key, is_accepted in ((KEY, True), (None, False)):
        async with converse(shop(state_key=key), MODERN, ELICITATION) as client:
            given = await second_round(client)
        async with converse(shop(state_key=key), MODERN, ELICITATION) as client:
            response = await client.answer(client.request("tools/call", given))
            assert ("result" in response) is is_accepted


async def test_a_value_that_json_does_not_keep(caplog: pytest.LogCaptureFixture) -> None:
    values: list[Any] = [object(), {1, 2}, (1, 2), b"x", datetime.date(2020, 1, 1), {1: 2}, math.nan]
    server = Server("shop", "1")

    @server.tool
    async def ask(context: Context, index: int) -> None:
        context.state["value"] = [values[index]]
        await context.call("elicitation/create", FORM)

    async with converse(server, MODERN, ELICITATION) as client:
        for index in range(len(values)):
            caplog.clear()
            params = {"name": "ask", "arguments": {"index": index}}
            assert await client.error("tools/call", params) == (-32603, "Internal error", None)
            assert "context.state" in caplog.text


def test_arguments_that_nest_too_deep(clock: Clock) -> None:
    deep: list[Any] = []
    for _ in range(100_000):  # the json module of Python 3.12 nests deeper than that of 3.11
        deep = [deep]
    params = {"name": "ask", "arguments": {"deep": deep}}
    with pytest.raises(RpcError, match=r"^arguments nest too deep"):
        StateSeal(KEY, "shop", 60).seal(b"", "tools/call", params, None)
