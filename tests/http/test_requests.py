"""The checks of an HTTP request, row by row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.http import Access, Refusal
from jsonrpc_fast.http.requests import check_content, declared_length, host_name, is_json, is_loopback, read_body

from ..support.tables import rows


@rows(
    "value",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        'Application/JSON ; Charset="utf-8" ; x=1',
        "application/json; charset=us-ascii",
        "application/json; profile=x",
        'application/json; profile="a,b"',
        "application/json;",
        "application/json-rpc",
        "application/jsonrequest",
    ],
)
def test_content_types(value: str) -> None:
    assert is_json(value.encode())
    check_content({b"content-type": value.encode()})


@rows(
    "value",
    [
        "",
        "json",
        "text/plain",
        "text/json",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "application/jsonx",
        "application/json, text/plain",
        "application/json; profile=x, text/plain",
        'application/json; profile="x", text/plain',
        "application/json; charset=utf-8, application/json; charset=utf-8",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        'application/json; x="a; charset=utf-16"',
        "application/json; charset",
        "application/json;" + " " * 5000,
    ],
)
def test_other_content_types(value: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_content({b"content-type": value.encode()})
    assert caught.value.status == 415
    assert caught.value.headers == ((b"accept", b"application/json"),)


def test_no_content_type() -> None:
    with pytest.raises(Refusal):
        check_content({})


def test_content_codings() -> None:
    json = (b"content-type", b"application/json")
    check_content(dict([json, (b"content-encoding", b"Identity")]))
    for coding in (b"gzip", b"br", b"identity, gzip", b"x"):
        with pytest.raises(Refusal) as caught:
            check_content(dict([json, (b"content-encoding", coding)]))
        assert (caught.value.status, caught.value.headers) == (415, ((b"accept-encoding", b"identity"),))


def verdict(access: Access, host: str | None, origin: str | None = None, is_loopback: bool = True) -> int:
    """Return the status of a refusal, or 0."""
    try:
        access.check(
            host if host is None else host.encode(), origin if origin is None else origin.encode(), is_loopback
        )
    except Refusal as refusal:
        return refusal.status
    return 0


LOCAL = [*("localhost", "LOCALHOST", "localhost:80", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80")]
FOREIGN = [
    *("example.org", "localhost.example.org", "127.0.0.1.nip.io", "localhost:80:80", "localhost:", "localhost:x", ""),
    *("::1", "[::1]x", "[::1]:", "127.0.0.2", "0.0.0.0", "localhost@example.org", "localhost.", " localhost"),
]


@rows("host", LOCAL)
def test_names_of_the_loopback_interface(host: str) -> None:
    access = Access(None, None)
    assert verdict(access, host) == 0
    assert verdict(access, host, f"http://{host}") == 0
    assert verdict(access, host, f"https://{host}") == 0


@rows("host", FOREIGN)
def test_other_names(host: str) -> None:
    access = Access(None, None)
    assert verdict(access, host) == 421
    assert verdict(access, "localhost", f"http://{host}") == 403
    assert verdict(access, host, f"http://{host}", is_loopback=False) == 0


@rows(
    ("host", "origin", "code"),
    [
        ("10.0.0.1:8000", "http://10.0.0.1:8000", 0),
        ("10.0.0.1:8000", "http://10.0.0.1:3000", 0),
        ("example.org", "https://EXAMPLE.org", 0),
        ("example.org", None, 0),
        ("[fe80::1]:8000", "http://[fe80::1]", 0),
        ("10.0.0.1:8000", "http://evil.example", 403),
        ("example.org", "https://example.org.evil.example", 403),
        ("example.org", "https://a.example.org", 403),
        ("10.0.0.1", "null", 403),
        ("10.0.0.1", "http://localhost", 403),
        (None, "http://10.0.0.1", 403),
    ],
)
def test_beyond_loopback_an_origin_must_be_the_host(host: str | None, origin: str | None, code: int) -> None:
    assert verdict(Access(None, None), host, origin, is_loopback=False) == code
    assert verdict(Access(None, ["*"]), host, origin, is_loopback=False) == 0


def test_what_is_open_to_whom() -> None:
    host = "any name in Host is accepted, so a page whose name is pointed here can use it: allowed_hosts"
    origin = "pages of every origin can use it: allowed_origins"
    assert Access(None, None).exposure() == [host]
    assert Access(["*"], ["*"]).exposure() == [host, origin]
    assert Access(["example.org"], ["https://example.org"]).exposure() == []


@rows("origin", ["null", "", "localhost", "file://", "file://localhost", "chrome-extension://abc"])
def test_origins_without_a_host(origin: str) -> None:
    assert verdict(Access(None, None), "localhost", origin) == 403


def test_no_host() -> None:
    assert verdict(Access(None, None), None) == 421
    assert verdict(Access(None, None), None, is_loopback=False) == 0
    assert verdict(Access(["*"], None), None) == 0
    assert verdict(Access(["example.org"], None), None) == 421


@rows("local", [True, False])
def test_allowed_hosts(local: bool) -> None:
    access = Access(["Example.org", "[::1]:8000", "10.0.0.1:80"], None)
    for host in ("example.org", "EXAMPLE.ORG:443", "[::1]:8000", "10.0.0.1:80"):
        assert verdict(access, host, is_loopback=local) == 0
    for host in ("localhost", "example.org.", "a.example.org", "[::1]", "[::1]:80", "10.0.0.1", "*", "x" * 9999):
        assert verdict(access, host, is_loopback=local) == 421
    assert verdict(Access(["*"], None), "anything", is_loopback=local) == 0


@rows("local", [True, False])
def test_allowed_origins(local: bool) -> None:
    access = Access(["*"], ["https://Example.org", "null"])
    for origin in (None, "https://example.org", "HTTPS://EXAMPLE.ORG", "null"):
        assert verdict(access, "x", origin, local) == 0
    for origin in (
        "http://example.org",
        "https://example.org:8443",
        "https://example.org.evil",
        "http://localhost",
        "",
    ):
        assert verdict(access, "x", origin, local) == 403
    assert verdict(Access(["*"], ["*"]), "x", "http://anything", local) == 0


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed_hosts must not contain an empty name"):
        Access([""], None)
    with pytest.raises(ValueError, match="allowed_origins must not contain an empty name"):
        Access(None, [""])


def test_host_names() -> None:
    assert host_name(b"localhost") == host_name(b"localhost:80") == b"localhost"
    assert host_name(b"[::1]:80") == host_name(b"[::1]") == b"[::1]"
    assert host_name(b"a:b") == host_name(b"::1") == host_name(b"a:1:2") == b""


def test_loopback_addresses() -> None:
    for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"):
        assert is_loopback(address)
    for address in ("0.0.0.0", "128.0.0.1", "::", "192.0.2.1", "/run/socket", "", "1127.0.0.1"):
        assert not is_loopback(address)


def test_declared_lengths() -> None:
    assert declared_length(b"0", 5) == 0
    assert declared_length(b"0005", 5) == 5
    for length, status in ((b"6", 413), (b"9" * 99, 413), (b"", 400), (b"-1", 400), (b"+1", 400), (b"1 ", 400)):
        with pytest.raises(Refusal) as caught:
            declared_length(length, 5)
        assert caught.value.status == status


def read(parts: list[Any], limit: int, declared: int | None = None) -> Any:
    """Return the body of these messages, and how many of them were received."""
    waiting = list(parts)

    async def receive() -> Any:
        return waiting.pop(0)

    body = asyncio.run(read_body(receive, limit, declared))
    return body, len(parts) - len(waiting)


def part(body: bytes, more_body: bool = True) -> Any:
    return {"type": "http.request", "body": body, "more_body": more_body}


def test_bodies() -> None:
    gone = {"type": "http.disconnect"}
    assert read([part(b"abc", False)], 3) == (b"abc", 1)
    assert read([{"type": "http.request"}], 3) == (b"", 1)
    assert read([part(b"a"), part(b""), part(b"bc"), part(b"", False)], 3) == (b"abc", 4)
    assert read([part(b"a"), part(b"bc"), part(b"", False)], 3, 3) == (b"abc", 2)
    assert read([gone], 3) == (None, 1)
    assert read([part(b"a"), gone], 3) == (None, 2)
    for parts in ([part(b"abcd", False)], [part(b"ab"), part(b"cd"), part(b"", False)]):
        with pytest.raises(Refusal) as caught:
            read(parts, 3)
        assert caught.value.status == 413
