"""The scenes of `tests.isolated.transport_soak`, with fewer messages."""

from __future__ import annotations

import sys

import pytest

from ..isolated import transport_soak
from ..support.tables import rows

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("loop"),
    pytest.mark.skipif(sys.platform == "win32", reason="the scenes use signals"),
]


@pytest.mark.slow
@pytest.mark.time_limit(50)
@rows("scene", transport_soak.SCENES)
async def test_scene(scene: str) -> None:
    await transport_soak.SCENES[scene](4000)


def test_a_lost_or_torn_message_is_found() -> None:
    check = transport_soak.Check(1, 10)
    size = transport_soak.sizes(1, 10)
    check.receive([0, transport_soak.text_of(0, size[0])])
    for wrong in ([2, transport_soak.text_of(2, size[2])], [1, transport_soak.text_of(1, size[1])[:-1]]):
        with pytest.raises(AssertionError):
            check.receive(wrong)
