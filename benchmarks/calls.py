"""The public functions of the codec, one by one: each with its options and profiles, against orjson in the same form.

A call is a contest (`contests.py`) with four contestants: the core, the pure backend, orjson and `json`. Its bar is in
the same row. `tests/package/test_calls.py` finds a public function, an option of an encoder or a preset without a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SMALL: Final = "small_request"
MIDDLE: Final = "tools_call_325"
LARGE: Final = "result_10k"
BATCH: Final = "batch_200_requests"
ALL: Final = (SMALL, MIDDLE, LARGE, BATCH)
REQUESTS: Final = (SMALL, MIDDLE)


@dataclass(frozen=True)
class Call:
    """One function in one form.

    The expressions use these names: `text`, a message or a batch, and `cut`, without its last byte; `content`, its
    value as orjson reads it; `message`, as `decode` reads it; `id`, `method`, `params`, `result`, and `code`, `reason`
    and `data`, the parts of a single message; and those of `_names` in `contests.py`.

    Attributes:
        function: The public function.
        form: What is given to it besides the message: an option, a preset; empty if nothing is.
        expression: The call.
        opponent: What orjson does for it, with `loads` or `dumps`.
        limits: The most that the core may take of orjson's time, by message.
        prepare: Makes the text of another form from that of a message; a name of `_names`.
    """

    function: str
    form: str
    expression: str
    opponent: str
    limits: dict[str, float]
    prepare: str = ""

    @property
    def work(self) -> str:
        return f"call {self.function}{f', {self.form}' if self.form else ''}"


def _call(
    function: str, form: str, expression: str, opponent: str, limit: Any, *payloads: str, prepare: str = ""
) -> Call:
    limits = limit if isinstance(limit, dict) else dict.fromkeys(payloads or ALL, limit)
    return Call(function, form, expression, opponent, limits, prepare)


_DUMPS: Final = "dumps(content, option=OPT_APPEND_NEWLINE)"
_DEFAULT: Final = "dumps(content, default=default, option=OPT_APPEND_NEWLINE)"
_WRITTEN: Final = {SMALL: 1.8, MIDDLE: 1.8, LARGE: 1.1, BATCH: 1.8}
_LONGER: Final = {**_WRITTEN, LARGE: 1.5}
_SORTED: Final = "dumps(content, option=OPT_SORT_KEYS)"
_DATED: Final = "dumps(dated_content, default=default)"
_REQUEST: Final = "id, method, params"
_PARTS: Final = (
    ("encode_request", _REQUEST, *REQUESTS),
    ("encode_notification", "method, params", *REQUESTS),
    ("encode_result", "id, result", "tiny_response", LARGE),
    ("encode_error", "id, code, reason, data", "error_163"),
)
"""The functions that write the parts of a message: their arguments, and the messages."""

CALLS: Final = (
    _call("decode", "", "decode(text)", "loads(text)", 0.75),
    _call("decode", "raw=True", "decode(text, raw=True)", "loads(text)", 0.5),
    _call("decode", "extra members kept", "decode(text, KEEP)", "loads(text)", 0.7, prepare="with_extra"),
    _call("decode", "cut at the end", "decode(cut)", "loads(text)", 1.5),
    _call("decode", "own limits", "decode(text, TIGHT)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "big_ints='reject'", "decode(text, REJECT)", "loads(text)", 0.75),
    _call("decode", "decimals, none there", "decode(text, DECIMAL)", "loads(text)", 0.75),
    _call("decode", "jsonrpc", "decode(text, JSONRPC)", "loads(text)", 0.75, MIDDLE, BATCH),
    _call("decode", "lenient", "decode(text, LENIENT)", "loads(text)", 0.75, MIDDLE, BATCH),
    _call("decode", "client", "decode(text, CLIENT)", "loads(text)", 0.75, MIDDLE, BATCH),
    _call("decode", "jsonrpc-1", "decode(text, JSONRPC_1)", "loads(text)", 0.75, MIDDLE, prepare="unversioned"),
    _call("decode", "lsp", "decode(text, LSP)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "mcp-2024-11-05", "decode(text, MCP_2024_11_05)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "mcp-2025-03-26", "decode(text, MCP_2025_03_26)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "mcp-2025-06-18", "decode(text, MCP_2025_06_18)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "mcp-2025-11-25", "decode(text, MCP_2025_11_25)", "loads(text)", 0.75, MIDDLE),
    _call("decode", "mcp-2026-07-28", "decode(text, MCP_2026_07_28)", "loads(text)", 0.75, MIDDLE),
    _call("decode_dict", "", "decode_dict(text)", "loads(text)", 1.0),
    _call("decode_dict", "faults='keep'", "decode_dict(text, faults='keep')", "loads(text)", 1.0),
    _call("decode_dict", "extra members kept", "decode_dict(text, KEEP)", "loads(text)", 1.0, prepare="with_extra"),
    _call("decode_dict", "client", "decode_dict(text, CLIENT)", "loads(text)", 1.0),
    _call("parse", "", "parse(content)", "loads(text)", 0.5),
    _call("classify", "", "classify(text)", "loads(text)", 0.5, "tiny_request", *ALL),
    _call("Decoder", "feed", "feed(line)", "loads(line)", {"tiny_request": 0.4, **dict.fromkeys(ALL, 0.75)}),
    _call("Decoder", "feed, sse", "feed_event(event)", "loads(text)", 1.0, SMALL, MIDDLE, LARGE),
    _call("encode", "", "encode(message)", _DUMPS, 0.9),
    _call("encode", "delimited=False", "encode(message, delimited=False)", "dumps(content)", 0.9),
    _call("encode", "writes='unversioned'", "encode(message, UNVERSIONED)", _DUMPS, 1.5, prepare="unversioned"),
    _call("encode", "writes='1.0'", "encode(message, JSONRPC_1)", _DUMPS, 1.5, prepare="unversioned"),
    _call("encode", "extra members", "encode(extended)", _DUMPS, 1.5, SMALL, MIDDLE, LARGE, prepare="with_extra"),
    _call("encode", "default=, not needed", "encode(message, default=default)", _DEFAULT, 1.5),
    _call("encode", "default=, called", "encode(dated, default=default)", _DATED, 1.5),
    _call("encode", "option=, no effect", "encode(message, option=OPT_NON_STR_KEYS)", _DUMPS, 1.5),
    _call("encode", "option=, sorted", "encode(message, option=OPT_SORT_KEYS)", _SORTED, 1.5),
    _call("encode", "decimals, none there", "encode(message, DECIMAL)", _DUMPS, 1.5),
    _call("encode", "decimals", "encode(priced, DECIMAL)", "dumps(priced_content, default=default)", 1.5),
    *[
        _call(function, form, f"{function}({arguments}{given})", _DUMPS, limit, *payloads)
        for function, arguments, *payloads in _PARTS
        for form, given, limit in (("", "", 0.9), ("profile=", ", profile=UNVERSIONED", 1.5))
    ],
    _call("encode_request", "default=", f"encode_request({_REQUEST}, default=default)", _DEFAULT, 1.5, *REQUESTS),
    _call("encode_dict", "", "encode_dict(content)", _DUMPS, _WRITTEN),
    _call("encode_dict", "delimited=False", "encode_dict(content, delimited=False)", "dumps(content)", _WRITTEN),
    _call("encode_dict", "client", "encode_dict(content, CLIENT)", _DUMPS, _WRITTEN),
    _call("encode_dict", "default=, not needed", "encode_dict(content, default=default)", _DEFAULT, _WRITTEN),
    _call("encode_dict", "default=, called", "encode_dict(dated_content, default=default)", _DATED, _LONGER),
    _call("encode_dict", "option=, no effect", "encode_dict(content, option=OPT_NON_STR_KEYS)", _DUMPS, _WRITTEN),
)
"""Every public function of the codec in every form."""
