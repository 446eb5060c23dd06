"""Names of several servers in one list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.mcp.protocol.meta import Prefixes

from ...support.tables import rows

NAMES = st.text("ab_", min_size=1, max_size=4)


def prefixes_of(servers: list[str], separator: str = "_") -> Prefixes:
    prefixes = Prefixes(separator)
    for server in servers:
        prefixes.add(server)
    return prefixes


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), NAMES)
def test_a_name_is_of_the_server_that_it_was_made_for(servers: list[str], name: str) -> None:
    try:
        prefixes = prefixes_of(servers)
    except ValueError:
        assert any(a != b and f"{b}_".startswith(f"{a}_") for a in servers for b in servers)
        return
    for server in servers:
        assert prefixes.split(prefixes.join(server, name)) == (server, name)


def test_a_name_of_no_server() -> None:
    assert prefixes_of(["db", "fs"], "/").split("db_query") is None


@rows("servers", [["a", "a"], ["a", "a_b"], ["a_b", "a"]])
def test_servers_with_names_in_common(servers: list[str]) -> None:
    with pytest.raises(ValueError, match="names in common"):
        prefixes_of(servers)
    assert prefixes_of(servers[:1], ".").split(f"{servers[0]}.x") == (servers[0], "x")
