"""Requests and notifications: DESIGN section 3 from `jsonrpc` to `params`."""

from __future__ import annotations

from ..support.describe import error, fault, notification, request, result
from .vector import vector

VERSION = [
    vector("jsonrpc missing", '{"id":1,"method":"m"}', fault("MISSING_JSONRPC", 1), jsonrpc_1=request(1, "m")),
    vector("jsonrpc missing", '{"method":"m"}', fault("MISSING_JSONRPC", reply=False), jsonrpc_1=notification("m")),
    vector(
        "jsonrpc missing", '{"id":1,"result":{}}', fault("MISSING_JSONRPC", 1, reply=False), jsonrpc_1=result(1, {})
    ),
    vector("jsonrpc missing", "{}", fault("MISSING_JSONRPC"), jsonrpc_1=fault("MISSING_METHOD")),
    vector(
        "jsonrpc missing",
        '{"JSONRPC":"2.0","id":1,"method":"m"}',
        fault("MISSING_JSONRPC", 1),
        jsonrpc_1=request(1, "m"),
    ),
    vector(
        "a request of 1.0",
        '{"method":"echo","params":["a"],"id":1}',
        fault("MISSING_JSONRPC", 1),
        jsonrpc_1=request(1, "echo", ["a"]),
    ),
    vector(
        "a notification of 1.0",
        '{"method":"echo","params":["a"],"id":null}',
        fault("MISSING_JSONRPC"),
        jsonrpc_1=notification("echo", ["a"]),
    ),
    vector(
        "a result of 1.0",
        '{"result":"a","error":null,"id":1}',
        fault("MISSING_JSONRPC", 1, reply=False),
        jsonrpc_1=result(1, "a"),
    ),
    vector(
        "an error of 1.0",
        '{"result":null,"error":{"code":1,"message":"e"},"id":1}',
        fault("MISSING_JSONRPC", 1, reply=False),
        jsonrpc_1=error(1, 1, "e"),
    ),
    vector("jsonrpc 2.0", '{"jsonrpc":2.0,"id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc 2", '{"jsonrpc":2,"id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc 1.0", '{"jsonrpc":"1.0","id":"a","method":"m"}', fault("INVALID_JSONRPC_VERSION", "a")),
    vector("jsonrpc 2", '{"jsonrpc":"2","id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc longer", '{"jsonrpc":"2.00","id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc spaced", '{"jsonrpc":" 2.0","id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc empty", '{"jsonrpc":"","id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc null", '{"jsonrpc":null,"id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc true", '{"jsonrpc":true,"method":"m"}', fault("INVALID_JSONRPC_VERSION", reply=False)),
    vector("jsonrpc array", '{"jsonrpc":["2.0"],"id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc object", '{"jsonrpc":{"2.0":1},"id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc escaped", r'{"jsonrpc":"2\u002e0","id":1,"method":"m"}', request(1, "m")),
    vector("jsonrpc escaped", r'{"jsonrpc":"\u0032.0","method":"m"}', notification("m")),
    vector("jsonrpc escaped", r'{"jsonrpc":"2\u002e1","id":1,"method":"m"}', fault("INVALID_JSONRPC_VERSION", 1)),
    vector("jsonrpc name escaped", r'{"json\u0072pc":"2.0","id":1,"method":"m"}', request(1, "m")),
]


ID = [
    vector("id true", '{"jsonrpc":"2.0","id":true,"method":"m"}', fault("INVALID_ID_TYPE")),
    vector("id false", '{"jsonrpc":"2.0","id":false,"method":"m"}', fault("INVALID_ID_TYPE")),
    vector("id []", '{"jsonrpc":"2.0","id":[],"method":"m"}', fault("INVALID_ID_TYPE")),
    vector("id [1]", '{"jsonrpc":"2.0","id":[1],"method":"m"}', fault("INVALID_ID_TYPE")),
    vector("id {}", '{"jsonrpc":"2.0","id":{},"method":"m"}', fault("INVALID_ID_TYPE")),
    vector("id true", '{"jsonrpc":"2.0","id":true,"result":{}}', fault("INVALID_ID_TYPE", reply=False)),
    vector("id false", '{"jsonrpc":"2.0","id":false,"error":{}}', fault("INVALID_ID_TYPE", reply=False)),
    vector("id []", '{"jsonrpc":"2.0","id":[],"result":{}}', fault("INVALID_ID_TYPE", reply=False)),
    vector("id {}", '{"jsonrpc":"2.0","id":{}}', fault("INVALID_ID_TYPE")),
    vector(
        "id null in a request",
        '{"jsonrpc":"2.0","id":null,"method":"m"}',
        request(None, "m"),
        lsp=fault("INVALID_ID_TYPE"),
        mcp=fault("INVALID_ID_TYPE"),
    ),
    vector(
        "id 1.5",
        '{"jsonrpc":"2.0","id":1.5,"method":"m"}',
        request(1.5, "m"),
        lsp=fault("INVALID_ID_TYPE"),
        mcp=fault("INVALID_ID_TYPE"),
    ),
    vector(
        "id 1.5",
        '{"jsonrpc":"2.0","id":1.5,"result":{}}',
        result(1.5, {}),
        lsp=fault("INVALID_ID_TYPE", reply=False),
        mcp=fault("INVALID_ID_TYPE", reply=False),
    ),
    vector(
        "id with an exponent",
        '{"jsonrpc":"2.0","id":1e2,"method":"m"}',
        request(100.0, "m"),
        lsp=fault("INVALID_ID_TYPE"),
        mcp=fault("INVALID_ID_TYPE"),
    ),
    vector("id 0", '{"jsonrpc":"2.0","id":0,"method":"m"}', request(0, "m")),
    vector("id -1", '{"jsonrpc":"2.0","id":-1,"method":"m"}', request(-1, "m")),
    vector("id empty", '{"jsonrpc":"2.0","id":"","method":"m"}', request("", "m")),
    vector("id numeric", '{"jsonrpc":"2.0","id":"1","method":"m"}', request("1", "m")),
    vector("id text", '{"jsonrpc":"2.0","id":"é\\n😀","result":{}}', result("é\n😀", {})),
    vector("id escaped", r'{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"m"}', request("😀", "m")),
    vector("id name escaped", r'{"jsonrpc":"2.0","\u0069d":7,"method":"m"}', request(7, "m")),
    vector(
        "id 2^63 - 1",
        '{"jsonrpc":"2.0","id":9223372036854775807,"method":"m"}',
        request(9223372036854775807, "m"),
    ),
    vector(
        "id 2^64",
        '{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}',
        request(18446744073709551616, "m"),
        text_only=True,
    ),
    vector(
        "id -2^63 - 1",
        '{"jsonrpc":"2.0","id":-9223372036854775809,"result":{}}',
        result(-9223372036854775809, {}),
        text_only=True,
    ),
    vector(
        "id of 40 digits",
        '{"jsonrpc":"2.0","id":1234567890123456789012345678901234567890,"error":{"code":1,"message":""}}',
        error(1234567890123456789012345678901234567890, 1, ""),
        text_only=True,
    ),
    vector(
        "id that cannot be echoed",
        '{"jsonrpc":"2.0","id":12345678901234567.8,"method":"m"}',
        fault("INVALID_ID_TYPE"),
        text_only=True,
    ),
]


METHOD = [
    vector("neither", '{"jsonrpc":"2.0"}', fault("MISSING_METHOD")),
    vector("neither", '{"jsonrpc":"2.0","id":1}', fault("MISSING_METHOD", 1)),
    vector("neither", '{"jsonrpc":"2.0","id":1,"params":{}}', fault("MISSING_METHOD", 1)),
    vector("neither", '{"jsonrpc":"2.0","id":1,"Method":"m"}', fault("MISSING_METHOD", 1)),
    vector(
        "neither, id null",
        '{"jsonrpc":"2.0","id":null}',
        fault("MISSING_METHOD"),
        lsp=fault("INVALID_ID_TYPE"),
        mcp=fault("INVALID_ID_TYPE"),
    ),
    vector("method 1", '{"jsonrpc":"2.0","id":1,"method":1}', fault("INVALID_METHOD_TYPE", 1)),
    vector("method 1", '{"jsonrpc":"2.0","method":1}', fault("INVALID_METHOD_TYPE")),
    vector("method null", '{"jsonrpc":"2.0","id":"x","method":null}', fault("INVALID_METHOD_TYPE", "x")),
    vector("method true", '{"jsonrpc":"2.0","id":1,"method":true}', fault("INVALID_METHOD_TYPE", 1)),
    vector("method array", '{"jsonrpc":"2.0","id":1,"method":["m"]}', fault("INVALID_METHOD_TYPE", 1)),
    vector("method object", '{"jsonrpc":"2.0","id":1,"method":{}}', fault("INVALID_METHOD_TYPE", 1)),
    vector(
        "method empty",
        '{"jsonrpc":"2.0","id":1,"method":""}',
        request(1, ""),
        mcp=fault("EMPTY_METHOD", 1),
    ),
    vector(
        "method empty",
        '{"jsonrpc":"2.0","method":""}',
        notification(""),
        mcp=fault("EMPTY_METHOD", reply=False),
    ),
    vector("method rpc.*", '{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}', request(1, "rpc.discover")),
    vector("method rpc.*", '{"jsonrpc":"2.0","method":"rpc."}', notification("rpc.")),
    vector("method escaped", r'{"jsonrpc":"2.0","id":1,"method":"a\/\u00e9\n"}', request(1, "a/é\n")),
    vector("method name escaped", r'{"jsonrpc":"2.0","id":1,"m\u0065thod":"m"}', request(1, "m")),
    vector("method not ASCII", '{"jsonrpc":"2.0","method":"é😀"}', notification("é😀")),
]


PARAMS = [
    vector(
        "params null",
        '{"jsonrpc":"2.0","id":1,"method":"m","params":null}',
        fault("INVALID_PARAMS_TYPE", 1),
        lenient=request(1, "m"),
        lsp=request(1, "m"),
    ),
    vector(
        "params null",
        '{"jsonrpc":"2.0","method":"m","params":null}',
        fault("INVALID_PARAMS_TYPE", reply=False),
        lenient=notification("m"),
        lsp=notification("m"),
    ),
    vector("params string", '{"jsonrpc":"2.0","id":1,"method":"m","params":"a"}', fault("INVALID_PARAMS_TYPE", 1)),
    vector("params empty string", '{"jsonrpc":"2.0","id":1,"method":"m","params":""}', fault("INVALID_PARAMS_TYPE", 1)),
    vector("params number", '{"jsonrpc":"2.0","id":1,"method":"m","params":0}', fault("INVALID_PARAMS_TYPE", 1)),
    vector("params fraction", '{"jsonrpc":"2.0","id":1,"method":"m","params":1.5}', fault("INVALID_PARAMS_TYPE", 1)),
    vector("params true", '{"jsonrpc":"2.0","id":1,"method":"m","params":true}', fault("INVALID_PARAMS_TYPE", 1)),
    vector("params false", '{"jsonrpc":"2.0","method":"m","params":false}', fault("INVALID_PARAMS_TYPE", reply=False)),
    vector(
        "params array",
        '{"jsonrpc":"2.0","id":1,"method":"m","params":[1,"a",null]}',
        request(1, "m", [1, "a", None]),
        mcp=fault("INVALID_PARAMS_TYPE", 1),
    ),
    vector(
        "params empty array",
        '{"jsonrpc":"2.0","method":"m","params":[]}',
        notification("m", []),
        mcp=fault("INVALID_PARAMS_TYPE", reply=False),
    ),
    vector("params object", '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}', request(1, "m", {"a": 1})),
    vector("params empty object", '{"jsonrpc":"2.0","method":"m","params":{}}', notification("m", {})),
    vector("params absent", '{"jsonrpc":"2.0","id":1,"method":"m"}', request(1, "m", None)),
    vector(
        "params name escaped",
        r'{"jsonrpc":"2.0","id":1,"method":"m","p\u0061rams":{"a":"\u0062"}}',
        request(1, "m", {"a": "b"}),
    ),
]


AMBIGUOUS = [
    vector(
        "method and result",
        '{"jsonrpc":"2.0","id":1,"method":"m","result":{}}',
        fault("AMBIGUOUS_MESSAGE", 1, reply=False),
    ),
    vector(
        "method and error",
        '{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":""}}',
        fault("AMBIGUOUS_MESSAGE", 1, reply=False),
    ),
    vector(
        "method and null result",
        '{"jsonrpc":"2.0","id":1,"method":"m","result":null}',
        fault("AMBIGUOUS_MESSAGE", 1, reply=False),
    ),
    vector(
        "method and null error",
        '{"jsonrpc":"2.0","method":"m","error":null}',
        fault("AMBIGUOUS_MESSAGE", reply=False),
    ),
    vector(
        "method, result and error",
        '{"jsonrpc":"2.0","id":"x","method":"m","result":1,"error":1}',
        fault("AMBIGUOUS_MESSAGE", "x", reply=False),
    ),
]
