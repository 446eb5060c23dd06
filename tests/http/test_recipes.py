"""The applications on docs/http.md, run in their frameworks."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import threading
import wsgiref.simple_server
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")

import httpx2

from jsonrpc_fast.errors import HttpStatusError
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient

from ..support.pages import write_scripts
from ..support.places import ROOT

URL = "http://localhost/rpc"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The scripts of the page, by name."""
    folder = tmp_path_factory.mktemp("scripts")
    page = folder / "http.md"
    # Django has no types: its block is marked as `py`, and no type checker reads it.
    page.write_text((ROOT / "docs" / "http.md").read_text(encoding="utf-8").replace("```py\n", "```python\n"))
    return {path.stem: path for path in write_scripts(page, folder)}


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"recipe_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def check_async(client: AsyncHttpClient) -> None:
    assert await client.call("add", [1, 2]) == 3
    assert await client.call_batch([("add", [1, 2]), ("add", {"a": 3, "b": 4})]) == [3, 7]
    await client.notify("add", [1, 2])
    with pytest.raises(HttpStatusError) as caught:
        await client.call("add", [1, 2], headers={"content-type": "text/plain"})
    assert caught.value.status == 415


def check_sync(app: Any, url: str = URL) -> None:
    with HttpClient(url, transport=httpx2.WSGITransport(app)) as client:
        check_calls(client)


def check_calls(client: HttpClient) -> None:
    assert client.call("add", [1, 2]) == 3
    assert client.call_batch([("add", [1, 2]), ("add", {"a": 3, "b": 4})]) == [3, 7]
    client.notify("add", [1, 2])
    for changes, status in (
        ({"content-type": "text/plain"}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"content-length": "99999999999"}, 413),
    ):
        with pytest.raises(HttpStatusError) as caught:
            client.call("add", [1, 2], headers=changes)
        assert caught.value.status == status


@pytest.mark.parametrize(("name", "framework"), [("starlette_app", "starlette"), ("fastapi_app", "fastapi")])
@pytest.mark.ci
async def test_asgi(scripts: dict[str, Path], name: str, framework: str) -> None:
    pytest.importorskip(framework)
    async with AsyncHttpClient(URL, transport=httpx2.ASGITransport(load(scripts[name]).app)) as client:
        await check_async(client)


async def test_mounted_in_starlette() -> None:
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from jsonrpc_fast.http import Endpoint

    app = Starlette(routes=[Mount("/rpc", Endpoint({"add": lambda a, b: a + b}))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http:
        await check_async(AsyncHttpClient("http://localhost/rpc/", http))
        assert (await http.get("/rpc/health")).text == "ok\n"
        assert (await http.get("/health")).status_code == 404


@pytest.mark.virtual_time
async def test_below_middleware_of_starlette() -> None:
    """Middleware replaces `receive` and `send`, and runs the application in a task group of its own."""
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.routing import Route

    from jsonrpc_fast.handlers import RequestContext
    from jsonrpc_fast.http import Endpoint

    async def add_user(request: Any, call_next: Any) -> Any:
        request.scope["user"] = "Ada"
        return await call_next(request)

    async def user(context: RequestContext) -> Any:
        await asyncio.sleep(0.1)  # longer than the watch for disconnection waits
        return context.context["user"]

    routes = [Route("/rpc", Endpoint({"user": user, "add": lambda a, b: a + b}))]
    app = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=add_user)])
    async with AsyncHttpClient(URL, transport=httpx2.ASGITransport(app)) as client:
        await check_async(client)
        assert await client.call("user") == "Ada"


@pytest.mark.ci
def test_flask(scripts: dict[str, Path]) -> None:
    pytest.importorskip("flask")
    from flask import request

    check_sync(load(scripts["flask_app"]).app)
    app = load(scripts["flask_app"]).app

    @app.before_request
    def read_body() -> None:  # like middleware that logs or signs requests
        if int(request.headers.get("content-length") or 0) < 1000:  # Flask would refuse an incomplete body
            request.get_data()

    check_sync(app)
    with served(app) as url, HttpClient(url) as client:  # whose `wsgi.input` waits for bytes that do not come
        assert client.call("add", [1, 2]) == 3
        check_chunked(url)


def check_chunked(url: str) -> None:
    """The server of the standard library does not read chunks, and neither do WSGI frameworks on it."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
    found = httpx2.post(url, content=iter([body[:20], body[20:]]), headers={"content-type": "application/json"})
    assert (found.status_code, found.text) == (411, "The request must declare the length of its body.\n")


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve a WSGI application with the server of the standard library."""

    class Quiet(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/rpc"
        finally:
            server.shutdown()
            thread.join(20)


@pytest.fixture
def django_urls(scripts: dict[str, Path]) -> str:
    """The views of both recipes, below middleware that reads the body of what is sent to `logged/…`."""
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["localhost", "127.0.0.1"],
            DATA_UPLOAD_MAX_MEMORY_SIZE=None,  # the middleware would refuse what the endpoint has to
            MIDDLEWARE=["recipe_urls.read_body"],
            SECRET_KEY="test",
        )
    settings.ROOT_URLCONF = "recipe_urls"
    urls: Any = type(sys)("recipe_urls")
    sys.modules["recipe_urls"] = urls
    urls.read_body = importlib.import_module("django.utils.decorators").sync_and_async_middleware(reading_middleware)
    views = load(scripts["django_app"]).rpc, load(scripts["django_async_app"]).rpc
    urls.urlpatterns = [
        django.urls.path(f"{before}{name}", view)
        for before in ("", "logged/")
        for name, view in zip(("rpc", "async"), views, strict=True)
    ]
    return "http://localhost/"


def reading_middleware(get_response: Any) -> Any:
    if importlib.import_module("asgiref.sync").iscoroutinefunction(get_response):

        async def read_later(request: Any) -> Any:
            assert not request.path.startswith("/logged/") or request.body
            return await get_response(request)

        return read_later

    def read(request: Any) -> Any:
        assert not request.path.startswith("/logged/") or request.body
        return get_response(request)

    return read


@pytest.mark.ci
def test_django(django_urls: str) -> None:
    from django.core.wsgi import get_wsgi_application

    app = get_wsgi_application()
    for path in ("rpc", "logged/rpc", "async", "logged/async"):
        check_sync(app, django_urls + path)
    with served(app) as url, HttpClient(url.replace("/rpc", "/logged/rpc")) as client:
        assert client.call("add", [1, 2]) == 3
        check_chunked(url)


async def test_django_under_asgi(django_urls: str) -> None:
    from django.core.asgi import get_asgi_application

    transport = httpx2.ASGITransport(get_asgi_application())
    for path in ("async", "logged/async"):
        async with AsyncHttpClient(django_urls + path, transport=transport) as client:
            await check_async(client)


async def test_aiohttp(scripts: dict[str, Path]) -> None:
    web = pytest.importorskip("aiohttp.web")
    runner = web.AppRunner(load(scripts["aiohttp_app"]).app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with AsyncHttpClient(f"http://127.0.0.1:{port}/rpc") as client:
            await check_async(client)
    finally:
        await runner.cleanup()


async def test_cors() -> None:
    """A page of an allowed origin may call; the framework responds to the preflight of the browser."""
    cors = pytest.importorskip("starlette.middleware.cors")
    from jsonrpc_fast.http import Endpoint

    origin = "https://app.example.org"
    endpoint = Endpoint({"add": lambda a, b: a + b}, allowed_origins=[origin])
    app = cors.CORSMiddleware(endpoint, allow_origins=[origin], allow_methods=["POST"], allow_headers=["content-type"])
    headers = {"origin": origin, "access-control-request-method": "POST"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http:
        answer = await http.options("/", headers={**headers, "access-control-request-headers": "content-type"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        client = AsyncHttpClient("http://localhost/", http)
        assert await client.call("add", [1, 2], headers={"origin": origin}) == 3
        with pytest.raises(HttpStatusError):
            await client.call("add", [1, 2], headers={"origin": "https://evil.example"})


def test_a_client_in_several_threads(scripts: dict[str, Path]) -> None:
    pytest.importorskip("flask")
    app = load(scripts["flask_app"]).app
    wrong: list[Any] = []

    def work(number: int) -> None:
        for other in range(50):
            total = client.call("add", [number, other])
            if total != number + other:
                wrong.append(total)

    with HttpClient(URL, transport=httpx2.WSGITransport(app)) as client:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert wrong == []
