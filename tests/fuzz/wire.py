"""What the targets of endpoints share: a transport without a channel, the accounting of responses, the watched log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections import Counter
from collections.abc import Coroutine, Hashable, Iterable, Iterator
from typing import Any, Final

from jsonrpc_fast import Decoder, ParseError, Profile, Request
from jsonrpc_fast.transports.channel import Channel, Events
from jsonrpc_fast.transports.connection import Connection, State

from .codec_targets import chunks
from .target import CANARY, check

MAX_RUN_SECONDS: Final = 20.0


class _Wire(Channel):
    """Keeps what is written. If it is not taken, it stays unwritten."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_taken = True

    async def open(self, events: Events) -> None:
        self._events = events

    def write(self, data: bytes) -> None:
        self.sent += data

    @property
    def unwritten(self) -> int:
        return 0 if self.is_taken else len(self.sent)

    def finish(self) -> None:
        self.abort()

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._events.lost, None)


class WireTransport(Connection):
    """A transport whose bytes a target provides, and whose sent bytes it keeps."""

    channel: _Wire

    def __init__(self, profile: Profile) -> None:
        super().__init__(_Wire(), profile=profile)

    @property
    def sent(self) -> bytearray:
        return self.channel.sent

    async def play(self, stream: bytes, selector: int) -> None:
        """Receive a stream in chunks, with some turns of the loop in between, and its end."""
        received = self.channel_events.received
        for number, piece in enumerate(chunks(stream, selector)):
            while not self.is_reading and self.state is State.RUNNING:
                await asyncio.sleep(0)
            if self.state is State.CLOSED:
                return  # a channel reports nothing after its loss
            if piece:
                received(piece)
            if number % 3 == selector % 3:
                await asyncio.sleep(0)
        for _ in range(selector % 5):
            await asyncio.sleep(0)
        if self.state is not State.CLOSED:
            received(b"")


class _Watch(logging.Handler):
    """Keeps log records with a part of the input."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        first, _, rest = text.partition("\n")
        # The method and the id of a request whose handler failed are in the log, shortened.
        if CANARY in rest or (CANARY in first and not first.startswith("the handler of ")):
            self.found.append(text)


_watch: Final = _Watch()
_WATCHED: Final = ("jsonrpc_fast", "asyncio")
_LEVELS: Final = {"jsonrpc_fast": logging.INFO, "jsonrpc_fast.session": logging.DEBUG}
"""The log of transports shows methods and ids on purpose, at the level DEBUG."""
_loop: asyncio.AbstractEventLoop | None = None


def run(work: Coroutine[Any, Any, Hashable]) -> Hashable:
    """Run a coroutine to its end on the shared loop, and check that it leaves no task and logs no part of the input."""
    global _loop
    if _loop is None:
        _loop = asyncio.new_event_loop()
        _loop.set_exception_handler(_on_loop_error)
    _watch.found.clear()
    with _watched_log():
        try:
            outcome = _loop.run_until_complete(asyncio.wait_for(work, MAX_RUN_SECONDS))
        finally:
            left = asyncio.all_tasks(_loop)
            for task in left:
                task.cancel()
        if left:
            _loop.run_until_complete(asyncio.sleep(0))
    check(not left, "tasks are left", left)
    check(not _watch.found, "the input is in the log", _watch.found)
    return outcome


@contextlib.contextmanager
def _watched_log() -> Iterator[None]:
    """Watch the log, and leave it unchanged for other tests in this process."""
    loggers = [logging.getLogger(name) for name in {*_LEVELS, *_WATCHED}]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
    for name in _WATCHED:
        logging.getLogger(name).addHandler(_watch)
        logging.getLogger(name).propagate = False
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.setLevel(level)
            logger.propagate = propagate
            logger.removeHandler(_watch)


def _on_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _watch.found.append(f"{context}")


def read_items(stream: bytes, profile: Profile) -> list[Any]:
    """Return the messages of a stream of lines, those of batches one by one."""
    decoder = Decoder("newline", profile)
    found = []
    for item in [*decoder.feed(stream), *decoder.close()]:
        found += item if isinstance(item, list) else [item]
    return found


def id_key(id: object) -> Hashable:
    """Return a key that is equal only for ids of the same type and value."""
    return type(id).__name__, id


class Replies:
    """What was sent: responses by id, and other messages.

    Args:
        sent: Lines.
    """

    def __init__(self, sent: bytes) -> None:
        self.by_id: Counter[Hashable] = Counter()
        self.messages: list[dict[str, Any]] = []
        check(not sent or sent.endswith(b"\n"), "the last line has no end", bytes(sent[-80:]))
        for line in bytes(sent).splitlines():
            value = json.loads(line)
            if isinstance(value, list):
                check(bool(value), "an empty batch was sent")
            for item in value if isinstance(value, list) else [value]:
                self._add(item, line)

    def _add(self, item: Any, line: bytes) -> None:
        check(isinstance(item, dict) and item.get("jsonrpc") == "2.0", "not a message", line)
        if "method" in item:
            self.messages.append(item)
            return
        check(("result" in item) != ("error" in item) and "id" in item, "not a response", line)
        self.by_id[id_key(item["id"])] += 1
        if "error" in item:
            message = item["error"]["message"]
            # The URI of a resource that is not there is named: it is what the caller must correct.
            check(CANARY not in message or message.startswith("Resource not found: "), "the input is in an error", line)

    @property
    def count(self) -> int:
        return self.by_id.total()


def check_replies(items: Iterable[Any], replies: Replies, dropped: int, minimum_faults: int = 0) -> None:
    """Check that each request got exactly one response, and nothing else got one.

    Args:
        items: The messages and faults received.
        replies: What was sent.
        dropped: The maximum number of requests without a response, because they were cancelled.
        minimum_faults: The minimum number of responses to faults.
    """
    requests: Counter[Hashable] = Counter()
    faults: Counter[Hashable] = Counter()
    for item in items:
        if type(item) is Request:
            requests[id_key(item.id)] += 1
        elif isinstance(item, ParseError) and item.reply_expected:
            faults[id_key(item.id)] += 1
    unexpected = replies.by_id - (requests + faults)
    check(not unexpected, "replies to nothing", unexpected)
    missing = requests - replies.by_id
    check(missing.total() <= dropped, "requests without a reply", missing)
    check(replies.count >= requests.total() - dropped + minimum_faults, "too few replies", replies.by_id)


def lines(rng: random.Random, messages: Iterable[bytes]) -> bytes:
    """Return messages as a stream."""
    return b"".join(
        [message.replace(b"\n", b" ") + rng.choice((b"\n", b"\n", b"\r\n", b"\n\n")) for message in messages]
    )


def close() -> None:
    """Close the loop. The next `run` makes another one."""
    global _loop
    if _loop is not None:
        _loop.close()
        _loop = None
