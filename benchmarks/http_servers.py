"""The ASGI applications of `bench_http`: each has a method `echo` that returns its argument.

    uvicorn --factory benchmarks.http_servers:fast

Each is written as a user of its library would write it. The FastAPI integration of pjrpc 2.2 sends responses as JSON
strings, so its dispatcher is used on Starlette. `constant` is the upper limit: it receives the body, parses nothing,
and responds with the bytes in the environment variable ANSWER.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Final

FAST: Final = "jsonrpc_fast"
RECEIVED: Final = "constant bytes, body received"
PJRPC: Final = "pjrpc on Starlette"
JSONRPCSERVER: Final = "jsonrpcserver on Starlette"
FASTAPI: Final = "fastapi-jsonrpc"

FACTORIES: Final = {
    FAST: "fast",
    RECEIVED: "constant",
    PJRPC: "pjrpc",
    JSONRPCSERVER: "jsonrpcserver",
    FASTAPI: "fastapi_jsonrpc",
}


def echo(value: Any) -> Any:
    return value


def fast() -> Any:
    from jsonrpc_fast.http import Endpoint

    return Endpoint({"echo": echo})


def constant() -> Any:
    answer = os.environ["ANSWER"].encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    body = {"type": "http.response.body", "body": answer}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
            await send(start)
            await send(body)

    return app


def _on_starlette(serve: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Route

    return Starlette(routes=[Route("/", serve, methods=["POST"])])


def pjrpc() -> Any:
    import pjrpc.server
    from starlette.responses import Response

    async def echo(value: Any) -> Any:
        return value

    methods = pjrpc.server.MethodRegistry()
    methods.add_method(echo, name="echo")
    dispatcher: Any = pjrpc.server.AsyncDispatcher()
    dispatcher.add_methods(methods)

    async def serve(request: Any) -> Response:
        text, _ = await dispatcher.dispatch((await request.body()).decode(), request)
        return Response(text, media_type="application/json")

    return _on_starlette(serve)


def jsonrpcserver() -> Any:
    from starlette.responses import Response

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from jsonrpcserver import Result, Success, dispatch

    def echo(value: Any) -> Result:
        return Success(value)

    methods = {"echo": echo}

    async def serve(request: Any) -> Response:
        return Response(dispatch((await request.body()).decode(), methods), media_type="application/json")

    return _on_starlette(serve)


def fastapi_jsonrpc() -> Any:
    import fastapi
    import fastapi_jsonrpc as library

    entrypoint = library.Entrypoint("/")
    required: Any = fastapi.Body(...)

    @entrypoint.method()
    def echo(value: Any = required) -> Any:
        return value

    app: Any = library.API()
    app.bind_entrypoint(entrypoint)
    return app
