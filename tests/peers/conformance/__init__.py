"""The official conformance suite of MCP: `python -m tests.peers.conformance` prints what it finds."""
