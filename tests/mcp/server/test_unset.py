"""Arguments and inputs that are not set, as hosts send them, and the reasons of refused ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.server import Context, Server

from ...support.mcp_conversation import converse
from ...support.tables import rows


@dataclass
class Form:
    number: int = 3
    note: str | None = None


def server(**options: Any) -> Server:
    made = Server("t", "1", **options)

    @made.tool
    def f(
        needed: int | None, active: bool | None = None, count: int = 3, text: str = "d", names: tuple[str, ...] = ()
    ) -> str:
        return repr((needed, active, count, text, [*names]))

    @made.tool
    async def asks(context: Context) -> str:
        answer = await context.elicit("?", Form)
        return repr(answer.content)

    return made


async def called(made: Server, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    async with converse(made, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": name, "arguments": arguments})
        return result["content"][0]["text"], result.get("isError", False)


@rows(
    ("arguments", "text"),
    [
        ({"needed": 1, "active": "", "count": "", "names": ""}, "(1, None, 3, 'd', [])"),
        ({"needed": 1, "count": None, "text": None, "names": None}, "(1, None, 3, 'd', [])"),
        ({"needed": None, "text": ""}, "(None, None, 3, '', [])"),
        ({"needed": "", "count": "4"}, '/needed: is not of type "integer" or "null"'),
        ({"needed": 1, "coutn": 4}, '/: has an unknown member, did you mean "count"?; known are "needed", '),
        ({"needed": 1, "zzz": 4}, '/: has an unknown member; known are "needed", "active", '),
    ],
    ids=str,
)
async def test_what_is_not_set_is_absent_and_a_reason_names_the_closest_parameter(arguments: Any, text: str) -> None:
    found, is_error = await called(server(), "f", arguments)
    if text.startswith("("):
        assert (found, is_error) == (text, False)
    else:
        assert found.startswith(f"Invalid arguments for tool f:\n{text}")


async def test_a_strict_server_takes_arguments_as_they_are_sent() -> None:
    text, is_error = await called(server(strict=True), "f", {"needed": 1, "count": ""})
    assert (text, is_error) == ('Invalid arguments for tool f:\n/count: is not of type "integer"', True)


@rows(
    ("content", "text"),
    [
        ({"number": None, "note": None}, "Form(number=3, note=None)"),
        ({"number": 7}, "Form(number=7, note=None)"),
        ({"number": "x"}, 'the content of the form is invalid: /number: is not of type "integer"'),
        (None, 'the content of the form is invalid: /: is not of type "object"'),
    ],
    ids=str,
)
async def test_an_input_of_the_wrong_type_is_a_reason(content: Any, text: str) -> None:
    answer = {"action": "accept", "content": content}
    async with connect(server(), handlers={"elicitation/create": lambda _: answer}) as client:
        result = await client.call_tool("asks", {})
    assert result["content"][0]["text"] == text
