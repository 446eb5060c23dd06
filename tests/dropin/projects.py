"""The projects, and what a port changes in each: names of things in their sources, and lines of this project's own."""

from __future__ import annotations

from typing import Final, NamedTuple


class Edit(NamedTuple):
    """A change in one file: everything from `first` to `last` becomes `new`.

    Attributes:
        path: The file, relative to the project's sources.
        first: The beginning of what is replaced. It is in the file once, unless `everywhere`.
        new: What takes its place.
        last: The end of what is replaced: the first place behind `first`; "": only `first` is replaced.
        everywhere: Each `first` is replaced.
    """

    path: str
    first: str
    new: str
    last: str = ""
    everywhere: bool = False


class Project(NamedTuple):
    """A project.

    Attributes:
        name: Its name on PyPI.
        version: The release to which the edits apply.
        folder: Where its packages are, in the sources.
        requires: What its tests need besides its own requirements.
        tests: The arguments of pytest for its tests; () if its source distribution has none.
        edits: The port.
    """

    name: str
    version: str
    folder: str
    edits: tuple[Edit, ...]
    requires: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


_SNAPCAST: Final = "snapcast/control/protocol.py"
_MOONRAKER: Final = "moonraker_api/websockets/websocketclient.py"
_BASE: Final = "jsonrpc_base/jsonrpc.py"
_MULTILSPY: Final = "src/multilspy/lsp_protocol_handler/server.py"
_DAEMON: Final = "src/electrumx/server/daemon.py"
_SHELLY: Final = "aioshelly/rpc_device/wsrpc.py"
_SHELLY_JSON: Final = "aioshelly/json.py"
_ARIA: Final = "src/aria2p/_internal/client.py"
_PYLSPCLIENT: Final = "pylspclient/json_rpc_endpoint.py"
_ROBOCORP: Final = "robotframework_ls/vendored/robocorp_ls_core/jsonrpc/streams.py"
_PYLS: Final = "pyls_jsonrpc/streams.py"
_TINYRPC: Final = "tinyrpc/protocols/jsonrpc.py"

PROJECTS: Final = (
    Project(
        "snapcast",
        "2.3.8",
        ".",
        (
            Edit(_SNAPCAST, "import json\n", ""),
            Edit(
                _SNAPCAST,
                "import threading\n",
                "import threading\n\nfrom jsonrpc_fast import CLIENT, Decoder, ParseError, encode_request\n",
            ),
            Edit(
                _SNAPCAST,
                "    return '{}",
                "    return encode_request(identifier, method, params or {})\n",
                ".encode()\n",
            ),
            Edit(
                _SNAPCAST,
                "self._data_buffer = ''\n        self._next",
                "self._decoder = Decoder(profile=CLIENT)\n        self._next",
            ),
            Edit(
                _SNAPCAST,
                "        self._data_buffer += ",
                "        for item in self._decoder.feed(data):\n"
                "            for message in item if isinstance(item, list) else [item]:\n"
                "                self.handle_data(message)\n",
                "self.handle_data(item)\n",
            ),
            Edit(
                _SNAPCAST,
                "        if 'id' in data:",
                "        if isinstance(data, ParseError):\n"
                "            error = {'code': data.rpc_code, 'message': str(data)}\n"
                "            self.handle_response({'id': data.id, 'error': error})\n"
                "        elif hasattr(data, 'method'):\n"
                "            self.handle_notification(data.to_dict())\n"
                "        else:\n"
                "            self.handle_response(data.to_dict())\n",
                "self.handle_notification(data)\n",
            ),
        ),
    ),
    Project(
        "moonraker-api",
        "4.0.0",
        ".",
        (
            Edit(_MOONRAKER, "import json\n", ""),
            Edit(
                _MOONRAKER,
                "from async_timeout ",
                "from jsonrpc_fast import CLIENT, ParseError, Response, decode, encode_request\nfrom async_timeout ",
            ),
            Edit(
                _MOONRAKER,
                '        req = {"jsonrpc"',
                "        return tx_id, encode_request(tx_id, method, kwargs or None, delimited=False)\n",
                "return tx_id, req\n",
            ),
            Edit(_MOONRAKER, "message.json()", "decode(message.data, CLIENT)"),
            Edit(
                _MOONRAKER,
                '                res_id = msgobj.get("id")',
                "                if isinstance(msgobj, (Response, ParseError)):\n"
                "                    req = self._requests.get(msgobj.id)\n"
                "                    if req and isinstance(msgobj, ParseError):\n"
                '                        req.set_result({"error": {"code": msgobj.rpc_code, "message": str(msgobj)}})\n'
                "                    elif req and msgobj.is_error:\n"
                '                        req.set_result({"error": msgobj.error.to_dict()})\n'
                "                    elif req:\n"
                "                        req.set_result(msgobj.result)\n"
                "                    continue\n",
                'req.set_result({"error": msgobj["error"]})\n',
            ),
            Edit(
                _MOONRAKER,
                '                if msgobj.get("method")',
                "                self._create_task(self.listener.on_notification(msgobj.method, msgobj.params))\n",
                "on_notification(method, params))\n",
            ),
            Edit(_MOONRAKER, "json.dumps(request.request)", "request.request.decode()"),
        ),
    ),
    Project(
        "jsonrpc-base",
        "2.2.0",
        ".",
        (
            Edit(_BASE, "import json\n", "import jsonrpc_fast\n"),
            # What it reads are dicts, which it judges by three `in`: `parse` would check more, and take longer.
            Edit(
                _BASE,
                "        data = {'jsonrpc': '2.0', 'method'",
                "        params = self.params or None\n"
                "        if self.msg_id is None:\n"
                "            text = jsonrpc_fast.encode_notification(self.method, params, delimited=False)\n"
                "        else:\n"
                "            text = jsonrpc_fast.encode_request(self.msg_id, self.method, params, delimited=False)\n"
                "        return text.decode()\n",
                "return json.dumps(data)\n",
            ),
            Edit(
                _BASE,
                "        data = {'jsonrpc': '2.0', 'id'",
                "        if self.error is not None:\n"
                "            text = jsonrpc_fast.encode_error(self.request.msg_id, **self.error, delimited=False)\n"
                "        else:\n"
                "            text = jsonrpc_fast.encode_result(self.request.msg_id, self.result, delimited=False)\n"
                "        return text.decode()\n",
                "return json.dumps(data)\n",
            ),
        ),
    ),
    Project(
        "multilspy",
        "0.1.1",
        "src",
        (
            Edit(
                _MULTILSPY,
                "import psutil\n",
                "import psutil\nfrom jsonrpc_fast import LSP, Decoder, ParseError, encode_dict\n"
                "from jsonrpc_fast.framing import frame\n",
            ),
            Edit(
                _MULTILSPY,
                "    body = json.dumps(",
                '    return [frame(encode_dict(payload, PROFILE, delimited=False), "content-length")]\n',
                "        body,\n    )\n",
            ),
            Edit(_MULTILSPY, 'CONTENT_LENGTH = "Content-Length: "\n', "PROFILE = LSP.replace(null_members=True)\n"),
            Edit(_MULTILSPY, "def content_length(", "", "    return None\n"),
            Edit(
                _MULTILSPY,
                "            while self.process and self.process.stdout and not",
                '            decoder = Decoder(framing="content-length", profile=PROFILE, resync=True)\n'
                "            while self.process and self.process.stdout:\n"
                "                data = await self.process.stdout.read(65536)\n"
                "                if not data:\n"
                "                    break\n"
                "                for message in decoder.feed(data):\n"
                "                    if isinstance(message, ParseError):\n"
                '                        self._log(f"malformed message: {message}")\n'
                "                        continue\n"
                "                    self.tasks[self.task_counter] = asyncio.get_event_loop().create_task(\n"
                "                        self._receive_payload(message.to_dict())\n"
                "                    )\n"
                "                    self.task_counter += 1\n",
                "                self.task_counter += 1\n",
            ),
            Edit(_MULTILSPY, "    async def _handle_body(", "", 'self._log(f"malformed JSON: {ex}")\n'),
            Edit(_MULTILSPY, "import json\n", ""),
        ),
    ),
    Project(
        "e-x",
        "2.0.0",
        "src",
        (
            Edit(_DAEMON, "json_deserialize,\n", ""),
            Edit(_DAEMON, "json_serialize, pack", "pack"),
            Edit(
                _DAEMON,
                "from electrumx.lib.hash import",
                "from jsonrpc_fast import CLIENT, decode_dict, encode_dict\nfrom electrumx.lib.hash import",
            ),
            Edit(
                _DAEMON,
                "resp.json(loads=json_deserialize)",
                "resp.json(loads=lambda text: decode_dict(text, CLIENT))",
            ),
            Edit(_DAEMON, "json_serialize(payload)", "encode_dict(payload, CLIENT, delimited=False).decode()"),
        ),
        ("pytest", "pytest-asyncio"),
        ("tests/server/test_daemon.py",),
    ),
    Project(
        "aioshelly",
        "13.35.0",
        ".",
        (
            Edit(
                _SHELLY_JSON,
                "import orjson\n",
                "import orjson\nfrom jsonrpc_fast import CLIENT, encode_dict\n",
            ),
            Edit(
                _SHELLY_JSON,
                '    """Dump json bytes."""\n    return orjson.dumps(\n        data,\n',
                '    """Dump json bytes."""\n    return encode_dict(\n        data,\n'
                "        profile=CLIENT,\n        delimited=False,\n",
            ),
            Edit(_SHELLY, "from yarl import", "from jsonrpc_fast import CLIENT, decode_dict\nfrom yarl import"),
            Edit(
                _SHELLY, "data: dict[str, Any] = json_loads(msg.data)", "return decode_dict(msg.data, profile=CLIENT)"
            ),
            Edit(_SHELLY, "        return data\n\n    if msg.type in", "\n    if msg.type in"),
            # The fault says what is wrong, and where, without the text.
            Edit(_SHELLY, "            payload = msg.data\n", "", 'errors="replace")\n'),
            Edit(_SHELLY, "invalid JSON: {payload}", "invalid JSON: {err}"),
        ),
    ),
    Project(
        "aria2p",
        "0.12.3",
        "src",
        (
            Edit(_ARIA, "\nimport json\n", "\n"),
            Edit(
                _ARIA,
                "from loguru import",
                "from jsonrpc_fast import CLIENT, decode_dict, encode_dict\nfrom loguru import",
            ),
            Edit(
                _ARIA,
                "        payload: str = json.dumps(payloads)\n        responses = self.post(payload)\n",
                "        responses = self.post(encode_dict(payloads, CLIENT, delimited=False).decode())\n",
            ),
            Edit(
                _ARIA,
                "return json.dumps(payload) if",
                "return encode_dict(payload, CLIENT, delimited=False).decode() if",
            ),
            # The exchange pairs a response: some servers leave its id out.
            Edit(
                _ARIA,
                "        return requests.post(self.server, data=payload, timeout=self.timeout).json()",
                "        response = requests.post(self.server, data=payload, timeout=self.timeout)\n"
                "        return decode_dict(response.content, CLIENT.replace(missing_ids=True))",
            ),
            Edit(_ARIA, "json.loads(message)", "decode_dict(message, CLIENT)"),
        ),
        ("pytest", "pytest-xdist", "psutil", "fastapi", "uvicorn", "requests", "responses"),
        ("tests", "-n", "2"),
    ),
    Project(
        "zabbix_utils",
        "2.0.4",
        ".",
        tuple(
            edit
            for module, timeout in (("api", ", timeout=self.timeout"), ("aioapi", ""))
            for edit in (
                Edit(
                    f"zabbix_utils/{module}.py",
                    "import json\n",
                    "import json\nfrom jsonrpc_fast import CLIENT, decode_dict, encode_dict\n",
                ),
                Edit(
                    f"zabbix_utils/{module}.py",
                    'json.dumps(request_json).encode("utf-8")',
                    "encode_dict(request_json, delimited=False)",
                ),
                Edit(
                    f"zabbix_utils/{module}.py",
                    "            resp = ul.urlopen(",
                    f"            resp_json = decode_dict(ul.urlopen(req, context=ctx{timeout}).read(), CLIENT)\n",
                    "json.loads(resp.read().decode('utf-8'))\n",
                ),
            )
        ),
    ),
    Project(
        "pylspclient",
        "0.1.2",
        ".",
        (
            Edit(_PYLSPCLIENT, "import json\n", "from jsonrpc_fast import LSP, decode_dict, encode_dict\n"),
            Edit(_PYLSPCLIENT, "import threading\n", "from jsonrpc_fast.framing import frame\nimport threading\n"),
            Edit(
                _PYLSPCLIENT,
                "JSON_RPC_REQ_FORMAT = ",
                "PROFILE = LSP.replace(null_members=True)\n",
                '{json_string}"\n',
            ),
            Edit(_PYLSPCLIENT, "class MyEncoder(", "", "return o.__dict__ \n\n\n"),
            Edit(_PYLSPCLIENT, "    @staticmethod\n    def __add_header(", "", "json_string=json_string)\n\n\n"),
            Edit(
                _PYLSPCLIENT,
                "        json_string = json.dumps(",
                "        body = encode_dict(message, PROFILE, delimited=False, default=vars)\n"
                '        jsonrpc_req = frame(body, "content-length")\n',
                "__add_header(json_string)\n",
            ),
            Edit(_PYLSPCLIENT, "jsonrpc_req.encode()", "jsonrpc_req"),
            Edit(
                _PYLSPCLIENT,
                "            jsonrpc_res = ",
                "            return decode_dict(self.stdout.read(message_size), PROFILE)\n",
                "return json.loads(jsonrpc_res)\n",
            ),
        ),
    ),
    Project(
        "robotframework-lsp",
        "1.13.0",
        "robotframework_ls/vendored",
        (
            Edit(
                _ROBOCORP,
                "import json\n",
                "import json\nfrom jsonrpc_fast import CLIENT, ParseError, decode_dict, encode_dict\n",
            ),
            Edit(_ROBOCORP, "from typing import Optional\n", "from typing import Iterator\n"),
            Edit(
                _ROBOCORP,
                "from robocorp_ls_core.options import",
                "from jsonrpc_fast.framing import FrameReader, frame\nfrom robocorp_ls_core.options import",
            ),
            Edit(
                _ROBOCORP,
                "def read(stream)",
                "def read(stream) -> Iterator[bytes]:\n"
                '    """Yield the messages of the stream."""\n'
                '    frames = FrameReader("content-length")\n'
                "    while not stream.closed and (data := stream.read1(65536)):\n"
                "        for found in frames.feed(data):\n"
                "            if found.fault is not None:\n"
                '                raise RuntimeError("Invalid header: {}.".format(found.hint))\n'
                "            yield found.text\n"
                '    log.debug("Read: None")\n'
                "\n\n"
                "def loads(data: bytes):\n"
                "    try:\n"
                "        return decode_dict(data, CLIENT)\n"
                "    except ParseError:  # the commands of the file observer are no JSON-RPC\n"
                "        return json.loads(data)\n",
                "(just keep on going).\n",
            ),
            Edit(
                _ROBOCORP,
                "            while not self._rfile.closed:\n",
                "            for data in read(self._rfile):\n",
                "                    return\n\n",
            ),
            Edit(_ROBOCORP, "json.loads(data)\n                except", "loads(data)\n                except"),
            Edit(_ROBOCORP, "**json_dumps_args", "sort_keys=False"),
            Edit(_ROBOCORP, "self._json_dumps_args = json_dumps_args", "self._sort_keys = sort_keys"),
            Edit(
                _ROBOCORP,
                "                body = json.dumps(",
                '                if isinstance(message, dict) and "command" in message:\n'
                "                    body = json.dumps(message, sort_keys=self._sort_keys).encode()\n"
                "                else:\n"
                "                    option = 32 * self._sort_keys  # orjson.OPT_SORT_KEYS\n"
                "                    body = encode_dict(message, CLIENT, option=option)\n"
                "                stream = self._wfile\n"
                '                stream.write(frame(body, "content-length"))\n',
                "stream.write(as_bytes)\n",
            ),
        ),
    ),
    Project(
        "python-jsonrpc-server",
        "0.4.0",
        ".",
        (
            Edit(
                _PYLS,
                "try:\n    import ujson",
                "from jsonrpc_fast import CLIENT, decode_dict, encode_dict\n"
                "from jsonrpc_fast.framing import FrameReader\n",
                "    import json\n",
            ),
            Edit(
                _PYLS,
                "        while not self._rfile.closed:\n",
                '        frames = FrameReader("content-length", resync=True)\n'
                "        while not self._rfile.closed:\n"
                "            try:\n"
                "                data = self._rfile.read1(65536)\n"
                "            except ValueError:  # closed by another thread\n"
                "                return\n"
                "            if not data:\n"
                "                break\n"
                "            for frame in frames.feed(data):\n"
                "                if frame.fault is not None:\n"
                '                    log.error("Failed to read from rfile: %s", frame.fault.name)\n'
                "                    continue\n"
                "                try:\n"
                "                    message_consumer(decode_dict(frame.text, CLIENT))\n"
                "                except ValueError:\n"
                '                    log.exception("Failed to parse JSON message %s", frame.text)\n',
                "        return None\n\n\n",
            ),
            Edit(_PYLS, "**json_dumps_args", "sort_keys=False"),
            Edit(
                _PYLS,
                "self._json_dumps_args = json_dumps_args",
                "self._option = 32 if sort_keys else 0  # orjson.OPT_SORT_KEYS",
            ),
            Edit(
                _PYLS,
                "                body = json.dumps(",
                "                body = encode_dict(message, CLIENT, delimited=False, option=self._option)\n"
                "                self._wfile.write(\n"
                '                    b"Content-Length: %d\\r\\n"\n'
                '                    b"Content-Type: application/vscode-jsonrpc; charset=utf8\\r\\n\\r\\n"\n'
                '                    b"%b" % (len(body), body)\n'
                "                )\n",
                "response.encode('utf-8'))\n",
            ),
        ),
        ("pytest", "pytest-cov", "mock"),
        ("test",),
    ),
    Project(
        "tinyrpc",
        "1.1.7",
        ".",
        (
            Edit(_TINYRPC, "import json\nimport sys\n", "import sys\n"),
            Edit(
                _TINYRPC,
                "from . import default_id_generator\n",
                "from jsonrpc_fast import (\n"
                "    JSONRPC, UNSET, Notification, ParseError, ParseErrorCode, Response, decode, encode_dict,\n"
                ")\n"
                "from . import default_id_generator\n",
            ),
            Edit(_TINYRPC, "json_dumps = jsonext.dumps", "default = jsonext.JSONEncoder().default"),
            Edit(
                _TINYRPC,
                "    json_dumps = json.dumps\n",
                "    default = None\n\n"
                "RULES = JSONRPC.replace(extra_members=False, null_members=True)\n\n\n"
                "def json_dumps(message) -> bytes:\n"
                "    return encode_dict(message, RULES, delimited=False, default=default)\n",
            ),
            Edit(_TINYRPC, "(self._to_dict()).encode()", "(self._to_dict())", everywhere=True),
            Edit(_TINYRPC, "for req in self]).encode()", "for req in self])"),
            Edit(_TINYRPC, "        ]).encode()", "        ])"),
            Edit(_TINYRPC, "    _ALLOWED_REPLY_KEYS = ", "", "'method', 'params'])\n\n"),
            Edit(
                _TINYRPC,
                "            rep = json.loads(",
                "",
                "raise InvalidReplyError(e)\n\n",
            ),
            Edit(
                _TINYRPC,
                "            req = json.loads(",
                "",
                "raise JSONRPCParseError()\n\n",
            ),
            Edit(
                _TINYRPC,
                "        if isinstance(data, bytes):\n            data = data.decode()\n\n        try:\n",
                "        message = decode(data, RULES)\n",
                everywhere=True,
            ),
            Edit(_TINYRPC, "(rep, list)", "(message, list)"),
            Edit(_TINYRPC, "(req, list)", "(message, list)"),
            Edit(_TINYRPC, "in rep:\n                try", "in message:\n                try"),
            Edit(_TINYRPC, "in req:\n                try", "in message:\n                try"),
            Edit(
                _TINYRPC,
                "                except Exception as e:\n                    replies",
                "            return replies\n",
                "            return replies\n",
            ),
            Edit(
                _TINYRPC,
                "                except Exception as e:\n                    requests",
                "            return requests\n",
                "            return requests\n",
            ),
            Edit(_TINYRPC, "_parse_subreply(rep)\n\n", "_parse_subreply(message)\n\n"),
            Edit(_TINYRPC, "_parse_subrequest(req)\n\n", "_parse_subrequest(message)\n\n"),
            Edit(
                _TINYRPC,
                "        for k in rep.keys():\n",
                "        if not isinstance(rep, Response):\n"
                "            raise InvalidReplyError(rep)\n\n"
                "        if rep.is_error:\n"
                "            response = JSONRPCErrorResponse()\n"
                "            response.error = rep.error.message\n"
                "            response._jsonrpc_error_code = rep.error.code\n"
                "            if rep.error.data is not UNSET:\n"
                "                response.data = rep.error.data\n"
                "        else:\n"
                "            response = JSONRPCSuccessResponse()\n"
                "            response.result = rep.result\n\n"
                "        response.unique_id = rep.id\n",
                "response.unique_id = rep['id']\n",
            ),
            Edit(
                _TINYRPC,
                "        if not isinstance(req, dict):\n",
                "        if isinstance(req, ParseError):\n"
                "            if req.rpc_code == JSONRPCParseError.jsonrpc_error_code:\n"
                "                raise JSONRPCParseError()\n"
                "            if req.code is ParseErrorCode.INVALID_PARAMS_TYPE:\n"
                "                raise JSONRPCInvalidParamsError(request_id=req.id)\n"
                "        if isinstance(req, (ParseError, Response)):\n"
                "            raise JSONRPCInvalidRequestError(request_id=req.id)\n\n"
                "        request = self.request_factory()\n\n"
                "        request.method = req.method\n"
                "        request.one_way = isinstance(req, Notification)\n"
                "        if not request.one_way:\n"
                "            request.unique_id = req.id\n\n"
                "        if isinstance(req.params, list):\n"
                "            request.args = req.params\n"
                "        elif req.params is not None:\n"
                "            request.kwargs = req.params\n",
                'raise JSONRPCInvalidParamsError(request_id=req.get("id"))\n',
            ),
        ),
        ("pytest", "gevent", "msgpack", "pika", "pyzmq", "requests", "six", "werkzeug"),
        ("tests",),
    ),
)
