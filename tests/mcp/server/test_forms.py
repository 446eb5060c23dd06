"""Forms from types: their schemas, what users enter, and the questions that functions ask."""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from jsonrpc_fast.mcp.server import Context, Elicited, Server, UserMessage
from jsonrpc_fast.mcp.server.forms import form_of

from ...support.mcp_conversation import Conversation, answered, converse
from ...support.mcp_schemas import schema_of
from ...support.tables import rows

MODERN = "2026-07-28"
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Meal(enum.Enum):
    FISH = "fish"
    PASTA = "pasta"


@dataclass
class Booking:
    seats: Annotated[int, msgspec.Meta(ge=1, description="How many?")]
    day: date
    meal: Meal = Meal.PASTA
    note: str | None = None
    extras: list[Literal["bread", "wine"]] | None = None


class Typed(TypedDict):
    name: str
    is_member: NotRequired[bool]


class Model(pydantic.BaseModel):
    email: Annotated[str, pydantic.Field(title="E-mail", min_length=3)]
    size: Literal["s", "m"] = "m"
    weight: Optional[float] = None  # noqa: UP045

    @pydantic.field_validator("email")
    @classmethod
    def has_at(cls, email: str) -> str:
        if "@" not in email:
            raise ValueError(f"no at in {email}")
        return email


BOOKING = {
    "type": "object",
    "properties": {
        "seats": {"type": "integer", "minimum": 1, "description": "How many?"},
        "day": {"type": "string", "format": "date"},
        "meal": {"type": "string", "title": "Meal", "enum": ["fish", "pasta"], "default": "pasta"},
        "note": {"type": "string"},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bread", "wine"]}},
    },
    "required": ["seats", "day"],
}


def test_the_form_of_a_type(corpora: Path) -> None:
    assert form_of(Booking).schema == BOOKING
    assert form_of(Typed).schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "is_member": {"type": "boolean"}},
        "required": ["name"],
    }
    assert form_of(Model).schema == {
        "type": "object",
        "properties": {
            "email": {"type": "string", "title": "E-mail", "minLength": 3},
            "size": {"type": "string", "title": "Size", "enum": ["s", "m"], "default": "m"},
            "weight": {"type": "number", "title": "Weight"},
        },
        "required": ["email"],
    }
    for version in ("2025-11-25", MODERN):
        for type_ in (Booking, Typed, Model):
            params = {"message": "?", "requestedSchema": form_of(type_).schema}
            schema_of(corpora, version, "ElicitRequestFormParams").validate(params)


def test_types_that_are_no_forms() -> None:
    class Nested(msgspec.Struct):
        inner: Typed

    class Listed(msgspec.Struct):
        names: list[str]

    class Numbered(msgspec.Struct):
        number: Literal[1, 2]

    for type_ in (Nested, Listed, Numbered):
        with pytest.raises(TypeError, match=r"the field (inner|names|number) of a form must be"):
            form_of(type_)
    for other in (int, dict[str, int], list[int]):
        with pytest.raises(TypeError, match="a form must be"):
            form_of(other)


def test_contents_are_converted() -> None:
    assert form_of(Booking).read({"seats": 2, "day": "2026-07-28", "meal": "fish"}) == Booking(
        2, date(2026, 7, 28), Meal.FISH
    )
    assert form_of(Model).read({"email": "a@b"}) == Model(email="a@b")
    assert form_of({"type": "object", "properties": {"a": {"type": "string"}}}).read({"a": "b"}) == {"a": "b"}


@rows(
    ("type_", "content", "text"),
    [
        (Booking, {"seats": 0, "day": "2026-07-28"}, "/seats: is less than the minimum of 1"),
        (Booking, {"seats": 1, "day": "SECRET"}, "/day: is not a"),
        (Booking, {"seats": 1}, "/day: is required"),
        (Booking, None, '/: is not of type "object"'),
        (Model, {"email": "SECRET"}, "the content of the form does not match its type"),
    ],
)
def test_a_fault_of_contents_shows_no_value(type_: Any, content: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        form_of(type_).read(content)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def asking() -> Server:
    server = Server("asking", "1")

    @server.tool
    async def book(context: Context) -> str:
        answer = await context.elicit("How many?", Booking)
        assert type(answer) is Elicited
        return f"{answer.action} {answer.content}"

    @server.tool
    async def login(context: Context) -> str:
        return await context.elicit_url("Log in", "https://a.example/", elicitation_id="e1")

    @server.tool
    async def summarize(context: Context) -> Any:
        messages = ["a", UserMessage("b"), {"role": "assistant", "content": [{"type": "text", "text": "c"}]}]
        result = await context.sample(messages, max_tokens=5, systemPrompt="Be brief.")
        return result["content"]["text"]

    @server.tool
    async def roots(context: Context) -> list[str]:
        return [root["uri"] for root in await context.list_roots()]

    return server


async def reply(client: Conversation, name: str, response: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Call a tool, and respond to its one request. Return the request and the result."""
    if client.version == MODERN:
        first = await client.result("tools/call", {"name": name})
        [asked] = first["inputRequests"].values()
        result = await client.result("tools/call", {"name": name, **answered(first, response)})
        return asked, result
    id = client.request("tools/call", {"name": name})
    while not client.notifications:
        await asyncio.sleep(0)
    asked = client.notifications.pop()
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": response})
    return asked, (await client.answer(id))["result"]


@rows("version", ["2025-11-25", MODERN])
async def test_questions_to_the_client(corpora: Path, version: str) -> None:
    async with converse(asking(), version, CAPABILITIES) as client:
        content = {"seats": 2, "day": "2026-07-28"}
        asked, result = await reply(client, "book", {"action": "accept", "content": content})
        schema_of(corpora, version, "ElicitRequest").validate(asked)
        assert asked["params"] == {"message": "How many?", "requestedSchema": BOOKING}
        assert result["structuredContent"] == {"result": f"accept {Booking(2, date(2026, 7, 28))}"}
        for action in ("decline", "cancel"):
            _, result = await reply(client, "book", {"action": action})
            assert result["structuredContent"] == {"result": f"{action} None"}
        for response in ({"action": "accept"}, {"action": "SECRET"}, {}):
            _, result = await reply(client, "book", response)
            assert result["isError"] is True

        asked, result = await reply(client, "login", {"action": "accept"})
        schema_of(corpora, version, "ElicitRequest").validate(asked)
        assert asked["params"] == {
            "mode": "url",
            "message": "Log in",
            "url": "https://a.example/",
            "elicitationId": "e1",
        }
        assert result["structuredContent"] == {"result": "accept"}

        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello!"}}
        asked, result = await reply(client, "summarize", said)
        schema_of(corpora, version, "CreateMessageRequest").validate(asked)
        assert asked["params"] == {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "a"}},
                {"role": "user", "content": {"type": "text", "text": "b"}},
                {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
            ],
            "maxTokens": 5,
            "systemPrompt": "Be brief.",
        }
        assert result["content"][0]["text"] == "Hello!"

        _, result = await reply(client, "roots", {"roots": [{"uri": "file:///a"}]})
        assert result["structuredContent"] == {"result": ["file:///a"]}
        _, result = await reply(client, "roots", {"roots": [1]})
        assert result["isError"] is True


async def test_the_url_of_a_legacy_client_has_a_random_id() -> None:
    server = Server("asking", "1")
    server.tool(name="login")(_login)
    async with converse(server, "2025-11-25", CAPABILITIES) as client:
        ids = {(await reply(client, "login", {"action": "decline"}))[0]["params"]["elicitationId"] for _ in range(2)}
        assert len(ids) == 2
    async with converse(server, MODERN, CAPABILITIES) as client:
        assert "elicitationId" not in (await reply(client, "login", {"action": "decline"}))[0]["params"]


async def _login(context: Context) -> str:
    return await context.elicit_url("Log in", "https://a.example/")


@rows(
    "max_tokens, expected",
    [(0, "max_tokens must be 1 or more"), (True, "max_tokens must be an int"), (math.nan, "max_tokens must be an int")],
)
async def test_a_sampling_request_has_a_whole_number_of_tokens(max_tokens: Any, expected: str) -> None:
    server = Server("sums", "1.0")

    @server.tool
    async def ask(context: Context) -> str:
        with pytest.raises((TypeError, ValueError), match=expected):
            await context.sample("a", max_tokens=max_tokens)
        return "refused"

    async with converse(server, "2025-11-25", CAPABILITIES) as client:
        result = await client.result("tools/call", {"name": "ask"})
    assert result["structuredContent"] == {"result": "refused"}
