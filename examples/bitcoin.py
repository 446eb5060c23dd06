"""A client of bitcoind: JSON-RPC 1.0, and amounts as Decimal. It needs the extra `http`.

python examples/bitcoin.py http://user:password@127.0.0.1:8332
"""

import sys
from decimal import Decimal

from jsonrpc_fast import JSONRPC_1
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.http.client import HttpClient

BITCOIN = JSONRPC_1.replace(name="bitcoin", floats="decimal")

with HttpClient(sys.argv[1], profile=BITCOIN) as node:
    balance = node.call("getbalance")
    print(balance, "of", Decimal(21_000_000))
    try:
        print(node.call("sendtoaddress", ["bc1qexample", balance / 2]))
    except RpcError as error:
        print(error.code, error.message)
