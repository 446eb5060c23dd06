"""The command line: `jsonrpc-fast`, or `python -m jsonrpc_fast`."""
