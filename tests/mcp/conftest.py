from __future__ import annotations

from pathlib import Path

import pytest

from ..support.mcp_schemas import Schemas


@pytest.fixture(scope="session")
def schemas(corpora: Path) -> Schemas:
    return Schemas(corpora)
