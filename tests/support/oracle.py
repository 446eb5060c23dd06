"""`orjson`, with which the codec's reading and writing of JSON is compared.

If orjson cannot be installed, the module that replaces it is used. `tests/codec/test_standard.py` compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["orjson"]

if TYPE_CHECKING:
    import orjson
else:
    try:
        import orjson
    except ImportError:
        from jsonrpc_fast.codec import _standard as orjson
