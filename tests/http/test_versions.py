"""Endpoints of a profile that reads messages with and without `jsonrpc`; see `tests/handlers/test_versions.py`."""

from __future__ import annotations

import asyncio

from jsonrpc_fast.http import Endpoint, WsgiEndpoint
from jsonrpc_fast.profile import JSONRPC_1, Profile

from ..handlers.test_versions import HANDLERS, TEXTS
from ..support.tables import rows

HEADERS = {"content-type": "application/json", "host": "localhost"}


@rows(("profile", "text", "response"), TEXTS)
async def test_each_text(profile: Profile, text: str, response: str) -> None:
    expected = 200 if response else 204, response
    endpoint = Endpoint(HANDLERS, profile=profile, max_body_bytes=1000)
    status, _, body = await endpoint.serve("POST", HEADERS, text.encode())
    assert (status, body.decode()) == expected
    if "later" not in text:
        status, _, body = WsgiEndpoint(HANDLERS, profile=profile, max_body_bytes=1000).serve(
            "POST", {**HEADERS, "content-length": str(len(text))}, text.encode()
        )
        assert (status, body.decode()) == expected


async def test_a_function_that_is_cancelled_by_itself() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    endpoint = Endpoint({"cancel": cancel}, profile=JSONRPC_1)
    for version, expected in (
        ("", '{"id":1,"error":{"code":-32603,"message":"Internal error"},"result":null}'),
        ('"jsonrpc":"2.0",', '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}'),
    ):
        text = "{" + version + '"id":1,"method":"cancel"}'
        _, _, body = await endpoint.serve("POST", HEADERS, text.encode())
        assert body.decode() == expected
