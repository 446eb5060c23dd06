"""Blocks of items have the faults, with their frames, that reading frame by frame finds."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, Limits, ParseError
from jsonrpc_fast.codec import located
from jsonrpc_fast.codec.located import LocatingDecoder
from jsonrpc_fast.framing.frames import FRAMINGS, STREAM_FRAMINGS, Framing, frame

from ..support.tables import rows

GOOD = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
BAD = b'{"jsonrpc":"2.0","id":1,"method":5}'


def by_blocks(framing: Framing, profile: Any, chunks: list[bytes]) -> tuple[list[Any], list[Any], bool]:
    decoder = LocatingDecoder(framing, profile, raw=False)
    blocks = [block for chunk in chunks for block in decoder.feed_blocks(chunk)]
    assert [sum(block.kinds.values()) for block in blocks] == [len(block.items) for block in blocks]
    items = [item for block in blocks for item in block.items]
    faults = [fault for block in blocks for fault in block.faults]
    last = list(decoder.close_located())
    return items + [item for _, item in last], faults + [found for found in last if has_fault(found[1])], decoder.ended


def by_frames(framing: Framing, profile: Any, chunks: list[bytes]) -> tuple[list[Any], list[Any], bool]:
    decoder = LocatingDecoder(framing, profile, raw=False)
    found = [located for chunk in chunks for located in decoder.feed_located(chunk)]
    found += decoder.close_located()
    return [item for _, item in found], [located for located in found if has_fault(located[1])], decoder.ended


def has_fault(item: Any) -> bool:
    return isinstance(item, ParseError) or (isinstance(item, list) and any(map(has_fault, item)))


@rows(
    ("framing", "offsets"),
    [("newline", [38, 112]), ("content-length", [81, 197]), ("sse", [51, 139]), ("concatenated", [38, 112])],
)
def test_faults_have_their_frames(framing: Any, offsets: list[int]) -> None:
    stream = b"".join([frame(text, framing) for text in (GOOD, BAD, GOOD, BAD, GOOD)])
    for size in (1, 7, 50, len(stream)):
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        items, faults, _ = by_blocks(framing, JSONRPC, chunks)
        assert [type(item).__name__ for item in items] == ["Request", "ParseError"] * 2 + ["Request"]
        assert [(found.text, found.offset) for found, _ in faults] == [(BAD, offset) for offset in offsets]
        assert [found.line for found, _ in faults] == ([2, 4] if framing == "newline" else [None, None])


@rows("framing", [framing for framing in FRAMINGS if framing != "auto"])
def test_a_frame_over_the_limit_is_located_once(framing: Any) -> None:
    profile = JSONRPC.replace(limits=Limits(message_bytes=60))
    stream = b"".join([frame(text, framing) for text in (GOOD, GOOD[:-2] + b"m" * 300 + GOOD[-2:], GOOD, BAD)])
    for size in (1, 40, len(stream)):
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        _, faults, _ = by_blocks(framing, profile, chunks)
        assert [fault.code.name for _, fault in faults] == ["MESSAGE_TOO_LARGE", "INVALID_METHOD_TYPE"]
        assert repr(faults) == repr(by_frames(framing, profile, chunks)[1])


@rows("seed", range(4))
@pytest.mark.ci
def test_blocks_agree_with_frames(seed: int, core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """On streams of all framings, good and bad, in any chunks."""
    from ..fuzz.differential import PROFILES, framed, seeds  # imports the core

    monkeypatch.setattr(located, "_BLOCK_BYTES", 50)
    rng = random.Random(seed)
    texts = [GOOD, GOOD, BAD, *[text for text in seeds() if len(text) < 1000]]
    for _ in range(400):
        framing: Any = rng.choice(STREAM_FRAMINGS)
        profile = rng.choice(PROFILES)
        chosen = rng.sample(texts, 4)
        stream = rng.choice((b"", b"", b"\xef\xbb\xbf")) + b"".join(
            [framed(rng, rng.choice(chosen), framing) for _ in range(rng.randrange(9))]
        )
        cuts = sorted([rng.randrange(len(stream) + 1) for _ in range(rng.randrange(8))])
        chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        read_as: Any = "auto" if framing in ("newline", "content-length") and rng.random() < 0.3 else framing
        found = repr(by_blocks(read_as, profile, chunks))
        assert found == repr(by_frames(read_as, profile, chunks)), (read_as, chunks)
