"""Which HTTP library a client uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jsonrpc_fast.http.library import check_client, library_of, url_of

httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")


def test_the_library_of_objects() -> None:
    assert library_of() is library_of(None, "text", ("a", "b"), {"x": 1}, object()) is httpx2
    for library in (httpx, httpx2):

        class Derived(library.Auth):  # type: ignore[misc, name-defined]
            pass

        for given in (
            library.Client(verify=False),
            library.AsyncClient(verify=False),
            library.HTTPTransport(verify=False),
            library.BasicAuth("a", "b"),
            library.Limits(),
            library.Headers(),
            library.URL("http://a/"),
            Derived(),
            {"all://": library.HTTPTransport(verify=False)},
        ):
            assert library_of(None, "text", given) is library


def test_objects_of_both() -> None:
    with pytest.raises(TypeError, match=r"^objects of httpx and of httpx2 cannot be used together$"):
        library_of(httpx.Client(), httpx2.BasicAuth("a", "b"))


@pytest.mark.ci
def test_the_one_that_is_installed() -> None:
    for missing, expected in (("httpx", "httpx2"), ("httpx2", "httpx")):
        code = f"import sys; sys.modules[{missing!r}] = None; from jsonrpc_fast.http.library import library_of; "
        code += "import jsonrpc_fast.http.client, jsonrpc_fast.mcp.http.client; print(library_of().__name__)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert run.stdout == f"{expected}\n"


@pytest.mark.ci
def test_clients() -> None:
    for library in (httpx, httpx2):
        check_client(None, library, "Client")
        check_client(library.Client(), library, "Client")
        with pytest.raises(TypeError) as caught:
            check_client(library.Client(), library, "AsyncClient")
        wrong = f"{library.__name__}.Client"
        assert (
            str(caught.value) == f"the HTTP client must be an httpx2.AsyncClient or an httpx.AsyncClient, not {wrong}"
        )
        with pytest.raises(TypeError, match=r"not builtins\.str$"):
            check_client("http://a/", library, "Client")


def test_urls() -> None:
    for library in (httpx, httpx2):
        for given in ("http://a/b", httpx.URL("http://a/b"), httpx2.URL("http://a/b")):
            assert url_of(given, library) == library.URL("http://a/b")
        for wrong in (None, 5, b"http://a/b", object()):
            with pytest.raises(TypeError, match="the URL must be a str, not "):
                url_of(wrong, library)
        for malformed in ("http://[secret]/", "http://a:port/", "http://\x7fsecret"):
            with pytest.raises(ValueError, match=r"^the URL is malformed$"):
                url_of(malformed, library)
