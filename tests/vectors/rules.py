"""The rules of DESIGN section 3, row by row: a text, and what each preset makes of it."""

from __future__ import annotations

from typing import NamedTuple

from ..describe import Description, error, fault, fill, notification, request, result, text_fault

PRESET_NAMES = (
    "jsonrpc",
    "lenient",
    "lsp",
    "mcp-2024-11-05",
    "mcp-2025-03-26",
    "mcp-2025-06-18",
    "mcp-2025-11-25",
    "mcp-2026-07-28",
)


class Vector(NamedTuple):
    """A text, what it is in each preset, and whether a dict made of it would show the same."""

    row: str
    text: bytes
    expected: dict[str, Description]
    text_only: bool


def vector(
    row: str,
    text: str | bytes,
    jsonrpc: Description,
    *,
    text_only: bool = False,
    lenient: Description | None = None,
    lsp: Description | None = None,
    mcp: Description | None = None,
    mcp_2025_03_26: Description | None = None,
    mcp_2025_11_25: Description | None = None,
) -> Vector:
    """What is not given is as in `jsonrpc`; a revision of MCP as in `mcp`; 2026-07-28 as in 2025-11-25."""
    mcp = mcp or jsonrpc
    newest = mcp_2025_11_25 or mcp
    expected = (jsonrpc, lenient or jsonrpc, lsp or jsonrpc, mcp, mcp_2025_03_26 or mcp, mcp, newest, newest)
    data = text if isinstance(text, bytes) else text.encode()
    return Vector(row, data, dict(zip(PRESET_NAMES, expected, strict=True)), text_only)


VERSION = [
    vector("jsonrpc missing", '{"id":1,"method":"m"}', fault("MISSING_JSONRPC", 1)),
    vector("jsonrpc missing", '{"method":"m"}', fault("MISSING_JSONRPC", reply=False)),
    vector("jsonrpc missing", '{"id":1,"result":{}}', fault("MISSING_JSONRPC", 1, reply=False)),
    vector("jsonrpc missing", "{}", fault("MISSING_JSONRPC")),
    vector("jsonrpc missing", '{"JSONRPC":"2.0","id":1,"method":"m"}', fault("MISSING_JSONRPC", 1)),
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

RESULT_OR_ERROR = [
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
    ),
    vector(
        "null result and null error",
        '{"jsonrpc":"2.0","id":1,"result":null,"error":null}',
        fault("RESULT_AND_ERROR", 1, reply=False),
        lenient=result(1, None),
    ),
    vector(
        "null result and error",
        '{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"e"}}',
        fault("RESULT_AND_ERROR", 1, reply=False),
        lenient=error(1, 1, "e"),
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

MEMBERS = [
    vector("unknown members", '{"a":1,"jsonrpc":"2.0","id":1,"method":"m","":{}}', request(1, "m")),
    vector("unknown members", '{"jsonrpc":"2.0","method":"m","code":1,"code":2}', notification("m")),
    vector("unknown members", '{"jsonrpc":"2.0","id":1,"result":{},"x":null}', result(1, {})),
    vector("params in a response", '{"jsonrpc":"2.0","id":1,"result":{},"params":1}', result(1, {})),
    vector("members in any order", '{"params":{},"method":"m","id":1,"jsonrpc":"2.0"}', request(1, "m", {})),
    vector("spacing", ' \t\r\n{ "jsonrpc"\n:\r"2.0"\t, "id" : 1 ,"method":"m" } \n', request(1, "m")),
    *(
        vector(f"duplicate {names}", text, fault("DUPLICATE_MEMBER", reply=reply), text_only=True)
        for names, text, reply in (
            ("jsonrpc", '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}', True),
            ("id", '{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}', True),
            ("id apart", '{"id":1,"jsonrpc":"2.0","method":"m","id":2}', True),
            ("method", '{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}', True),
            ("method, no id", '{"jsonrpc":"2.0","method":"m","method":"n"}', False),
            ("params", '{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}', True),
            ("result", '{"jsonrpc":"2.0","id":1,"result":{},"result":{}}', False),
            ("error", '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"error":null}', False),
            ("id escaped", r'{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"m"}', True),
            ("id escaped first", r'{"jsonrpc":"2.0","\u0069\u0064":1,"id":1,"method":"m"}', True),
            ("id escaped twice", r'{"jsonrpc":"2.0","i\u0064":1,"\u0069d":1,"method":"m"}', True),
            ("method in capitals", r'{"jsonrpc":"2.0","id":1,"\u006DETHOD":1,"\u006Dethod":"m","method":"n"}', True),
            ("params escaped", r'{"jsonrpc":"2.0","id":1,"method":"m","params":{},"param\u0073":{}}', True),
            ("result, spaced", '{"jsonrpc":"2.0","id":1,"result" :{}, "result"\n:{}}', False),
            ("thrice", '{"jsonrpc":"2.0","id":1,"id":2,"id":3,"method":"m"}', True),
        )
    ),
    vector(
        "duplicates inside",
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":1,"id":2}}',
        request(1, "m", {"id": 2}),
    ),
    vector("member names as values", '{"jsonrpc":"2.0","id":"id","method":"method"}', request("id", "method")),
    vector(
        "member names in a payload",
        '{"jsonrpc":"2.0","id":1,"result":{"id":1,"method":"m","error":{"result":"jsonrpc"}}}',
        result(1, {"id": 1, "method": "m", "error": {"result": "jsonrpc"}}),
    ),
    vector("member names in an unknown one", '{"x":{"id":2},"jsonrpc":"2.0","id":1,"method":"m"}', request(1, "m")),
    vector(
        "a name that begins like one",
        r'{"jsonrpc":"2.0","id":1,"id ":2,"i":3,"ids":4,"\u0000id":5,"id\u0000":6,"method":"m"}',
        request(1, "m"),
    ),
]

BATCH = [
    vector(
        "[]",
        "[]",
        fault("EMPTY_BATCH"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=fault("EMPTY_BATCH"),
    ),
    vector(
        "[ ]",
        " [ \n] ",
        fault("EMPTY_BATCH"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=fault("EMPTY_BATCH"),
    ),
    vector(
        "[1, {…}]",
        '[1,{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n","params":{}}]',
        [fault("NOT_AN_OBJECT", index=0), request(1, "m"), notification("n", {})],
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[fault("NOT_AN_OBJECT", index=0), request(1, "m"), notification("n", {})],
    ),
    vector(
        "a batch of nothing that is one",
        '["a",null,true,1.5,[],[{}],{}]',
        [
            *(fault("NOT_AN_OBJECT", index=index) for index in range(6)),
            fault("MISSING_JSONRPC", index=6),
        ],
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[
            *(fault("NOT_AN_OBJECT", index=index) for index in range(6)),
            fault("MISSING_JSONRPC", index=6),
        ],
    ),
    vector(
        "a batch of responses",
        '[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"2","error":{"code":1,"message":"e"}},'
        '{"jsonrpc":"2.0","id":3,"result":{},"error":{}}]',
        [result(1, {}), error("2", 1, "e"), fault("RESULT_AND_ERROR", 3, reply=False, index=2)],
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[result(1, {}), error("2", 1, "e"), fault("RESULT_AND_ERROR", 3, reply=False, index=2)],
    ),
    vector(
        "a duplicate member in a batch",
        '[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"id":2,"method":"m"}]',
        [request(1, "m"), fault("DUPLICATE_MEMBER", index=1)],
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[request(1, "m"), fault("DUPLICATE_MEMBER", index=1)],
        text_only=True,
    ),
    vector(
        "a wide id in a batch",
        '[{"jsonrpc":"2.0","id":18446744073709551617,"method":"m"}]',
        [request(18446744073709551617, "m")],
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[request(18446744073709551617, "m")],
        text_only=True,
    ),
    *(
        vector(f"{text} at the top", text, fault("NOT_AN_OBJECT"))
        for text in ("null", "true", "false", "0", "1.5", '"a"')
    ),
]

TEXT = [
    *(
        vector(repr(text), text, text_fault("MALFORMED_JSON", offset), text_only=True)
        for text, offset in (
            ('{"jsonrpc":"2.0","method":"m"', 29),
            ('{"jsonrpc":"2.0","method":"m"}}', 30),
            ('{"jsonrpc":"2.0","method":"m"} x', 31),
            ('{"jsonrpc":"2.0","method":"m"}{}', 30),
            ('{"jsonrpc":"2.0","method":"m",}', 30),
            ("{'jsonrpc':'2.0'}", 1),
            ('{"jsonrpc":"2.0","id":NaN,"method":"m"}', 22),
            ('{"jsonrpc":"2.0","id":Infinity,"method":"m"}', 22),
            ('{"jsonrpc":"2.0","id":-Infinity,"method":"m"}', 23),
            ('{"jsonrpc":"2.0","id":1e400,"method":"m"}', 22),
            ('{"jsonrpc":"2.0","id":1,"result":-1e400}', 33),
            ('{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}', 38),
            ('{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', 34),
            ('{"jsonrpc":"2.0","id":"\\udc00","method":"m"}', 23),
            ('{"jsonrpc":"2.0","id":1,"x":"\\ud800\\u0041"}', 29),
            ('{"jsonrpc":"2.0","id":1,"method":"a\tb"}', 35),
            ('{"jsonrpc":"2.0","id":1,"method":"a\nb"}', 35),
            ('{"jsonrpc":"2.0","id":1,"x":"\x00"}', 29),
            ('{"jsonrpc":"2.0","id":1,"m\x1fethod":"m"}', 26),
            ('\ufeff{"jsonrpc":"2.0","id":1,"method":"m"}', 0),
            ("", 0),
            (" ", 1),
            (" \t\r\n ", 5),
            ("[1,", 3),
            ("[1,]", 3),
            ("{", 1),
            ("x", 0),
        )
    ),
    *(
        vector(repr(text), text, text_fault("INVALID_UTF8", offset), text_only=True)
        for text, offset in (
            (b'{"jsonrpc":"2.0","method":"\xff"}', 27),
            (b'{"jsonrpc":"2.0","id":"\xc3","method":"m"}', 23),
            (b'{"jsonrpc":"2.0","id":1,"result":"\xed\xa0\x80"}', 34),
            (b'{"jsonrpc":"2.0","id":1,"result":"\xc0\xaf"}', 34),
            (b'{"jsonrpc":"2.0","id":1,"x":"\xf4\x90\x80\x80"}', 29),
            (b'{"x\xe9":1}', 3),
            (b"\xff\xfe[\x00]\x00", 0),
            (b"\x80", 0),
            (b"{]\xff", 2),
        )
    ),
]

VECTORS = [*VERSION, *ID, *METHOD, *PARAMS, *AMBIGUOUS, *RESULT_OR_ERROR, *MEMBERS, *BATCH, *TEXT]
