"""Results and error data that contain models."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any

import msgspec
import pydantic
import pytest

from jsonrpc_fast.errors import EncodeError, RpcError
from jsonrpc_fast.handlers import Handlers, to_jsonable

from ..support.session_pairs import Faults, sessions
from ..support.tables import rows

AT = datetime.datetime(2026, 11, 22, 15, 0, tzinfo=datetime.UTC)
CALL = '{"jsonrpc":"2.0","id":1,"method":"m"}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}\n'


class Struct(msgspec.Struct, rename="camel"):
    created_at: Any
    raw_bytes: bytes = b"hi"


class Model(pydantic.BaseModel):
    created_at: datetime.datetime = pydantic.Field(alias="createdAt")
    price: decimal.Decimal = decimal.Decimal("1.50")


@dataclasses.dataclass
class Data:
    at: datetime.datetime
    struct: Struct


STRUCT = Struct(AT)
MODEL = Model(createdAt=AT)
EXPECTED = [
    (STRUCT, b'{"createdAt":"2026-11-22T15:00:00Z","rawBytes":"aGk="}'),
    (MODEL, b'{"createdAt":"2026-11-22T15:00:00Z","price":"1.50"}'),
    (Struct(MODEL), b'{"createdAt":{"createdAt":"2026-11-22T15:00:00Z","price":"1.50"},"rawBytes":"aGk="}'),
    ([{"a": MODEL}], b'[{"a":{"createdAt":"2026-11-22T15:00:00Z","price":"1.50"}}]'),
    (
        Data(AT, STRUCT),
        b'{"at":"2026-11-22T15:00:00+00:00","struct":{"createdAt":"2026-11-22T15:00:00Z","rawBytes":"aGk="}}',
    ),
]


@rows(("value", "text"), EXPECTED)
async def test_models_are_written(value: Any, text: bytes) -> None:
    async def later() -> Any:
        return value

    assert Handlers({"m": lambda: value}).dispatch(CALL) == RESULT % text
    assert await Handlers({"m": later}).dispatch_async(f"[{CALL}]") == b"[" + RESULT[:-1] % text + b"]\n"
    assert Handlers({"m": lambda: value}).dispatch(CALL, default=to_jsonable) == RESULT % text


def refuse(data: Any) -> None:
    raise RpcError(7, "refused", data)


def test_error_data() -> None:
    reply = Handlers({"m": lambda: refuse(STRUCT)}).dispatch(CALL)
    assert reply.endswith(b'"message":"refused","data":%b}}\n' % EXPECTED[0][1])


def test_another_default_replaces_it() -> None:
    handlers = Handlers({"m": lambda: [STRUCT, 1j]})
    assert handlers.dispatch(CALL, default=lambda value: type(value).__name__) == RESULT % b'["Struct","complex"]'


@rows("value", [object(), [STRUCT, object()], Struct(object())])
def test_what_is_no_model_is_an_internal_error(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    for handlers in (Handlers({"m": lambda: value}), Handlers({"m": lambda: refuse(value)})):
        assert b'"code":-32603' in handlers.dispatch(CALL)
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [EncodeError] * 2


DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]


@rows("handlers", [Handlers({"m": lambda: DEEP}), Handlers({"m": lambda: refuse(DEEP)})])
async def test_the_log_of_a_value_that_is_too_deep_is_short(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise it has a line for each level of what a peer has sent, in which the encoder called itself."""
    assert b'"code":-32603' in handlers.dispatch(CALL)
    async with sessions(handlers) as (client, _):
        with pytest.raises(RpcError):
            await client.call("m")
    assert caplog.text.count("Recursion limit reached") == 2
    assert len(caplog.text) < 4000


class Refusing(pydantic.BaseModel):
    value: int = 0

    @pydantic.field_serializer("value")
    def write(self, value: int) -> int:
        raise ValueError("the reason")


@rows("value", [Refusing(), [Refusing()]])
def test_the_log_has_the_reason_of_a_model_that_refuses_to_be_written(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert b'"code":-32603' in Handlers({"m": lambda: value}).dispatch(CALL)
    assert "ValueError: the reason" in caplog.text


def test_the_function_itself() -> None:
    assert to_jsonable(STRUCT) == {"createdAt": "2026-11-22T15:00:00Z", "rawBytes": "aGk="}
    with pytest.raises(TypeError, match=r"^complex cannot be written as JSON$"):
        to_jsonable(1j)


@pytest.mark.usefixtures("each_loop")
@rows(("value", "text"), EXPECTED)
async def test_sessions(value: Any, text: bytes) -> None:
    async with sessions({"m": lambda: value, "refuse": lambda: refuse(value)}) as (client, _):
        assert await client.call("m") == msgspec.json.decode(text)
        [result, failure] = await client.call_batch([("m", None), ("refuse", None)])
        assert (result, failure.data) == (msgspec.json.decode(text), msgspec.json.decode(text))


@pytest.mark.usefixtures("each_loop")
async def test_the_default_of_a_session() -> None:
    faults = Faults()
    async with sessions(
        {"m": lambda *params: [1j, *params]}, default=repr, client_options={"default": str}, hooks=faults
    ) as (client, _):
        assert await client.call("m", [2j]) == ["1j", "2j"]
        assert await client.call_batch([("m", [2j])]) == [["1j", "2j"]]
        await client.notify("m", [2j])
    async with sessions({"m": lambda: 1j}, default=lambda _: {}[1], hooks=faults) as (client, _):
        with pytest.raises(RpcError):
            await client.call("m")
        with pytest.raises(EncodeError):
            await client.call("m", [1j])
    assert [type(error) for error in faults.seen] == [EncodeError]


@pytest.mark.usefixtures("each_loop")
async def test_a_default_that_is_no_function() -> None:
    with pytest.raises(TypeError, match="default must be callable"):
        async with sessions(default=5):
            raise AssertionError
