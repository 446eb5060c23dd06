"""Compressed bodies, piece by piece."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.http.library import PIECE_BYTES, Inflater


def inflated(chunks: list[bytes]) -> bytes:
    inflater = Inflater("gzip")
    pieces = [piece for chunk in chunks for piece in inflater.feed(chunk)]
    inflater.finish()
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


@given(st.lists(st.binary() | st.integers(0, 3 * PIECE_BYTES), max_size=3), st.integers(1, 4096))
def test_a_body_in_any_chunks(members: list[bytes | int], size: int) -> None:
    bodies = [bytes(member) for member in members]  # an int is the number of zeros
    packed = b"".join(map(gzip.compress, bodies))
    assert inflated([packed[at : at + size] for at in range(0, len(packed), size)]) == b"".join(bodies)


def test_a_body_that_fills_its_pieces() -> None:
    """What zlib holds back when a piece is full is not lost."""
    noise = random.Random(5).randbytes(PIECE_BYTES)
    for size in (PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES):
        for body in (bytes(size), (noise * 2)[:size]):
            assert inflated([gzip.compress(body)]) == body


def test_a_body_that_is_not_complete() -> None:
    packed = gzip.compress(b"text")
    assert inflated([]) == inflated([b""]) == b""
    for cut in range(1, len(packed)):
        with pytest.raises(InvalidResponse, match=r"^the compressed response is incomplete$"):
            inflated([packed[:cut]])
        with pytest.raises(InvalidResponse, match=r"^the compressed response is incomplete$"):
            inflated([packed + packed[:cut]])


def test_a_body_that_is_malformed() -> None:
    packed = gzip.compress(b"text")
    for wrong in (b"text", zlib.compress(b"text"), packed[:-1] + b"\1", packed + b"text", packed[:10] + b"\xff" * 9):
        with pytest.raises(InvalidResponse, match=r"^the content coding of the response is malformed$"):
            inflated([wrong])


def test_codings() -> None:
    assert list(Inflater("").feed(b"text")) == [b"text"]
    for coding in ("deflate", "br", "gzip, gzip", "GZIP"):
        with pytest.raises(InvalidResponse, match="is not supported"):
            Inflater(coding)
