"""The options of transports, and their defaults for peers that are not trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypedDict

from ..framing.frames import Framing
from ..profile import Limits, Profile

MAX_FAULTS: Final = 1000
"""The default of `max_faults` for sockets and WebSockets, whose peers are not trusted: each fault costs a response."""


class MessageOptions(TypedDict, total=False):
    """Keyword options of every transport; `Connection` describes them."""

    profile: Profile
    limits: Limits | None
    raw: bool
    drain_seconds: float | None
    max_faults: int | None
    decode: Callable[[Any], Any] | None


class TransportOptions(MessageOptions, total=False):
    """Keyword options of every transport over bytes; `Connection` describes them."""

    framing: Framing | None
