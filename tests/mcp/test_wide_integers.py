"""Integers keep their value through tools, results, states, clients, proxies and gateways."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast.mcp import Gateway, connect
from jsonrpc_fast.mcp.server import Context, Server

from ..support.tables import rows

WIDE = 12345678901234567890123
BELOW = -(2**63) - 1


def server() -> Server:
    made = Server("wide", "1")

    @made.tool
    def typed(n: int) -> int:
        return n + 1

    @made.tool
    def nested(values: dict[str, list[int]]) -> dict[str, list[int]]:
        return values

    @made.tool
    def either(n: int | str) -> str:
        return repr(n)

    @made.tool
    def anything(n: Any) -> dict[str, Any]:
        return {"n": n}

    @made.tool
    async def asks(context: Context) -> dict[str, Any]:
        context.state["kept"] = WIDE
        answer = await context.call("elicitation/create", {"message": "?", "requestedSchema": FORM})
        return {"answer": answer["content"]["n"], "kept": context.state["kept"]}

    @made.resource("n://{n}")
    def resource(n: int) -> str:
        return str(n + 1)

    return made


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}}


@rows(
    ("tool", "arguments", "result"),
    [
        ("typed", {"n": WIDE}, {"result": WIDE + 1}),
        ("typed", {"n": BELOW}, {"result": BELOW + 1}),
        ("typed", {"n": 2**64}, {"result": 2**64 + 1}),
        ("typed", {"n": str(WIDE)}, {"result": WIDE + 1}),
        ("nested", {"values": {"a": [WIDE, 1]}}, {"a": [WIDE, 1]}),
        ("nested", {"values": f'{{"a": ["{WIDE}"]}}'}, {"a": [WIDE]}),
        ("either", {"n": WIDE}, {"result": str(WIDE)}),
        ("either", {"n": str(WIDE)}, {"result": repr(str(WIDE))}),
        ("anything", {"n": [WIDE]}, {"n": [WIDE]}),
    ],
    ids=str,
)
@pytest.mark.ci
async def test_arguments_and_results(tool: str, arguments: dict[str, Any], result: Any) -> None:
    outer = Server("outer", "1")
    outer.mount(server(), prefix="in")
    for made, prefix in ((server(), ""), (outer, "in_"), (Gateway({"gw": server()}), "gw_")):
        async with connect(made) as client:
            called = await client.call_tool(f"{prefix}{tool}", arguments)
            assert called["structuredContent"] == result, (prefix, called)


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_elicited_values_states_and_resources(mode: str) -> None:
    answer = {"action": "accept", "content": {"n": WIDE}}
    async with connect(server(), mode=mode, handlers={"elicitation/create": lambda _: answer}) as client:
        called = await client.call_tool("asks", {})
        assert called["structuredContent"] == {"answer": WIDE, "kept": WIDE}
        assert (await client.read_resource(f"n://{WIDE}"))["contents"][0]["text"] == str(WIDE + 1)
