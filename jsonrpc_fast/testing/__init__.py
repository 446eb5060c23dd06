"""Tools for tests of your own programs: sessions in memory and expected calls.

    calls = ExpectedCalls()
    calls.expect("price", {"item": "tea"}).respond(2.5)
    async with sessions(calls) as (client, _):
        assert await client.call("price", {"item": "tea"}) == 2.5
    calls.check()

The pytest plugin `jsonrpc_fast.testing.plugin` has a fixture for both. They work with any test framework, and
with any plugin for async tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .expected import Expectation, ExpectedCalls, sessions
else:  # commands read recordings without a session
    from ..support import loader

    __getattr__ = loader(__name__, {"expected": ("Expectation", "ExpectedCalls", "sessions")})

__all__ = ["Expectation", "ExpectedCalls", "sessions"]
