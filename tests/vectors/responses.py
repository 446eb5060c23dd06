"""Responses: `result`, `error`, and a missing id."""

from __future__ import annotations

from ..support.describe import error, fault, fill, result
from .vector import vector

RESPONSES = [
    vector(
        "result and error",
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        fault("RESULT_AND_ERROR", 1, reply=False),
    ),
    vector(
        "result and null error",
        '{"jsonrpc":"2.0","id":1,"result":{},"error":null}',
        fault("RESULT_AND_ERROR", 1, reply=False),
        lenient=result(1, {}),
        jsonrpc_1=result(1, {}),
    ),
    vector(
        "null result and null error",
        '{"jsonrpc":"2.0","id":1,"result":null,"error":null}',
        fault("RESULT_AND_ERROR", 1, reply=False),
        lenient=result(1, None),
        jsonrpc_1=result(1, None),
    ),
    vector(
        "null result and error",
        '{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"e"}}',
        fault("RESULT_AND_ERROR", 1, reply=False),
        lenient=error(1, 1, "e"),
        jsonrpc_1=error(1, 1, "e"),
    ),
    vector("null error alone", '{"jsonrpc":"2.0","id":1,"error":null}', fault("INVALID_ERROR_TYPE", 1, reply=False)),
    vector("result without id", '{"jsonrpc":"2.0","result":{}}', fault("MISSING_ID", reply=False)),
    vector("null result without id", '{"jsonrpc":"2.0","result":null}', fault("MISSING_ID", reply=False)),
    vector(
        "error without id",
        '{"jsonrpc":"2.0","error":{"code":1,"message":"e","data":null}}',
        fault("MISSING_ID", reply=False),
        mcp_2025_11_25=error(None, 1, "e", [None]),
    ),
    vector("both without id", '{"jsonrpc":"2.0","result":1,"error":1}', fault("MISSING_ID", reply=False)),
    vector(
        "result with id null",
        '{"jsonrpc":"2.0","id":null,"result":{}}',
        result(None, {}),
        mcp=fault("INVALID_ID_TYPE", reply=False),
    ),
    vector(
        "error with id null",
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
        error(None, -32700, "Parse error"),
    ),
    vector("result object", '{"jsonrpc":"2.0","id":1,"result":{"a":[1.5]}}', result(1, {"a": [1.5]})),
    *(
        vector(
            f"result {text}",
            fill('{"jsonrpc":"2.0","id":1,"result":%s}', text),
            result(1, value),
            mcp=fault("INVALID_RESULT_TYPE", 1, reply=False),
        )
        for text, value in (
            ("null", None),
            ("false", False),
            ("true", True),
            ("0", 0),
            ("1.5", 1.5),
            ('""', ""),
            ('"a"', "a"),
            ("[]", []),
            ("[{}]", [{}]),
        )
    ),
    *(
        vector(
            f"error {text}",
            fill('{"jsonrpc":"2.0","id":1,"error":%s}', text),
            fault("INVALID_ERROR_TYPE", 1, reply=False),
        )
        for text in ("true", "false", "0", "1.5", '"e"', "[]", '[{"code":1,"message":""}]')
    ),
    *(
        vector(
            f"code {text}",
            fill('{"jsonrpc":"2.0","id":1,"error":{"code":%s,"message":"e"}}', text),
            fault("INVALID_ERROR_CODE", 1, reply=False),
        )
        for text in ("true", "false", "null", "1.5", "1.0", "1e2", '"5"', "[]", "{}")
    ),
    vector(
        "code missing", '{"jsonrpc":"2.0","id":1,"error":{"message":"e"}}', fault("INVALID_ERROR_CODE", 1, reply=False)
    ),
    vector("error empty", '{"jsonrpc":"2.0","id":1,"error":{}}', fault("INVALID_ERROR_CODE", 1, reply=False)),
    *(
        vector(
            f"message {text}",
            fill('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":%s}}', text),
            fault("INVALID_ERROR_MESSAGE", 1, reply=False),
        )
        for text in ("null", "true", "1", "1.5", "[]", "{}")
    ),
    vector(
        "message missing", '{"jsonrpc":"2.0","id":1,"error":{"code":1}}', fault("INVALID_ERROR_MESSAGE", 1, reply=False)
    ),
    *(
        vector(
            f"data {text}",
            fill('{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"","data":%s}}', text),
            error(1, 0, "", [value]),
        )
        for text, value in (("null", None), ("0", 0), ('""', ""), ("false", False), ("[]", []), ("{}", {}))
    ),
    vector("no data", '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"é"}}', error(1, -1, "é")),
    vector(
        "error with more members",
        '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","more":2}}',
        error(1, 1, ""),
    ),
]
