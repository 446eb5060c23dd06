"""A dispatcher whose profile reads messages with and without `jsonrpc` responds to each text in the text's form."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast.codec import Request
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, Limits, Profile

from ..support.recorder import Recorder
from ..support.tables import rows

CODEX = JSONRPC.replace(optional_jsonrpc=True, writes="unversioned")
BOTH = JSONRPC_1.replace(batches=True)
INVALID = '"error":{"code":-32600,"message":"Invalid Request"}'
NOT_JSON = '"error":{"code":-32700,"message":"Parse error"}'


async def double(number: Any) -> Any:
    return number * 2


HANDLERS = Handlers({"double": lambda number: number * 2, "later": double})

TEXTS = [
    (BOTH, '{"id":1,"method":"double","params":[2]}', '{"id":1,"result":4,"error":null}'),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":"double","params":[2]}', '{"jsonrpc":"2.0","id":1,"result":4}'),
    (BOTH, '{"params":["jsonrpc"],"id":1,"method":"double"}', '{"id":1,"result":"jsonrpcjsonrpc","error":null}'),
    (BOTH, '{"params":[2],"id":1,"method":"double","jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":1,"result":4}'),
    (BOTH, '{"id":null,"method":"double","params":[2]}', ""),
    (CODEX, '{"id":1,"method":"double","params":[2]}', '{"id":1,"result":4}'),
    (JSONRPC.replace(writes="1.0"), '{"jsonrpc":"2.0","id":1}', '{"id":1,' + INVALID + ',"result":null}'),
    # Faults.
    (BOTH, '{"jsonrpc":"1.0","id":1,"method":"m"}', '{"jsonrpc":"2.0","id":1,' + INVALID + "}"),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":7}', '{"jsonrpc":"2.0","id":1,' + INVALID + "}"),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":"m"', '{"jsonrpc":"2.0","id":null,' + NOT_JSON + "}"),
    (BOTH, '{"id":1,"method":7}', '{"id":1,' + INVALID + ',"result":null}'),
    (BOTH, "x", '{"id":null,' + NOT_JSON + ',"result":null}'),
    (BOTH, "[]", '{"id":null,' + INVALID + ',"result":null}'),
    (JSONRPC_1, '[{"jsonrpc":"2.0","id":1,"method":"m"}]', '{"jsonrpc":"2.0","id":null,' + INVALID + "}"),
    (JSONRPC_1, '[{"id":1,"method":"m"}]', '{"id":null,' + INVALID + ',"result":null}'),
    (
        BOTH.replace(limits=Limits(message_bytes=40)),
        '{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2,3,4]}',
        '{"jsonrpc":"2.0","id":1,' + INVALID + "}",
    ),
    # A batch with one item of 2.0 is one of 2.0.
    (
        BOTH,
        '[{"id":1,"method":"double","params":[2]},7,{"jsonrpc":"2.0","id":2,"method":"later","params":[2]}]',
        '[{"jsonrpc":"2.0","id":1,"result":4},{"jsonrpc":"2.0","id":null,'
        + INVALID
        + '},{"jsonrpc":"2.0","id":2,"result":4}]',
    ),
    (
        BOTH,
        '[{"id":1,"method":"later","params":["]"]},7]',
        '[{"id":1,"result":"]]","error":null},{"id":null,' + INVALID + ',"result":null}]',
    ),
]


@rows(("profile", "text", "response"), TEXTS)
async def test_each_text(profile: Profile, text: str, response: str) -> None:
    for data in (text, text.encode()):
        found = await HANDLERS.dispatch_async(data, profile, delimited=False)
        assert found.decode() == response
        if "later" not in text:
            assert HANDLERS.dispatch(data, profile, delimited=False).decode() == response
    hooks = Recorder()
    observed = HANDLERS.prepare(profile, hooks=hooks, delimited=False).continuing({}).start(text)
    assert (observed if isinstance(observed, bytes) else await observed).decode() == response
    assert [event[-2:] for event in hooks.events if event[0] == "served"] == [
        (Outcome.RESULT, None) for method in text.split('"method":"')[1:] if method[0] in "dl"
    ]


def test_what_is_decoded_has_no_text() -> None:
    dispatch = HANDLERS.prepare(JSONRPC_1)
    assert dispatch.serve(Request(1, "double", [2])) == b'{"id":1,"result":4,"error":null}\n'


@pytest.mark.parametrize("is_registered_first", [True, False])
def test_raw_params(is_registered_first: bool) -> None:
    handlers = Handlers()
    if is_registered_first:
        handlers.register("size", lambda params: len(bytes(params)), unpack=False)
    dispatch = handlers.prepare(JSONRPC_1, raw=True, delimited=False)
    if not is_registered_first:
        handlers.register("size", lambda params: len(bytes(params)), unpack=False)
    assert dispatch.serve(b'{"id":1,"method":"size","params":[ 1]}') == b'{"id":1,"result":4,"error":null}'
    assert dispatch.serve(b'{"jsonrpc":"2.0","id":1,"method":"size","params":[ 1]}') == (
        b'{"jsonrpc":"2.0","id":1,"result":4}'
    )
