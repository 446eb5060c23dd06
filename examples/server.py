"""A server on standard input and output, for an editor or another program to start.

jsonrpc-fast call add a=1 b=2 -- python examples/server.py
"""

from jsonrpc_fast.session import serving
from jsonrpc_fast.transports import run_stdio


def add(a: float, b: float) -> float:
    return a + b


raise SystemExit(run_stdio(serving({"add": add})))
