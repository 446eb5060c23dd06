"""Framing: bytes to frames and back, without IO and independent of messages.

`Decoder(framing=...)` uses it. `FrameReader` reads frames that hold something else, such as the messages of the Debug
Adapter Protocol; `frame` writes one. The module `sse` is for authors of HTTP transports.
"""

from __future__ import annotations

from .detector import FrameReader
from .frames import FRAMINGS, Frame, Framing, FramingRow, frame
from .hints import looks_like

__all__ = ["FRAMINGS", "Frame", "FrameReader", "Framing", "FramingRow", "frame", "looks_like"]
