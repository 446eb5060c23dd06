"""Which rules a protocol sets (`Profile`), how much of a message is read (`Limits`), and the presets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, Literal

MAX_DEPTH: Final = 1024  # as deep as orjson.loads goes
MIN_ID_BYTES: Final = 32  # any 64-bit integer fits
MAX_ID_BYTES: Final = 640  # the least that CPython's limit on the digits of an int may be set to
HEAD_BYTES: Final = 1024  # of a message over the size limit that are read, for its id


PURE_MESSAGE_BYTES: Final = 16 * 1024 * 1024  # `Limits.message_bytes` where the pure backend is in use
_message_bytes = 64 * 1024 * 1024  # where the compiled core is


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a message is read. Anything over a limit gives a `ParseError`, and the stream goes on.

    message_bytes  of one message's text, 1 or more; it is checked before the text is read. The default is 64 MiB with
                   the compiled core and 16 MiB with the pure backend
    depth          how deep the value of one member may nest, 1 to 1024; a flat array is 1 deep
    batch_items    in one batch, 1 or more
    method_bytes   of the method's UTF-8, 1 or more
    id_bytes       of the id: a string's UTF-8, a number as written; 32 to 640

    The pure backend's default is lower because it needs longer to tell where a hostile text stops being JSON, up to
    0.34 microseconds a byte, which is 6 seconds for 16 MiB.
    """

    message_bytes: int = dataclasses.field(default_factory=lambda: _message_bytes)
    depth: int = MAX_DEPTH
    batch_items: int = 10_000
    method_bytes: int = 1024
    id_bytes: int = 512

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not int:
                raise TypeError(f"{field.name} must be an int, not {type(value).__name__}")
            if not 1 <= value < 2**62:
                raise ValueError(f"{field.name} must be 1 or more")
        if self.depth > MAX_DEPTH:
            raise ValueError(f"depth must be {MAX_DEPTH} or less")
        if not MIN_ID_BYTES <= self.id_bytes <= MAX_ID_BYTES:
            raise ValueError(f"id_bytes must be {MIN_ID_BYTES} to {MAX_ID_BYTES}")

    def replace(self, **changes: int) -> Limits:
        """These limits with some changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Profile:
    """The rules that a protocol sets on top of JSON-RPC 2.0, or leaves open.

    name                a label for people, used nowhere in decoding
    null_request_ids    `"id": null` in a request is a request with the id None
    null_result_ids     `"id": null` beside a result; beside an error it is always accepted
    float_ids           a number id written with a fraction or an exponent
    errors_without_id   an error response may lack the id
    optional_jsonrpc    a message may lack `jsonrpc`, as JSON-RPC 1.0 writes it; such a call with a null id is a
                        notification
    empty_methods       `"method": ""`
    array_params        `params` may be an array
    null_params         `"params": null` counts as absent
    null_companions     `"error": null` beside a result counts as absent, and `"result": null` beside an error
    object_results      `result` must be an object
    batches             an array of messages
    extra_members       members that JSON-RPC does not name are ignored, in a message and in its error object; if False,
                        they are a fault
    big_ints            integers beyond 64 bits in a payload: "float" (orjson's way, the fastest), "exact", "reject"
    limits              the bounds
    """

    name: str = "custom"
    null_request_ids: bool = True
    null_result_ids: bool = True
    float_ids: bool = True
    errors_without_id: bool = False
    optional_jsonrpc: bool = False
    empty_methods: bool = True
    array_params: bool = True
    null_params: bool = False
    null_companions: bool = False
    object_results: bool = False
    batches: bool = True
    extra_members: bool = True
    big_ints: Literal["float", "exact", "reject"] = "float"
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            expected = type(field.default)
            if type(value) is not expected:
                raise TypeError(f"{field.name} must be of type {expected.__name__}, not {type(value).__name__}")
        if self.big_ints not in ("float", "exact", "reject"):
            raise ValueError('big_ints must be "float", "exact" or "reject"')

    def __repr__(self) -> str:
        changed = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]
        return f"Profile({', '.join([f'{name}={getattr(self, name)!r}' for name in changed])})"

    def replace(self, **changes: Any) -> Profile:
        """This profile with some fields changed: `JSONRPC.replace(extra_members=False)`."""
        return dataclasses.replace(self, **changes)


_PERMISSIONS: Final = (
    "null_request_ids",
    "null_result_ids",
    "float_ids",
    "errors_without_id",
    "optional_jsonrpc",
    "empty_methods",
    "array_params",
    "null_params",
    "null_companions",
    "extra_members",
)
"""The fields of a profile that let more messages pass when they are true."""


def is_at_least_as_strict(profile: Profile, other: Profile) -> bool:
    """Return whether each message that is valid in `profile` is valid in `other`, so that `parse` need not check it.

    Batches, and what only the text shows (its size and depth, integers beyond 64 bits), are not compared.
    """
    return (
        all(getattr(profile, name) <= getattr(other, name) for name in _PERMISSIONS)
        and profile.object_results >= other.object_results
        and profile.limits.method_bytes <= other.limits.method_bytes
        and profile.limits.id_bytes <= other.limits.id_bytes
    )


def lower_default_limits() -> None:
    """Makes `PURE_MESSAGE_BYTES` the default, also of the presets: called once, when the pure backend is chosen."""
    global _message_bytes
    _message_bytes = PURE_MESSAGE_BYTES
    # The presets share the one default of `Profile.limits`.
    object.__setattr__(JSONRPC.limits, "message_bytes", PURE_MESSAGE_BYTES)


JSONRPC: Final = Profile(name="jsonrpc")
"""JSON-RPC 2.0 as written."""

LENIENT: Final = Profile(name="lenient", null_params=True, null_companions=True)
"""What peers in the field send: null for an absent `params`, and JSON-RPC 1.0's null companions."""

JSONRPC_1: Final = Profile(name="jsonrpc-1", optional_jsonrpc=True, null_companions=True, batches=False)
"""JSON-RPC 1.0, for reading: messages may lack `jsonrpc`; a response has `result` and `error`, one of them null.

What is written has `jsonrpc` all the same. Messages of 2.0 are accepted, too, but no batches.
"""

LSP: Final = Profile(name="lsp", null_params=True, null_request_ids=False, float_ids=False)
"""Language Server Protocol 3.17, base protocol: an id is an integer or a string; real clients send null params."""

MCP_2024_11_05: Final = Profile(
    name="mcp-2024-11-05",
    null_request_ids=False,
    null_result_ids=False,
    float_ids=False,
    empty_methods=False,
    array_params=False,
    object_results=True,
    batches=False,
)
MCP_2025_03_26: Final = MCP_2024_11_05.replace(name="mcp-2025-03-26", batches=True)
MCP_2025_06_18: Final = MCP_2024_11_05.replace(name="mcp-2025-06-18")
MCP_2025_11_25: Final = MCP_2024_11_05.replace(name="mcp-2025-11-25", errors_without_id=True)
MCP_2026_07_28: Final = MCP_2025_11_25.replace(name="mcp-2026-07-28")

PRESETS: Final = {
    profile.name: profile
    for profile in (
        JSONRPC,
        LENIENT,
        JSONRPC_1,
        LSP,
        MCP_2024_11_05,
        MCP_2025_03_26,
        MCP_2025_06_18,
        MCP_2025_11_25,
        MCP_2026_07_28,
    )
}
"""The presets by the names that the command line takes."""
