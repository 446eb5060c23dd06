"""An event store that several workers share: it keeps the events of MCP streams in Redis.

It needs the extras `mcp` and `redis`.

    store = RedisEventStore(redis.asyncio.from_url("redis://localhost"))

Rules, in addition to those of `EventStore`:
  - Each MCP stream is a Redis stream with consecutive event numbers, written by one worker. A gap in the numbers shows
    a reader that Redis has lost or trimmed events.
  - The worker that writes a stream renews its expiry. The streams of a worker that died expire after 30 seconds,
    and their followers get `EventsLost`.
  - An event that Redis does not store in time is still sent. After that, no more events of its stream are stored, so
    the stream can no longer be resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..errors import ConnectionLost, EventsLost, StateError
from ..support import check_count, check_seconds, logger_of

try:
    from redis.asyncio import Redis
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.exceptions import RedisError, ResponseError

    from ..mcp.http import parse_event_id
except ImportError as _missing:
    raise ImportError(
        'this adapter needs the extras `mcp` and `redis`: pip install "jsonrpc_fast[mcp,redis]"'
    ) from _missing

__all__ = ["RedisEventStore"]

_Command: TypeAlias = "tuple[str | bytes | int, ...]"
_Commands: TypeAlias = "tuple[_Command, ...]"

# A pipeline is written and read as a whole: these bound the memory, and how long the first command waits for the last.
_PIPELINE_ITEMS: Final = 256
_PAUSE_SECONDS: Final = 1.0
"""How long the store sends nothing to Redis after Redis failed to respond."""


_DATA: Final = b"d"
_END: Final = b"e"

_logger: Final = logger_of("mcp")


@dataclass(slots=True, eq=False)
class _Writing:
    """A stream that this worker writes: the number of its last event, and whether an event could not be stored."""

    number: int = 0
    is_broken: bool = False


class RedisEventStore:
    """An `EventStore` in Redis 6.2 or later (it uses NOMKSTREAM), or in a compatible server.

    Args:
        client: A client of redis-py, without `decode_responses`. The store does not close it.
        prefix: The prefix of all keys and channels. The store owns the keys with this prefix: it overwrites and deletes
            them, whatever their type.
        max_events: The approximate maximum number of events kept in a stream.
        max_age_seconds: Seconds that a stream is kept after its end.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self, client: Redis, *, prefix: str = "jsonrpc_fast:", max_events: int = 1000, max_age_seconds: float = 300.0
    ) -> None:
        check_count("max_events", max_events, 1, may_be_none=False)
        check_seconds("max_age_seconds", max_age_seconds, may_be_none=False)
        if max_age_seconds < 0.001:
            raise ValueError("max_age_seconds must be 0.001 seconds or more")
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            raise ValueError("the client must not decode responses")
        self._client = client
        self._prefix = prefix
        self._max_events = max_events
        self._max_age_ms = int(max_age_seconds * 1000)
        self._lease_seconds = 30.0  # how long a stream is kept after its worker has died
        self._command_seconds = 1.0  # that Redis may take to store or to read events
        self._writing: dict[str, _Writing] = {}
        self._queue: list[tuple[_Commands, asyncio.Future[list[Any]]]] = []
        self._paused_until = 0.0
        self._said = ""  # the last refusal in the log
        self._renewal: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}  # at most one for each purpose
        self._followers: dict[bytes, set[asyncio.Event]] = {}  # by channel
        self._changed_channels: set[bytes] = set()

    async def append(self, stream: str, data: bytes | None) -> str:
        writing = self._writing.get(stream)
        key = self._key(stream)
        field = (b"n", b"") if data is None else (_DATA, data)
        trim = ("MAXLEN", "~", self._max_events)
        if writing is None:
            writing = self._writing[stream] = _Writing()
            self._renew_later()
            # "1-0" fails if the stream exists: then another worker writes a stream of this name, or the command ran
            # twice.
            commands: _Commands = ("XADD", key, *trim, "1-0", *field), ("PEXPIRE", key, self._lease_ms)
        else:
            id = f"{writing.number + 1}-0"
            # NOMKSTREAM: a stream whose lease has expired must not begin again in the middle. PUBLISH wakes the
            # followers.
            commands = ("XADD", key, "NOMKSTREAM", *trim, id, *field), ("PUBLISH", key, b"")
        writing.number += 1
        event_id = f"{stream}-{writing.number}"
        if not writing.is_broken:
            await self._write(key, writing, commands)
        return event_id

    async def end(self, stream: str) -> None:
        writing = self._writing.pop(stream, None)
        if writing is None:
            return
        if not self._writing and self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        key = self._key(stream)
        if not writing.is_broken:
            id = f"{writing.number + 1}-0"
            last = "XADD", key, "NOMKSTREAM", id, _END, b""
            await self._write(key, writing, (last, ("PEXPIRE", key, self._max_age_ms), ("PUBLISH", key, b"")))

    async def stream_of(self, event_id: str) -> str | None:
        try:
            stream, number = parse_event_id(event_id)
            # Two events are enough to see whether the next one exists.
            await self._read(stream, number, 2)
        except EventsLost:
            return None
        return stream

    async def follow(self, event_id: str) -> AsyncIterator[tuple[str, bytes]]:
        stream, number = parse_event_id(event_id)
        with self._watching(self._key(stream), self._key(stream.partition("/")[0])) as changed:
            read_until = time.monotonic() + self._lease_seconds
            while True:
                # Cleared before the read: an event that is published during the read sets it again, and none is missed.
                changed.clear()
                try:
                    events = await self._read(stream, number, 100)
                except ConnectionLost:
                    if time.monotonic() > read_until:
                        raise
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                read_until = time.monotonic() + self._lease_seconds
                for fields in events:
                    if _END in fields:
                        return
                    number += 1
                    if _DATA in fields:
                        yield f"{stream}-{number}", fields[_DATA]
                if not events:
                    with contextlib.suppress(asyncio.TimeoutError):
                        # Announcements may be lost with a connection, so the stream is read again from time to time.
                        # That also shows that its worker has died.
                        await asyncio.wait_for(changed.wait(), self._lease_seconds / 2)

    async def forget(self, session: str) -> None:
        key = self._key(session)
        # The mark of a forgotten session outlives its streams: their followers in other workers see it before the
        # streams expire.
        milliseconds = max(self._max_age_ms, 2 * self._lease_ms)
        commands: list[_Command] = [("SET", key, b"", "PX", milliseconds), ("PUBLISH", key, b"")]
        for stream in [stream for stream in self._writing if stream.partition("/")[0] == session]:
            self._writing[stream].is_broken = True
            commands.append(("DEL", self._key(stream)))
        with contextlib.suppress(ConnectionLost):
            await self._execute(*commands)

    async def aclose(self) -> None:
        """End the tasks of the store. The client stays open."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    @property
    def _lease_ms(self) -> int:
        return int(self._lease_seconds * 1000)

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

    # Writing.

    async def _write(self, key: bytes, writing: _Writing, commands: _Commands) -> None:
        """Store an event. If that fails, store no more events of the stream."""
        try:
            added = (await self._execute(*commands))[0]
        except ConnectionLost:
            added = None
        if not isinstance(added, bytes) and not _is_stored_already(added):
            writing.is_broken = True
            _logger.warning("a stream of events cannot be resumed: Redis did not store an event: %r", added)
            with contextlib.suppress(ConnectionLost):
                # A follower must get `EventsLost` now instead of waiting for events that are never stored.
                await self._execute(("DEL", key), ("PUBLISH", key, b""))

    def _renew_later(self) -> None:
        if self._renewal is None:
            # A third of the lease: two renewals in a row may fail.
            self._renewal = asyncio.get_running_loop().call_later(self._lease_seconds / 3, self._renew)

    def _renew(self) -> None:
        """Renew the expiry of the streams that this worker writes, and delete those that are broken."""
        self._renewal = None
        if self._writing:
            self._renew_later()
            self._start("renew", self._renew_streams)

    async def _renew_streams(self) -> None:
        streams = list(self._writing.items())
        for at in range(0, len(streams), _PIPELINE_ITEMS):
            some = streams[at : at + _PIPELINE_ITEMS]
            keys = [self._key(stream) for stream, _ in some]
            commands: list[_Command] = [
                ("DEL", key) if writing.is_broken else ("PEXPIRE", key, self._lease_ms)
                for key, (_, writing) in zip(keys, some, strict=True)
            ]
            with contextlib.suppress(ConnectionLost):
                for found, (stream, writing) in zip(await self._execute(*commands), some, strict=True):
                    # PEXPIRE returned 0: Redis has lost the stream. Its first event may still be on its way.
                    if not found and self._writing.get(stream) is writing and writing.number > 1:
                        writing.is_broken = True

    # Commands.

    async def _execute(self, *commands: _Command) -> list[Any]:
        """Run commands in a pipeline, and return responses or exceptions. At a ConnectionLost, some may have run."""
        # Otherwise, while Redis hangs, each event would wait for the whole timeout and delay the sending.
        if time.monotonic() < self._paused_until:
            raise ConnectionLost("Redis does not respond")
        responses: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._queue.append((commands, responses))
        # One pipeline at a time: commands that arrive meanwhile are sent together in the next one, and the events of a
        # stream keep their order.
        self._start("flush", self._flush)
        return await responses

    async def _flush(self) -> None:
        """Run the queued commands, including those that are queued in the meantime."""
        while self._queue:
            some = self._take_queued()
            try:
                commands = [command for queued, _ in some for command in queued]
                responses = await asyncio.wait_for(self._run(commands), self._command_seconds)
            except (TimeoutError, RedisError, OSError) as error:
                if time.monotonic() > self._paused_until:
                    _logger.warning("Redis does not respond: %r", error)
                self._paused_until = time.monotonic() + _PAUSE_SECONDS
                self._fail(some, error)
                self._fail(self._queue, error)
                self._queue.clear()
            # Cancelled by `aclose`: no caller may wait forever for its response.
            except asyncio.CancelledError:
                self._fail(some + self._queue, StateError("the event store is closed"))
                self._queue.clear()
                raise
            else:
                for command, response in zip(commands, responses, strict=True):
                    if isinstance(response, Exception) and command[0] != "XADD":  # `_write` reports that one
                        self._say("Redis refused a command: %s", response)
                rest = iter(responses)
                for queued, future in some:
                    own = [next(rest) for _ in queued]
                    # The caller may have been cancelled.
                    if not future.done():
                        future.set_result(own)

    async def _run(self, commands: Iterable[_Command]) -> list[Any]:
        """Run commands. If the connection breaks, run them again: any of them may run twice."""
        # The delays before a pipeline is sent again because its connection broke.
        retries = iter((0.0, 0.05, 0.2))
        while True:
            # No transaction is needed: the commands belong to independent streams.
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            try:
                return await pipeline.execute(raise_on_error=False)
            except (RedisConnectionError, OSError):
                delay = next(retries, None)
                if delay is None:
                    raise
                await asyncio.sleep(delay)

    def _say(self, text: str, fault: Exception) -> None:
        """Log why something is refused, unless that was the last refusal."""
        if self._said != str(fault):
            self._said = str(fault)
            _logger.warning(text, fault)

    def _take_queued(self) -> list[tuple[_Commands, asyncio.Future[list[Any]]]]:
        """Remove commands from the queue, enough for a pipeline of moderate size."""
        size = count = 0
        for commands, _ in self._queue:
            count += 1
            size += sum(len(part) for command in commands for part in command if isinstance(part, bytes))
            if count >= _PIPELINE_ITEMS or size >= 1024 * 1024:
                break
        some = self._queue[:count]
        del self._queue[:count]
        return some

    def _fail(self, queued: list[tuple[_Commands, asyncio.Future[list[Any]]]], error: Exception) -> None:
        for _, future in queued:
            if not future.done():
                lost = ConnectionLost("Redis does not respond")
                lost.__cause__ = error
                future.set_exception(lost)

    def _start(self, purpose: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function in a task, unless a task for that purpose is already running."""
        running = self._tasks.get(purpose)
        # asyncio keeps weak references to tasks only, so the store holds them.
        if running is None or running.done():
            self._tasks[purpose] = asyncio.create_task(work())

    # Reading.

    async def _read(self, stream: str, number: int, count: int) -> list[dict[bytes, bytes]]:
        """Return the fields of the events after a number.

        Raises:
            EventsLost: Events are missing, or the session has been forgotten.
            ConnectionLost: Redis does not respond.
        """
        # Read the event with that number, too: if neither it nor the next one exists, events may be missing.
        read = "XRANGE", self._key(stream), f"{number}-0", "+", "COUNT", count
        # The key of the session is the mark that `forget` leaves.
        events, is_forgotten = await self._execute(read, ("EXISTS", self._key(stream.partition("/")[0])))
        if isinstance(events, Exception):
            raise EventsLost("Redis does not have the stream") from events
        if is_forgotten or not events:
            raise EventsLost("the events after this one are not stored")
        numbers = [int(id.partition(b"-")[0]) for id, _ in events]
        # The numbers of a stream are consecutive, so a gap shows that Redis has trimmed or lost events.
        first = numbers[0]
        if first > number + 1 or numbers != list(range(first, first + len(numbers))):
            raise EventsLost("events after this one were dropped")
        return [fields for at, (_, fields) in zip(numbers, events, strict=True) if at > number]

    @contextlib.contextmanager
    def _watching(self, *channels: bytes) -> Iterator[asyncio.Event]:
        """Set an event whenever Redis publishes on one of the channels."""
        changed = asyncio.Event()
        for channel in channels:
            self._followers.setdefault(channel, set()).add(changed)
        self._changed_channels.update(channels)
        self._start("listen", self._listen)
        try:
            yield changed
        finally:
            for channel in channels:
                followers = self._followers[channel]
                followers.remove(changed)
                if not followers:
                    del self._followers[channel]
                    self._changed_channels.add(channel)

    async def _listen(self) -> None:
        """Receive the announcements of Redis while any stream has a follower."""
        # One task does all work on the connection: redis-py cannot read and reconnect at the same time.
        while self._followers:
            pubsub: Any = self._client.pubsub()
            # A new connection has no subscriptions: all are made again.
            self._changed_channels = set(self._followers)
            try:
                while self._followers:
                    if self._changed_channels:
                        changed, self._changed_channels = self._changed_channels, set()
                        new = changed & self._followers.keys()
                        if new:
                            await pubsub.subscribe(*new)
                        if changed - new:
                            await pubsub.unsubscribe(*(changed - new))
                    # The approximate time until a new follower is subscribed to its channels.
                    message = await pubsub.get_message(timeout=0.1)
                    # The confirmation of a subscription also wakes the followers: an event may have come before it.
                    if message is not None:
                        for event in self._followers.get(message["channel"], ()):
                            event.set()
            except (RedisError, OSError) as error:
                self._say("Redis does not announce events, so that followers in other workers get them late: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                with contextlib.suppress(RedisError, OSError):
                    await pubsub.aclose()


def _is_stored_already(fault: object) -> bool:
    """Return whether an event was stored before the connection broke, and was sent again."""
    return isinstance(fault, ResponseError) and "equal or smaller" in str(fault)
