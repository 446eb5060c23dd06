"""What each project does without a network: `drive` returns what its users see, `hot` its hot path.

Both get the module that a port changes. They are run on the released sources and on the port: what is seen must be the
same, and the hot path not slower.
"""

from __future__ import annotations

import asyncio
import io
import json
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Final

ITEM: Final = {"id": "5f", "name": "Küche", "muted": False, "percent": 37, "seen": {"sec": 1711880000}, "ratio": 1.5}
SMALL: Final = {"jsonrpc": "2.0", "id": 7, "result": "OK"}
LARGE: Final = {"jsonrpc": "2.0", "id": 7, "result": [ITEM] * 100}
ERROR: Final = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "no"}}
NOTE: Final = {"jsonrpc": "2.0", "method": "status", "params": [{"extruder": {"temperature": 210.1}}, 578243.5]}

Seen = list[Any]
Hot = dict[str, Callable[[], object]]


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def run(coroutine: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def seen_of(work: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of its exception."""
    try:
        return work()
    except Exception as error:
        return type(error).__name__


# snapcast: an `asyncio.Protocol` with its own buffer


def _snapcast(module: Any) -> tuple[Any, Seen]:
    heard: Seen = []
    callbacks = {"status": heard.append, "Server.OnDisconnect": lambda error: heard.append("lost")}
    return module.SnapcastProtocol(callbacks), heard


def drive_snapcast(module: Any) -> Seen:
    protocol, heard = _snapcast(module)
    sent: Seen = []
    protocol.connection_made(types.SimpleNamespace(write=lambda data: sent.append(json.loads(data))))

    async def talk() -> Seen:
        answers = [{**SMALL, "id": 1}, {**ERROR, "id": 2}, [NOTE, {**SMALL, "id": 3}], {"id": 4, "result": "ü"}]
        # Without a code, as some servers write it; the original passes the error on as it is.
        calls = [asyncio.ensure_future(protocol.request("Server.GetStatus", {"a": n})) for n in range(4)]
        await asyncio.sleep(0)
        wire = b"".join(text(answer) + b"\r\n" for answer in [NOTE, {**SMALL, "id": 99}, *answers])
        protocol.data_received(wire[:-2])
        protocol.data_received(wire[-2:])
        return list(await asyncio.wait_for(asyncio.gather(*calls), 5))

    results = asyncio.run(talk())
    protocol.connection_lost(None)
    return [results, heard, sent]


def hot_snapcast(module: Any) -> Hot:
    def read(value: Any) -> Callable[[], object]:
        protocol, _ = _snapcast(module)
        protocol._buffer[7] = {"flag": types.SimpleNamespace(set=lambda: None)}
        wire = text(value) + b"\r\n"
        return lambda: protocol.data_received(wire)

    params = {"id": "a", "volume": {"percent": 3}}
    return {
        "read small": read(SMALL),
        "read notification": read(NOTE),
        "read 10 kB": read(LARGE),
        "write": lambda: module.jsonrpc_request("Client.SetVolume", 5, params),
    }


# moonraker-api: a client over WebSocket


def _moonraker(module: Any) -> tuple[Any, Seen]:
    client = module.WebsocketClient.__new__(module.WebsocketClient)
    heard: Seen = []
    client._requests = {7: types.SimpleNamespace(set_result=heard.append)}
    client.listener = types.SimpleNamespace(on_notification=lambda *values: heard.append(values))
    client._create_task = lambda work: None
    return client, heard


def _messages(values: list[Any]) -> list[Any]:
    from aiohttp import WSMessage, WSMsgType

    return [WSMessage(WSMsgType.TEXT, text(value).decode(), None) for value in values]


async def _received(messages: list[Any]) -> Any:
    for message in messages:
        yield message


def drive_moonraker_api(module: Any) -> Seen:
    client, heard = _moonraker(module)
    messages = _messages([SMALL, LARGE, ERROR, NOTE, {**SMALL, "id": 8}, {"result": 1, "id": 7}])
    run(client.loop_recv(_received(messages)))
    client._get_next_tx_id = lambda: 5
    sent = [client._build_websocket_request("a"), client._build_websocket_request("printer.query", objects={"x": None})]
    return [heard, [(id, json.loads(data) if isinstance(data, bytes) else data) for id, data in sent]]


def hot_moonraker_api(module: Any) -> Hot:
    client, _ = _moonraker(module)

    def write() -> object:
        data = client._build_websocket_request("printer.query", objects={"toolhead": None})[1]
        return data.decode() if isinstance(data, bytes) else json.dumps(data)

    def read(value: Any) -> Callable[[], object]:
        messages = _messages([value]) * 20
        return lambda: run(client.loop_recv(_received(messages)))

    return {"read small": read(SMALL), "read notification": read(NOTE), "read 10 kB": read(LARGE), "write": write}


# jsonrpc-base: the core of clients over HTTP and WebSocket, which hand over dicts


def drive_jsonrpc_base(module: Any) -> Seen:
    request = module.Request
    texts = [
        request("m", [1], "x").serialize(),
        request("m", {"a": (1, 2)}, None).serialize(),
        request("m", None, 5).serialize(),
        module.Response(request("m", [], 5), result={"a": 1}).serialize(),
        module.Response(request("m", [], 5), error={"code": 1, "message": "no"}).serialize(),
    ]
    answers: list[Any] = [SMALL, LARGE, ERROR, {"result": 5}, {"id": 7}, [], {"id": 7, "error": {"message": "x"}}]
    results = [seen_of(partial(request("m", [], 7).parse_response, answer)) for answer in answers]
    asked: list[Any] = [NOTE, {"method": "m", "id": 1}, {"method": "m", "params": 5}, {"id": 1, "params": []}]
    requests = [
        (found.method, found.params, found.msg_id) if not isinstance(found, str) else found
        for found in (seen_of(partial(request.parse, data)) for data in asked)
    ]
    return [[json.loads(each) for each in texts], results, requests]


def hot_jsonrpc_base(module: Any) -> Hot:
    small, large = text(SMALL).decode(), text(LARGE).decode()
    return {
        "parse_response small": lambda: module.Request("m", [], 7).parse_response(json.loads(small)),
        "parse_response 10 kB": lambda: module.Request("m", [], 7).parse_response(json.loads(large)),
        "parse a request": lambda: module.Request.parse(NOTE),
        "serialize": lambda: module.Request("Player.Open", {"item": {"file": "a"}}, "x-1").serialize(),
    }


# multilspy: a client of language servers


async def _listened(module: Any, wire: bytes) -> tuple[Seen, list[bytes]]:
    handler = module.LanguageServerHandler(module.ProcessLaunchInfo(cmd=[]))
    reader = asyncio.StreamReader(limit=2**24)
    reader.feed_data(wire)
    reader.feed_eof()
    heard: Seen = []
    written: list[bytes] = []

    async def settled(value: Any) -> None:
        heard.append(str(value))

    async def drain() -> None:
        pass

    stdin = types.SimpleNamespace(writelines=written.extend, drain=drain)
    handler.process = types.SimpleNamespace(stdout=reader, stdin=stdin)
    handler._response_handlers = {id: types.SimpleNamespace(on_result=settled, on_error=settled) for id in range(100)}

    async def answer(params: Any) -> Any:
        return {"got": params}

    handler.on_request("ask", answer)
    handler.on_notification("status", settled)
    await handler.run_forever()
    while handler.tasks:
        tasks = list(handler.tasks.values())
        handler.tasks.clear()
        await asyncio.gather(*tasks)
    return heard, written


def _framed(values: list[Any]) -> bytes:
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(text(value)), text(value)) for value in values)


def drive_multilspy(module: Any) -> Seen:
    values: list[Any] = [
        {**SMALL, "id": 1},
        {**ERROR, "id": 2},
        NOTE,
        {"jsonrpc": "2.0", "id": 5, "method": "ask", "params": {"a": "ü"}},
    ]
    wire = b"a line that the server prints\n" + _framed(values) + b"another one\n" + _framed([{**SMALL, "id": 3}])
    heard, written = asyncio.run(_listened(module, wire))
    body = b"".join(written).partition(b"\r\n\r\n")[2]
    return [sorted(heard), json.loads(body)]


def hot_multilspy(module: Any) -> Hot:
    params = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 3, "character": 4}}
    wire = _framed([{**LARGE, "id": number} for number in range(20)])
    return {
        "write": lambda: b"".join(module.create_message(module.make_request("textDocument/hover", 5, params))),
        "read 20 x 10 kB": lambda: asyncio.run(_listened(module, wire)),
    }


# e-x (ElectrumX): bitcoind over HTTP, with orjson where it is installed; its own tests drive it


def drive_e_x(module: Any) -> Seen:
    return []


def hot_e_x(module: Any) -> Hot:
    class Sent:
        """A session of aiohttp that answers with one text."""

        def __init__(self, answer: bytes) -> None:
            self._answer = answer
            self.headers = {"Content-Type": "application/json"}

        def post(self, url: str, data: Any) -> Any:
            return self

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def json(self, loads: Any) -> Any:
            return loads(self._answer.decode())

    def call(answer: Any, work: Callable[[Any], Any]) -> Callable[[], object]:
        daemon = module.Daemon.__new__(module.Daemon)
        daemon.session, daemon.urls, daemon.url_index = Sent(text(answer)), ["http://x/"], 0
        daemon.workqueue_semaphore = _Free()
        daemon.id_counter = iter(range(10**9))
        daemon.init_retry = 0.25
        return lambda: run(work(daemon))

    hash_ = {"result": "00" * 32, "error": None, "id": 0}
    many = [{**hash_, "id": number} for number in range(100)]
    return {
        "one call": call(hash_, lambda daemon: daemon._send_single("getblockhash", [1])),
        "100 calls": call(many, lambda daemon: daemon._send_vector("getblockhash", [[n] for n in range(100)])),
    }


class _Free:
    """A semaphore that is always free."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


# aioshelly: devices over WebSocket, with orjson


_SHELLY_NOTE: Final = {
    "src": "shellyplus1-a8",
    "dst": "aios-1",
    "method": "NotifyStatus",
    "params": {"ts": 1711880000.12, "switch:0": {"id": 0, "apower": 12.5}},
}
_SHELLY_STATUS: Final = {"id": 3, "src": "shellyplus1-a8", "dst": "aios-1", "result": [ITEM] * 12}
_SHELLY_CALL: Final = {"id": 3, "method": "Switch.Set", "src": "aios-1", "params": {"id": 0, "on": True}}


def _shelly(module: Any, values: list[Any]) -> Any:
    """Return a function that sends values, and what is sent."""
    sent: list[bytes] = []

    async def send_frame(data: bytes, kind: Any) -> None:
        sent.append(data)

    base = module.WsBase.__new__(module.WsRPC)
    base._client, base._ip_address, base._port = types.SimpleNamespace(send_frame=send_frame), "h", 1
    for value in values:
        run(base._send_json(value))
    return sent, base


def drive_aioshelly(module: Any) -> Seen:
    from aiohttp import WSMessage, WSMsgType

    texts = [text(each) for each in (_SHELLY_NOTE, _SHELLY_STATUS, {"id": 1, "error": {"code": 401, "message": "{}"}})]
    read = [module._receive_json_or_raise(WSMessage(WSMsgType.TEXT, data, None)) for data in texts]
    bad = seen_of(lambda: module._receive_json_or_raise(WSMessage(WSMsgType.TEXT, b"{", None)))
    sent, _ = _shelly(module, [_SHELLY_CALL, {**_SHELLY_CALL, "params": {"ids": (1, 2), "set": {3}, 4: 5}}])
    return [read, bad, [json.loads(data) for data in sent]]


def hot_aioshelly(module: Any) -> Hot:
    from aiohttp import WSMessage, WSMsgType

    note, status = (WSMessage(WSMsgType.TEXT, text(each), None) for each in (_SHELLY_NOTE, _SHELLY_STATUS))
    sent, base = _shelly(module, [])

    def write() -> None:
        run(base._send_json(_SHELLY_CALL))
        sent.clear()

    return {
        "read notification": lambda: module._receive_json_or_raise(note),
        "read status": lambda: module._receive_json_or_raise(status),
        "write": write,
    }


# aria2p: aria2 over HTTP; its own tests drive it, with a real aria2c


def drive_aria2p(module: Any) -> Seen:
    return []


def hot_aria2p(module: Any) -> Hot:
    import requests

    def call(answer: Any) -> Callable[[], object]:
        response = requests.Response()
        response._content, response.status_code = text(answer), 200
        module.requests = types.SimpleNamespace(post=lambda *_, **__: response)
        client = module.Client()
        return lambda: client.call(client.TELL_ACTIVE)

    return {"call, small": call(SMALL)}


# zabbix_utils: Zabbix over HTTP


def _zabbix(module: Any, answer: Any) -> tuple[Any, list[bytes]]:
    api = module.ZabbixAPI.__new__(module.ZabbixAPI)
    sent: list[bytes] = []

    def urlopen(request: Any, **_: Any) -> io.BytesIO:
        sent.append(request.data)
        return io.BytesIO(answer if isinstance(answer, bytes) else text(answer))

    module.ul = types.SimpleNamespace(Request=_Request, urlopen=urlopen)
    api.url, api.timeout, api.validate_certs, api.ssl_context = "http://x/", 3, True, None
    api._ZabbixAPI__basic_cred = None
    return api, sent


class _Request:
    def __init__(self, url: str, data: bytes, **_: Any) -> None:
        self.data = data


def drive_zabbix_utils(module: Any) -> Seen:
    seen: Seen = []
    answers = [SMALL, LARGE, {**ERROR, "error": {"code": -32602, "message": "Invalid params.", "data": "x"}}, b"<html>"]
    for answer in answers:
        api, sent = _zabbix(module, answer)
        seen.append(seen_of(partial(api.send_api_request, "host.get", {"output": "ä"}, need_auth=False)))
        body = json.loads(sent[0])
        assert isinstance(body.pop("id"), str)
        seen.append(body)
    return seen


def hot_zabbix_utils(module: Any) -> Hot:
    def call(answer: Any) -> Callable[[], object]:
        def work() -> object:
            api, _ = _zabbix(module, answer)
            return api.send_api_request("host.get", {"output": "extend"}, need_auth=False)

        return work

    return {"call, small": call(SMALL), "call, 10 kB": call(LARGE)}


# pylspclient: a client of language servers on pipes, which hands over dicts


def _pylspclient(module: Any, *values: Any) -> tuple[Any, io.BytesIO]:
    written = io.BytesIO()
    wire = b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(text(value)), text(value)) for value in values)
    return module.JsonRpcEndpoint(written, io.BytesIO(wire)), written


def drive_pylspclient(module: Any) -> Seen:
    endpoint, written = _pylspclient(module, SMALL, LARGE, ERROR, NOTE, {**SMALL, "result": None})
    seen = [endpoint.recv_response() for _ in range(6)]
    position = types.SimpleNamespace(line=1, character=2)
    call = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": {"position": position}}
    for message in (call, {**SMALL, "error": None}, {**NOTE, "params": None}):
        written.seek(0)
        written.truncate()
        endpoint.send_request(message)
        head, _, body = written.getvalue().partition(b"\r\n\r\n")
        seen.append([int(head.removeprefix(b"Content-Length: ")) == len(body), json.loads(body)])
    bad = module.JsonRpcEndpoint(None, io.BytesIO(b"Content-Length: 1\r\n\r\n{"))
    try:
        bad.recv_response()
    except ValueError:
        seen.append("ValueError")
    return seen


def hot_pylspclient(module: Any) -> Hot:
    def read(value: Any) -> Callable[[], object]:
        endpoint, _ = _pylspclient(module, value)

        def work() -> object:
            endpoint.stdout.seek(0)
            return endpoint.recv_response()

        return work

    endpoint, written = _pylspclient(module)
    message = {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"objects": [ITEM]}}

    def write() -> None:
        written.seek(0)
        endpoint.send_request(message)

    return {"read small": read(SMALL), "read notification": read(NOTE), "read 10 kB": read(LARGE), "write": write}


# robotframework-lsp: the streams of its language servers, and of a server of file changes that is no JSON-RPC


def _robocorp(module: Any, wire: bytes) -> Seen:
    queue: Seen = []
    taken = types.SimpleNamespace(put=queue.append)
    module._JsonRpcStreamReaderThread(io.BytesIO(wire), taken, queue.append).run()
    return queue


def _written(module: Any, values: list[Any]) -> Seen:
    """Return what a writer of streams writes: each header, and the JSON behind it."""
    seen: Seen = []
    for value in values:
        file = io.BytesIO()
        module.JsonRpcStreamWriter(file, sort_keys=True).write(value)
        head, _, body = file.getvalue().partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}" in head.decode().splitlines()
        seen.append([head.count(b"\r\n"), list(json.loads(body).items())])
    return seen


def _write(module: Any, value: Any) -> Callable[[], object]:
    file = io.BytesIO()
    writer = module.JsonRpcStreamWriter(file, sort_keys=True)

    def work() -> None:
        file.seek(0)
        writer.write(value)

    return work


_LSP_CALL: Final = {"jsonrpc": "2.0", "id": "a", "method": "open", "params": {"uri": "/a", "z": (1, None), "b": 1}}


def drive_robotframework_lsp(module: Any) -> Seen:
    command = {"command": "on_change", "on_change_id": "1", "src_path": "/ü"}
    values = [SMALL, LARGE, ERROR, NOTE, command, {"id": "x", "method": "no version"}, {**NOTE, "method": "exit"}]
    return [_robocorp(module, _framed(values)), _written(module, [_LSP_CALL, LARGE, ERROR, NOTE, command])]


def hot_robotframework_lsp(module: Any) -> Hot:
    small, large = _framed([SMALL, NOTE] * 10), _framed([LARGE] * 20)
    return {
        "read 20 small": lambda: _robocorp(module, small),
        "read 20 x 10 kB": lambda: _robocorp(module, large),
        "write": _write(module, _LSP_CALL),
        "write 10 kB": _write(module, LARGE),
    }


# python-jsonrpc-server: the streams of language servers, with ujson


def _pyls(module: Any, wire: bytes) -> Seen:
    heard: Seen = []
    module.JsonRpcStreamReader(io.BytesIO(wire)).listen(heard.append)
    return heard


def drive_python_jsonrpc_server(module: Any) -> Seen:
    wire = _framed([SMALL, LARGE]) + b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{1"
    wire += _framed([ERROR, NOTE, {"id": 1, "method": "m"}])
    return [_pyls(module, wire), _written(module, [_LSP_CALL, LARGE])]


def hot_python_jsonrpc_server(module: Any) -> Hot:
    small, large = _framed([SMALL, NOTE] * 10), _framed([LARGE] * 20)
    return {
        "read 20 small": lambda: _pyls(module, small),
        "read 20 x 10 kB": lambda: _pyls(module, large),
        "write": _write(module, _LSP_CALL),
        "write 10 kB": _write(module, LARGE),
    }


# tinyrpc: servers and clients over any transport, with objects of its own


def _tinyrpc(module: Any, kind: str, data: bytes) -> Any:
    protocol = module.JSONRPCProtocol()
    protocol._pending_replies = [7]
    return getattr(protocol, f"parse_{kind}")(data)


def drive_tinyrpc(module: Any) -> Seen:
    # Left out: a reply with neither result nor error, which the original takes for a result of None.
    def read(kind: str, value: Any) -> Any:
        return fields(_tinyrpc(module, kind, text(value)))

    def fields(found: Any) -> Any:
        if isinstance(found, list):
            return [fields(each) for each in found]
        return {"class": type(found).__name__, **{name: value for name, value in vars(found).items() if name[0] != "_"}}

    calls: list[Any] = [
        NOTE,
        {**_LSP_CALL, "params": [1]},
        {**NOTE, "params": 5},
        {"method": "m"},
        {**NOTE, "extra": 1},
        5,
        [],
    ]
    replies: list[Any] = [SMALL, LARGE, ERROR, [SMALL, 5, ERROR], {**SMALL, "id": 8}, []]
    seen = [seen_of(partial(read, "request", call)) for call in [*calls, calls[:-1]]]
    seen += [seen_of(partial(read, "reply", reply)) for reply in replies]
    request = _tinyrpc(module, "request", text(_LSP_CALL))
    answers = [request, request.respond({"a": (1, "ü")}), request.error_respond(ValueError("no", {"b": 1}))]
    return [*seen, *(json.loads(each.serialize()) for each in answers)]


def hot_tinyrpc(module: Any) -> Hot:
    call, batch, small, large = text(_LSP_CALL), text([_LSP_CALL] * 100), text(SMALL), text(LARGE)
    request = _tinyrpc(module, "request", call)
    answer = request.respond([ITEM])
    return {
        "parse a request": lambda: _tinyrpc(module, "request", call),
        "parse 100 requests": lambda: _tinyrpc(module, "request", batch),
        "parse a reply": lambda: _tinyrpc(module, "reply", small),
        "parse 10 kB": lambda: _tinyrpc(module, "reply", large),
        "serialize a request": request.serialize,
        "serialize a response": answer.serialize,
    }


MODULES: Final = {
    "snapcast": "snapcast.control.protocol",
    "moonraker-api": "moonraker_api.websockets.websocketclient",
    "jsonrpc-base": "jsonrpc_base.jsonrpc",
    "multilspy": "multilspy.lsp_protocol_handler.server",
    "e-x": "electrumx.server.daemon",
    "aioshelly": "aioshelly.rpc_device.wsrpc",
    "aria2p": "aria2p._internal.client",
    "zabbix_utils": "zabbix_utils.api",
    "pylspclient": "pylspclient.json_rpc_endpoint",
    "robotframework-lsp": "robocorp_ls_core.jsonrpc.streams",
    "python-jsonrpc-server": "pyls_jsonrpc.streams",
    "tinyrpc": "tinyrpc.protocols.jsonrpc",
}
"""The module that a port changes, by project."""
