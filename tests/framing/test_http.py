"""Streams that begin like HTTP; the servers' tests have more of them."""

from __future__ import annotations

from jsonrpc_fast.framing.hints import HttpDetector


def test_any_chunking() -> None:
    for text, expected in ((b"\r\n\nPOST /a?b HTTP/1.1", True), (b"\n\nPOST /a?b HTML", False), (b"\n{", False)):
        for size in (1, 2, 3, 100):
            detector = HttpDetector()
            told = [detector.feed(text[at : at + size]) for at in range(0, len(text), size)]
            assert next((found for found in told if found is not None), None) is expected


def test_blank_lines_before_a_request_are_not_kept() -> None:
    detector = HttpDetector()
    for _ in range(100):
        assert detector.feed(b"\r\n" * 1000) is None
    assert len(detector._seen) == 0
    assert detector.feed(b"\nGE") is None
    assert detector.feed(b"T / HTTP/1.1") is True
