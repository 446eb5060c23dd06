"""jsonrpcserver, json-rpc and pjrpc, with `loads` and `dumps` as docs/adapters.md installs them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from .library import Library, Works
from .messages import ITEM, LARGE, SMALL
from .timing import interleaved

Dispatch = Callable[[str], object]
LEFT: dict[str, Any] = {"NaN": math.nan, "a lone surrogate": "\ud800", "2**70": 2**70, "other keys": {1: 2, None: 3}}


def measure(dispatch: Callable[[Any], Dispatch]) -> Works:
    """Measure a server's response, which has the params as its result.

    Args:
        dispatch: Returns a server's function from request to response, on the json module that it gets.
    """
    from jsonrpc_fast.adapters import json as adapter

    own, fast = dispatch(json), dispatch(adapter)
    found: Works = {}
    for size, params in (("small", SMALL), ("80 kB", LARGE)):
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": [params]}, separators=(",", ":"))
        for server in (own, fast):
            reply: Any = server(request)
            assert json.loads(reply)["result"] == params
        found[f"end to end {size}"] = interleaved(
            lambda request=request: own(request), lambda request=request: fast(request)
        )
        found[f"decode {size}"] = interleaved(
            lambda request=request: json.loads(request), lambda request=request: adapter.loads(request)
        )
        found[f"encode {size}"] = interleaved(
            lambda params=params: json.dumps(params), lambda params=params: adapter.dumps(params)
        )
    return found


def jsonrpcserver(module: Any) -> Dispatch:
    import jsonrpcserver

    methods: Any = {"echo": lambda params: jsonrpcserver.Success(params)}
    return lambda request: jsonrpcserver.dispatch(
        request, methods=methods, deserializer=module.loads, serializer=module.dumps
    )


def json_rpc(module: Any) -> Dispatch:
    from jsonrpc import Dispatcher, JSONRPCResponseManager  # type: ignore[import-untyped, unused-ignore]
    from jsonrpc.jsonrpc import JSONRPCRequest  # type: ignore[import-untyped, unused-ignore]
    from jsonrpc.jsonrpc2 import JSONRPC20Response  # type: ignore[import-untyped, unused-ignore]

    methods = Dispatcher({"echo": lambda params: params})

    def dispatch(request: str) -> object:
        if module is json:
            JSONRPC20Response.serialize = staticmethod(json.dumps)
            return JSONRPCResponseManager.handle(request, methods).json
        JSONRPC20Response.serialize = staticmethod(module.dumps)
        parsed = JSONRPCRequest.from_data(module.loads(request))
        return JSONRPCResponseManager.handle_request(parsed, methods).json

    return dispatch


def pjrpc(module: Any) -> Dispatch:
    from pjrpc.server import Dispatcher, MethodRegistry

    def echo(params: Any) -> Any:
        return params

    dispatcher = Dispatcher(json_loader=module.loads, json_dumper=module.dumps)
    dispatcher.add_methods(MethodRegistry().add_method(echo))

    def dispatch(request: str) -> object:
        reply = dispatcher.dispatch(request, None)
        assert reply is not None
        return reply[0]

    return dispatch


def measure_left() -> Works:
    """Measure values that the json module reads or writes after orjson or the core has begun.

    Each is the last one of its payload, so the wasted work is as long as it can be.
    """
    from jsonrpc_fast.adapters import json as adapter

    found: Works = {}
    for size, number in (("100 B", 0), ("14 KB", 68), ("1 MB", 4900)):
        for name, last in LEFT.items():
            # As a parser would make it: no object is shared.
            value = json.loads(json.dumps([{**ITEM, "label": f"name{place}"} for place in range(number)] or [SMALL]))
            value.append(last)
            text = json.dumps(value, separators=(",", ":")).encode()
            if name != "other keys":
                found[f"decode: {size}, {name}"] = interleaved(
                    lambda text=text: json.loads(text), lambda text=text: adapter.loads(text)
                )
            found[f"encode: {size}, {name}"] = interleaved(
                lambda value=value: json.dumps(value), lambda value=value: adapter.dumps(value)
            )
    return found


JSON = Library(name="json", adapter="json", install="", tests=[], measure=measure_left)
JSONRPCSERVER = Library(
    name="jsonrpcserver",
    adapter="json",
    install="""
from jsonrpcserver import async_main, main
from jsonrpc_fast.adapters import json
for function in (*vars(main).values(), *vars(async_main).values()):
    defaults = getattr(function, "__kwdefaults__", None) or {}
    for name, replacement in (("deserializer", json.loads), ("serializer", json.dumps)):
        if name in defaults:
            defaults[name] = replacement
""",
    tests=["tests", "-o", "asyncio_mode=auto"],
    package="jsonrpcserver",
    needs=["pytest-asyncio", "returns"],
    failures={"test_dispatch_to_json": "compares the text, which the adapter writes without spaces: both are right"},
    measure=lambda: measure(jsonrpcserver),
)
JSON_RPC = Library(
    name="json-rpc",
    adapter="json",
    install="""
import jsonrpc.jsonrpc2, jsonrpc.manager, jsonrpc.utils
from jsonrpc_fast.adapters import json
for module in (jsonrpc.jsonrpc2, jsonrpc.manager, jsonrpc.utils):
    module.json = json
jsonrpc.utils.JSONSerializable.serialize = staticmethod(json.dumps)
jsonrpc.utils.JSONSerializable.deserialize = staticmethod(json.loads)
""",
    tests=["--pyargs", "jsonrpc.tests"],
    measure=lambda: measure(json_rpc),
)
PJRPC = Library(
    name="pjrpc",
    adapter="json",
    install="""
import pjrpc.client.client, pjrpc.server.dispatcher
from jsonrpc_fast.adapters import json
for module in (pjrpc.client.client, pjrpc.server.dispatcher):
    for kind in vars(module).values():
        defaults = getattr(getattr(kind, "__init__", None), "__kwdefaults__", None) or {}
        for name, replacement in (("json_loader", json.loads), ("json_dumper", json.dumps)):
            if name in defaults:
                defaults[name] = replacement
""",
    tests=["tests", "-o", "asyncio_mode=auto"],
    package="pjrpc",
    needs=[
        "aiohttp<3.13",  # aioresponses does not know later releases
        *("aioresponses", "pytest-aiohttp", "pytest-mock", "responses", "respx", "deepdiff", "jsonschema", "requests"),
    ],
    measure=lambda: measure(pjrpc),
)
