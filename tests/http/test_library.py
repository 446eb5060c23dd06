"""What the HTTP clients check in objects of httpx2, and that objects of httpx, its predecessor, are refused."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")

import httpx2

from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient
from jsonrpc_fast.http.library import check_client, url_of
from jsonrpc_fast.http.upstreams import Upstreams

from ..support.tables import rows


class OfHttpx:
    """An object of httpx, as its classes name their module."""


OfHttpx.__module__ = "httpx._transports.default"


class Derived(OfHttpx):
    pass


def in_mcp(**options: Any) -> Any:
    mcp: ModuleType = pytest.importorskip("jsonrpc_fast.mcp")
    return mcp.connect("http://a/mcp", **options)


@rows("given", [OfHttpx(), Derived()])
@rows(
    "use",
    [
        lambda given: HttpClient("http://a/", transport=given),
        lambda given: AsyncHttpClient("http://a/", auth=given),
        lambda given: HttpClient("http://a/", mounts={"all://": given}),
        lambda given: Upstreams("http://a/", transport=given),
        lambda given: in_mcp(auth=given),
    ],
)
def test_objects_of_httpx_are_refused(use: Any, given: object) -> None:
    with pytest.raises(TypeError, match=r"^an object of httpx \((OfHttpx|Derived)\) does not work here: use httpx2$"):
        use(given)


def test_clients() -> None:
    check_client(None, httpx2.Client)
    with httpx2.Client() as client:
        check_client(client, httpx2.Client)
        with pytest.raises(TypeError, match=r"^the HTTP client must be an httpx2\.AsyncClient, not httpx2\.Client$"):
            check_client(client, httpx2.AsyncClient)
    for wrong, name in (("http://a/", r"builtins\.str"), (OfHttpx(), r"httpx\._transports\.default\.OfHttpx")):
        with pytest.raises(TypeError, match=f"not {name}$"):
            check_client(wrong, httpx2.Client)


def test_urls() -> None:
    for given in ("http://a/b", httpx2.URL("http://a/b")):
        assert url_of(given) == httpx2.URL("http://a/b")
    for wrong in (None, 5, b"http://a/b", object()):
        with pytest.raises(TypeError, match="the URL must be a str, not "):
            url_of(wrong)
    for malformed in ("http://[secret]/", "http://a:port/", "http://\x7fsecret"):
        with pytest.raises(ValueError, match=r"^the URL is malformed$"):
            url_of(malformed)
    for relative in ("/rpc", "rpc", "http:///rpc", "ftp://a/"):
        with pytest.raises(ValueError, match=r"^the URL must begin with http:// or https:// and have a host$"):
            url_of(relative)
        if "://" not in relative:
            assert str(url_of(relative, may_be_relative=True)) == relative
