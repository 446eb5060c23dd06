"""The applications on docs/http.md, run in their frameworks."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="the extra `http` is not installed")

import httpx

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
    assert await client.batch([("add", [1, 2]), ("add", {"a": 3, "b": 4})]) == [3, 7]
    await client.notify("add", [1, 2])
    with pytest.raises(HttpStatusError) as caught:
        await client.call("add", [1, 2], headers={"content-type": "text/plain"})
    assert caught.value.status == 415


def check_sync(app: Any) -> None:
    with HttpClient(URL, transport=httpx.WSGITransport(app)) as client:
        assert client.call("add", [1, 2]) == 3
        assert client.batch([("add", [1, 2]), ("add", {"a": 3, "b": 4})]) == [3, 7]
        client.notify("add", [1, 2])
        with pytest.raises(HttpStatusError) as caught:
            client.call("add", [1, 2], headers={"content-type": "text/plain"})
        assert caught.value.status == 415


@pytest.mark.parametrize(("name", "framework"), [("starlette_app", "starlette"), ("fastapi_app", "fastapi")])
async def test_asgi(scripts: dict[str, Path], name: str, framework: str) -> None:
    pytest.importorskip(framework)
    async with AsyncHttpClient(URL, transport=httpx.ASGITransport(load(scripts[name]).app)) as client:
        await check_async(client)


async def test_mounted_in_starlette() -> None:
    pytest.importorskip("starlette")
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from jsonrpc_fast.http import Endpoint

    app = Starlette(routes=[Mount("/rpc", Endpoint({"add": lambda a, b: a + b}))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        await check_async(AsyncHttpClient("http://localhost/rpc/", http))
        assert (await http.get("/rpc/health")).text == "ok\n"
        assert (await http.get("/health")).status_code == 404


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
    async with AsyncHttpClient(URL, transport=httpx.ASGITransport(app)) as client:
        await check_async(client)
        assert await client.call("user") == "Ada"


def test_flask(scripts: dict[str, Path]) -> None:
    pytest.importorskip("flask")
    check_sync(load(scripts["flask_app"]).app)


def test_django(scripts: dict[str, Path]) -> None:
    django = pytest.importorskip("django")
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["localhost"], ROOT_URLCONF="recipe_urls", SECRET_KEY="test")
    view = load(scripts["django_app"]).rpc
    urls: Any = type(sys)("recipe_urls")
    urls.urlpatterns = [django.urls.path("rpc", view)]
    sys.modules["recipe_urls"] = urls
    check_sync(get_wsgi_application())


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
    """A page of an allowed origin may call; the framework answers the browser's question."""
    cors = pytest.importorskip("starlette.middleware.cors")
    from jsonrpc_fast.http import Endpoint

    origin = "https://app.example.org"
    endpoint = Endpoint({"add": lambda a, b: a + b}, allowed_origins=[origin])
    app = cors.CORSMiddleware(endpoint, allow_origins=[origin], allow_methods=["POST"], allow_headers=["content-type"])
    headers = {"origin": origin, "access-control-request-method": "POST"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
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

    with HttpClient(URL, transport=httpx.WSGITransport(app)) as client:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert wrong == []
