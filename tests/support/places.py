"""Where the tests find things."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
ROOT: Final = TESTS.parent
PEERS: Final = TESTS / "peers"
SPEC: Final = TESTS / "vectors" / "spec"
WIRE: Final = TESTS / "vectors" / "wire"
CORPORA: Final = ROOT.parent / "shared" / "corpora"
"""Material that nobody in the project wrote. It lies beside the repository, or is missing."""
