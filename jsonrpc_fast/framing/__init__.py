"""Framing: bytes to frames and back, without IO and independent of messages.

`Decoder(framing=...)` uses it. `frame` writes one frame; the module `sse` is for authors of HTTP transports.
"""

from __future__ import annotations

from .frames import FRAMINGS, Frame, Framing, frame

__all__ = ["FRAMINGS", "Frame", "Framing", "frame"]
