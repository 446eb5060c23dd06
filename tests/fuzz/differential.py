"""Compare fast path and slow path, and both backends, on as many texts as time allows.

    python -m tests.fuzz.differential --inputs 1000000 --seed 1 --processes 2

The core's fast path, its slow path and the pure backend decode each text, eagerly or raw, in one of the profiles; some
texts go through the other functions, too, as bytes and as a str, and as dicts; their messages are written in each form,
with options and without; texts come again while key templates are on, off or at
their limits; the fast path and orjson decode payloads, and both backends and orjson write objects; occasionally the
decoders of both read a stream of texts in different chunks. Any difference in class, values, types, error fields or
bytes written is printed with the text, and so is a law that a raw payload breaks (`tests/support/raw_laws.py`); the
exit status is 1. Another seed gives other texts; --seconds bounds the time instead.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import marshal
import random
import sys
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, get_args

from jsonrpc_fast import CLIENT, JSONRPC, JSONRPC_1, LENIENT, PRESETS, Limits, Profile
from jsonrpc_fast.codec import _core, _pure
from jsonrpc_fast.codec._dicts import dicts_of
from jsonrpc_fast.codec._shared import numbers_of
from jsonrpc_fast.errors import EncodeError, ParseError
from jsonrpc_fast.framing import FRAMINGS, Framing
from jsonrpc_fast.profile import WrittenForm

from .. import vectors
from ..support.comparison import exactly, plain
from ..support.oracle import dumps_exact, loads_exact, orjson
from ..support.raw_laws import broken_law, broken_law_of_stream
from .mutate import LINES, Values, message
from .objects import Objects

VALUES = 24  # payloads that are compared for each message

TEMPLATES = [(), (), (0,), (1024, 64, 2**60), (4, 64, 2**60), (1024, 0, 2**60), (4, 0, 2**60), (8, 2, 8)]
"""Arguments of `_use_templates`: the default, off, and at its limits."""

HEADERS_ENDS = [
    b"\r\n\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b" \r\nX: y\r\n\r\n",
    b"\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
    b"\r\nContent-Type: x; charset=latin1\r\n\r\n",
]

PRINTED = [
    *(6 * [b""]),
    b"DEBUG hover\n",
    b"(glued) ",
    b'{"a":1}\n',
    b"a: b\r\n\r\n",
    b"content-length:99999999999999\n",
    b"\n",
]
"""What a program prints between frames."""

FIELDS = [b"event: message\n", b"event:x\r\n", b"id: 7\n", b"retry: 5\r", b": comment\n", b"data\n", b"x: y\n", b"\n"]

PROFILES: list[Profile] = [
    *[JSONRPC] * 6,
    *PRESETS.values(),
    CLIENT.replace(missing_ids=True, floats="decimal"),
    LENIENT.replace(repeated_calls=True, extra_members=False, limits=Limits(depth=3)),
    JSONRPC.replace(extra_members=False),
    *[JSONRPC.replace(extra_members="keep")] * 3,
    JSONRPC.replace(extra_members="keep"),
    JSONRPC.replace(extra_members="keep", big_ints="reject", limits=Limits(depth=2)),
    JSONRPC,
    JSONRPC.replace(big_ints="reject"),
    JSONRPC.replace(floats="decimal"),
    JSONRPC.replace(floats="decimal", extra_members="keep"),
    JSONRPC_1.replace(floats="decimal", null_request_ids=False, batches=True),
    JSONRPC.replace(limits=Limits(depth=2, id_bytes=32, method_bytes=4, batch_items=2, message_bytes=300)),
]


def seeds() -> list[bytes]:
    """The short ones of the captured lines, and the texts of the rules."""
    return [line for line in [*LINES, *(row["text"] for row in vectors.read("rules"))] if len(line) < 1000]


def shown(module: Any, item: Any) -> object:
    """A decoded item as a value that is equal for equal items of either backend, and only for them."""
    if isinstance(item, list):
        return [shown(module, message) for message in item]
    if isinstance(item, ParseError):
        return plain(module, item)
    return plain(module, item), module.encode(item) if _is_writable(item) else None


def _is_writable(item: Any) -> bool:
    """Whether the payload can be written: it is not too deep."""
    try:
        item.to_bytes()
    except EncodeError:
        return False
    return True


def disagreement(text: bytes, profile: Profile, raw: bool) -> str | None:
    """Return a difference between paths or backends for one text, or a law that a raw payload breaks, or None."""
    # The bytes of an array end where its memory does, without a zero byte after them.
    fast = shown(_core, _core.decode(memoryview(array("B", text)), profile, raw=raw))
    if len(text) <= profile.limits.message_bytes:
        slow = shown(_core, _core._decode_slow(text, profile, raw))
        if fast != slow:
            return f"fast {fast!r}, slow {slow!r}"
    pure = shown(_pure, _pure.decode(text, profile, raw=raw))
    plain_pure = shown(_pure, inspect.unwrap(_pure.decode)(text, profile, raw=raw))
    if pure != plain_pure:
        return f"pure {pure!r}, without its fast path {plain_pure!r}"
    if fast != pure:
        return f"core {fast!r}, pure {pure!r}"
    return next(filter(None, [broken_law(module, text, profile) for module in (_core, _pure) if raw]), None)


def value_disagreement(text: bytes) -> str | None:
    """What differs between the core's fast path, eager or raw, and orjson over a payload, or None."""
    message = b'{"jsonrpc":"2.0","id":1,"result":%b}' % text
    found = _core.decode(memoryview(array("B", message)))
    try:
        expected = loads_exact(text)
    except orjson.JSONDecodeError:
        # What is not a value may still be one with members behind it.
        slow = _core._decode_slow(message, JSONRPC, False)
        if shown(_core, found) != shown(_core, slow):
            return f"fast {found!r}, slow {slow!r}"
        raw = _core.decode(message, raw=True)
        if isinstance(slow, ParseError) and shown(_core, raw) != shown(_core, slow):
            return f"raw {raw!r}, slow {slow!r}"
        return None
    # The bytes distinguish types, and -0.0 from 0.0; a str equals another only in its canonical form.
    if (
        type(found) is not _core.Response
        or marshal.dumps(found.result, 0) != marshal.dumps(expected, 0)
        or (text.count(b"[") < 500 and found.result != expected)
    ):
        return f"fast {found!r}, orjson {expected!r}"
    raw = _core.decode(memoryview(array("B", message)), raw=True)
    if type(raw) is not _core.Response or bytes(raw.result) != text.strip(b" \t\r\n"):
        return f"raw {raw!r}"
    return None


def template_disagreement(text: bytes) -> str | None:
    """What differs when a text comes again and results of it are changed meanwhile, or None."""
    first = _core.decode(text)
    expected = shown(_core, first)
    for _ in range(3):
        found = _core.decode(text)
        if shown(_core, found) != expected:
            return f"again {found!r}, first {first!r}"
        if isinstance(found, _core.Response) and isinstance(found.result, dict):
            found.result.clear()
    return None if shown(_core, first) == expected else f"later {first!r}, first {expected!r}"


def entry_disagreement(text: bytes, profile: Profile, raw: bool) -> str | None:
    """Return a difference between the backends for one text in the other functions and argument types, or None."""
    found = [_entries(module, text, profile, raw) for module in (_core, _pure)]
    for name in found[0]:
        if found[0][name] != found[1][name]:
            return f"{name}: core {found[0][name]!r}, pure {found[1][name]!r}"
    return None


def _entries(module: Any, text: bytes, profile: Profile, raw: bool) -> dict[str, object]:
    """The outcome of each function of a backend for a text, by name."""
    decoded = module.decode(bytearray(text), profile, raw=raw)
    found: dict[str, object] = {"bytearray": shown(module, decoded), "repr": repr(decoded)}
    found["classify"] = repr(module.classify(text))
    try:
        decoded_str = text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        pass
    else:
        found["str"] = shown(module, module.decode(decoded_str, profile, raw=raw))
    try:
        value = loads_exact(text)
    except orjson.JSONDecodeError:
        pass
    else:
        found["parse"] = shown(module, module.parse(value, profile))
    items = decoded if isinstance(decoded, list) else [decoded]
    writable = [item for item in items if not isinstance(item, ParseError) and _is_writable(item)]
    found["encode"] = module.encode(writable)
    found["equal"] = [item == copy.copy(item) and item != 1 for item in items]
    return found


def _shown_order(dicts: Any) -> str | None:
    """The repr, which shows the order of members; None if it would nest too deep."""
    try:
        return repr(dicts)
    except RecursionError:
        return None


def dict_disagreement(rng: random.Random, text: bytes, profile: Profile) -> str | None:
    """Return a difference between paths or backends over a message or a batch as dicts, or None."""
    fast = _core._decode_dict_fast(text, profile)
    if fast is not None:
        slow = dicts_of(text, _core._decode_slow(text, profile, True), numbers_of(profile), ParseError, "raise")
        if (_shown_dicts(fast), _shown_order(fast)) != (_shown_dicts(slow), _shown_order(slow)):
            return f"dicts: fast {fast!r}, slow {slow!r}"
    options = _writing(rng)
    found: list[object] = []
    for module in (_core, _pure):
        for faults in ("raise", "keep"):
            try:
                dicts = module.decode_dict(text, profile, faults=faults)
            except ParseError as fault:
                dicts = fault
            found.append(_shown_dicts(dicts))
        found.append(_outcome(lambda module=module, dicts=dicts: module.encode_dict(dicts, profile, **options)))
    if found[:3] != found[3:]:
        return f"dicts, {options}: core {found[:3]!r}, pure {found[3:]!r}"
    return None


def _shown_dicts(dicts: Any) -> object:
    if isinstance(dicts, list):
        return [_shown_dicts(item) for item in dicts]
    return dicts if isinstance(dicts, ParseError) else exactly(dicts)


def form_disagreement(rng: random.Random, text: bytes, profile: Profile, raw: bool) -> str | None:
    """Return a difference between the backends over messages that are written in one of the forms, or None."""
    profile = profile.replace(writes=rng.choice(get_args(WrittenForm)))
    options = _writing(rng)
    found = []
    for module in (_core, _pure):
        decoded = module.decode(text, profile, raw=raw)
        items = [item for item in (decoded if isinstance(decoded, list) else [decoded]) if not is_fault(item)]
        written = [_outcome(lambda item=item, module=module: module.encode(item, profile, **options)) for item in items]
        written.append(_outcome(lambda items=items, module=module: module.encode(tuple(items), profile, **options)))
        for item in items:
            function, members = _by_parts(module, item)
            parts = _outcome(lambda: function(*members, profile=profile, **options))  # noqa: B023  # called at once
            if item.extra is None and getattr(item, "error", None) is None and parts != written[items.index(item)]:
                return f"{function.__name__} {parts!r}, encode {written!r}"
        found.append(written)
    if found[0] != found[1]:
        return f"{profile.writes}, {options}: core {found[0]!r}, pure {found[1]!r}"
    return None


def is_fault(item: object) -> bool:
    return isinstance(item, ParseError)


def _by_parts(module: Any, item: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that writes a message from its parts, and these."""
    if isinstance(item, module.Request):
        return module.encode_request, (item.id, item.method, item.params)
    if isinstance(item, module.Notification):
        return module.encode_notification, (item.method, item.params)
    if item.error is None:
        return module.encode_result, (item.id, item.result)
    return module.encode_error, (item.id, item.error.code, item.error.message, item.error.data)


def _writing(rng: random.Random) -> dict[str, Any]:
    """Arguments of an encoder."""
    option = rng.choice(
        (0, 0, orjson.OPT_NON_STR_KEYS, orjson.OPT_SORT_KEYS, orjson.OPT_UTC_Z, orjson.OPT_STRICT_INTEGER)
    )
    return {"option": option, "default": rng.choice((None, None, str)), "delimited": rng.random() < 0.5}


def _outcome(call: Callable[[], Any]) -> object:
    try:
        return call()
    except ParseError as fault:
        return fault
    except (EncodeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def written_disagreement(value: Any) -> str | None:
    """Return a difference between a backend and orjson over the text of a payload, or None."""
    expected: bytes | str
    # orjson makes a str keep its UTF-8, which the core uses: so the core comes before it, and again after it.
    first = _written(_core, value)
    try:
        expected = b'{"jsonrpc":"2.0","id":1,"result":%b}' % dumps_exact(value)
    except orjson.JSONEncodeError as error:
        expected = str(error)
    for found in (first, _written(_core, value), _written(_pure, value)):
        if found != expected:
            return f"found {found!r}, orjson {expected!r}"
    return None


def _written(module: Any, value: Any) -> bytes | str:
    try:
        return module.encode_result(1, value, delimited=False)  # type: ignore[no-any-return]
    except EncodeError as error:
        return str(error)


def stream_disagreement(rng: random.Random, texts: list[bytes], profile: Profile, raw: bool) -> str | None:
    """Return a difference between the backends for one stream in different chunks, or a law that a raw payload breaks,
    or None."""
    framing = rng.choice(("newline", "newline", *FRAMINGS))
    resync = rng.random() < 0.5
    stream = b"".join([(rng.choice(PRINTED) if resync else b"") + framed(rng, text, framing) for text in texts])
    cuts = sorted([rng.randrange(len(stream) + 1) for _ in range(rng.randrange(8))])
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = []
    for module, pieces in ((_core, chunks), (_core, [stream]), (_pure, [stream])):
        decoder = module.Decoder(framing, profile, raw=raw, resync=resync)
        bound = rng.choice((None, 1, 2))
        items = [item for piece in pieces for item in _fed(decoder, piece, bound)] + decoder.close()
        found.append([shown(module, item) for item in items])
        if raw:
            decoder = module.Decoder(framing, profile, resync=resync)
            broken = broken_law_of_stream(module, items, decoder.feed(stream) + decoder.close(), profile)
            if broken is not None:
                return broken
    if found[0] != found[1] or found[0] != found[2]:
        return f"{framing} {chunks!r}: in chunks {found[0]!r}, at once {found[1]!r}, pure {found[2]!r}"
    return None


def _fed(decoder: Any, piece: bytes, bound: int | None) -> list[Any]:
    """The items that a piece of a stream completes, sometimes without those of the last call."""
    items = decoder.feed(piece) if bound is None else decoder.feed(piece, bound)
    while decoder.has_more and len(items) < 3:
        items += decoder.feed(b"", bound)
    return items  # type: ignore[no-any-return]


def framed(rng: random.Random, text: bytes, framing: Framing) -> bytes:
    """A text as a frame, sometimes a bad one, or one that is too large for some profiles."""
    if rng.random() < 0.05:
        text = text.ljust(400)
    if framing == "newline" or rng.random() < 0.1:
        return text + rng.choice((b"\n", b"\n", b"\r\n", b""))
    if framing == "json-seq":
        mark = rng.choice((b"\x1e", b"\x1e", b"\x1e", b"\x1e\x1e", b"", b"\n\x1e"))
        return mark + text[: rng.choice((None, None, None, None, -1, 5))] + rng.choice((b"\n", b"\n", b"", b"x\n"))
    if framing == "concatenated":
        return text + rng.choice((b"", b"", b"\n", b" \r\n", b'"', b"{", b"x\n"))
    if framing == "sse":
        fields = b"".join([rng.choice(FIELDS) for _ in range(rng.randrange(3))])
        name = rng.choice((b"data:", b"data: "))
        return fields + name + text.replace(b"\n", b"\ndata: ") + rng.choice((b"\n\n", b"\r\n\r\n", b"\r\r", b"\n"))
    if delimiter := FRAMINGS[framing].delimiter:
        return rng.choice((b"", b"", b"\n", b" ")) + text + rng.choice((b"", b"", b"\r", b"\n")) + delimiter
    name = rng.choice((b"Content-Length: ", b"Content-Length: ", b"content-length:"))
    length = len(text) + (rng.random() < 0.05)
    return b"%b%d%b%b" % (name, length, rng.choice(HEADERS_ENDS), text)


def run(seed: int, inputs: float, seconds: float) -> tuple[int, str | None]:
    """Compare as many texts as requested. Return how many were compared, and the first difference."""
    rng = random.Random(seed)
    texts = seeds()
    values = Values(rng)
    objects = Objects(rng)
    ends = time.monotonic() + seconds
    done = 0
    while done < inputs and time.monotonic() < ends:
        text = message(rng, texts)
        profile = rng.choice(PROFILES)
        raw = rng.random() < 0.3
        if rng.random() < 0.02:
            _core._use_templates(*rng.choice(TEMPLATES))
        found = disagreement(text, profile, raw) or template_disagreement(text)
        if found is None and rng.random() < 0.2:
            found = entry_disagreement(text, profile, raw)
        if found is None and rng.random() < 0.3:
            found = dict_disagreement(rng, text, profile) or form_disagreement(rng, text, profile, raw)
        done += 1
        for _ in range(VALUES):
            if found is None:
                text = values.next()
                found = value_disagreement(text)
                if found is None and rng.random() < 0.2:
                    found = template_disagreement(b'{"jsonrpc":"2.0","id":1,"result":%b}' % text)
                done += 1
        if found is None:
            value = objects.next()
            text = repr(value).encode("utf-8", "surrogatepass")
            found = written_disagreement(value)
            done += 1
        if found is None and rng.random() < 0.05:
            found = stream_disagreement(rng, [message(rng, texts) for _ in range(rng.randrange(6))], profile, raw)
        if found is not None:
            return done, f"{profile!r} raw={raw} {text!r}: {found}"
    return done, None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many texts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="maximum time")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="share the texts; each has a seed of its own")
    options = parser.parse_args(arguments)
    count = options.processes
    shares = [[options.seed + number for number in range(count)], [-(-options.inputs // count)] * count]
    if count == 1:
        found = [run(options.seed, options.inputs, options.seconds)]
    else:
        with ProcessPoolExecutor(count) as pool:
            found = list(pool.map(run, *shares, [options.seconds] * count))
    for _, difference in found:
        if difference is not None:
            print(difference)
            return 1
    done = sum(done for done, _ in found)
    seed = f"seed {options.seed}" if count == 1 else f"seeds {options.seed} to {options.seed + count - 1}"
    print(f"{done} inputs, {seed}: no disagreement")
    return 0


if __name__ == "__main__":
    sys.exit(main())
