"""The paths of files that tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import jsonrpc_fast

PACKAGE: Final = Path(jsonrpc_fast.__file__).resolve().parent
"""The package under test."""
TESTS: Final = Path(__file__).resolve().parents[1]
ROOT: Final = TESTS.parent
PEERS: Final = TESTS / "peers"
SPEC: Final = TESTS / "vectors" / "spec"
WIRE: Final = TESTS / "vectors" / "wire"
