"""Unknown and duplicate members, batches, and texts that are not JSON."""

from __future__ import annotations

from ..support.describe import error, fault, notification, request, result, text_fault
from .vector import vector

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
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=fault("EMPTY_BATCH"),
    ),
    vector(
        "[ ]",
        " [ \n] ",
        fault("EMPTY_BATCH"),
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=fault("EMPTY_BATCH"),
    ),
    vector(
        "[1, {…}]",
        '[1,{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n","params":{}}]',
        [fault("NOT_AN_OBJECT", index=0), request(1, "m"), notification("n", {})],
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
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
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
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
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[result(1, {}), error("2", 1, "e"), fault("RESULT_AND_ERROR", 3, reply=False, index=2)],
    ),
    vector(
        "a duplicate member in a batch",
        '[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"id":2,"method":"m"}]',
        [request(1, "m"), fault("DUPLICATE_MEMBER", index=1)],
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
        mcp=fault("BATCH_NOT_ALLOWED"),
        mcp_2025_03_26=[request(1, "m"), fault("DUPLICATE_MEMBER", index=1)],
        text_only=True,
    ),
    vector(
        "a wide id in a batch",
        '[{"jsonrpc":"2.0","id":18446744073709551617,"method":"m"}]',
        [request(18446744073709551617, "m")],
        jsonrpc_1=fault("BATCH_NOT_ALLOWED"),
        lsp=fault("BATCH_NOT_ALLOWED"),
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
            ('{"jsonrpc":"2.0","id":"\\udc00","method":"m"}', 23),
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
    vector(
        "a lone surrogate in the method",
        '{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        text_fault("MALFORMED_JSON", 34, 1),
        text_only=True,
    ),
    vector(
        "a lone surrogate in another member",
        '{"jsonrpc":"2.0","id":1,"x":"\\ud800\\u0041"}',
        text_fault("MALFORMED_JSON", 29, 1),
        text_only=True,
    ),
    vector(
        "a lone surrogate in a result",
        '{"jsonrpc":"2.0","id":"a","result":"\\udc00"}',
        text_fault("MALFORMED_JSON", 36, "a", reply=False),
        text_only=True,
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
