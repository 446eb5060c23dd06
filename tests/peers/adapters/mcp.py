"""The MCP SDK 2 and 1, and fastmcp: their own tests, and calls from a client to a server process.

The SDK's streams in memory are replaced, too, so that the messages of all tests pass through the codec.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from ...support.places import PACKAGE, PEERS, ROOT
from ..venvs import python_of
from .library import Library, Works
from .timing import interleaved

IN_FLIGHT: Final = 32
CALL_SECONDS: Final = 3.0
CALL_ROUNDS: Final = 5
SECONDS: Final = 600
FOLDERS: Final = [str(PACKAGE.parent), str(Path(orjson.__file__).parents[1])]
"""Where environments of other releases find the adapter and its dependencies."""

OPTIONS: Final = ["-p", "anyio", "-p", "no:hypothesispytest", "--tb=no", "-o", "log_cli=false"]


def install() -> None:
    """Replace the SDK's functions and its memory streams by the adapter."""
    import mcp.shared.memory

    from jsonrpc_fast.adapters import mcp as adapter
    from jsonrpc_fast.transports import memory_pair

    sdk_streams = mcp.shared.memory.create_client_server_memory_streams

    @asynccontextmanager
    async def memory_streams() -> AsyncIterator[tuple[Any, Any]]:
        if not adapter._is_on_asyncio():
            async with sdk_streams() as streams:
                yield streams
            return
        here, there = memory_pair(**adapter.OPTIONS, drain_seconds=0)
        async with adapter.streams_over(here) as one, adapter.streams_over(there) as other:
            # The tests end a session by closing its write stream, which has no effect on stdio.
            for (_, write_stream), transport in ((one, here), (other, there)):
                stream: Any = write_stream
                stream.aclose = transport.close
                stream.close = lambda end=transport.close: asyncio.ensure_future(end())
            yield one, other

    adapter.install()
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get("create_client_server_memory_streams") is sdk_streams:
            names["create_client_server_memory_streams"] = memory_streams


# The source of the function, because the SDK's tests are a package `tests`, too.
INSTALL: Final = f"""
from __future__ import annotations
import asyncio, sys
from contextlib import asynccontextmanager

{inspect.getsource(install)}

if "pytest" in sys.orig_argv:  # not in the servers that the tests start
    install()
"""

_REPLACES_PRIVATE: Final = """
    test_messages_split_and_packed_across_chunks_are_reframed
    test_each_outgoing_message_is_written_as_exactly_one_line
    test_invalid_json_from_the_server_surfaces_as_an_in_stream_exception
    test_a_server_that_dies_before_responding_fails_initialize_with_connection_closed
    test_a_server_that_exits_on_stdin_close_is_never_terminated
    test_cancelling_the_client_still_runs_the_full_shutdown
    test_writing_after_the_server_dies_reports_clean_closure
    test_exiting_with_an_unconsumed_server_message_does_not_raise
    test_spawn_failure_propagates_the_error_and_leaks_no_streams
    test_cancellation_during_windows_command_resolution_returns_before_resolution_finishes
    test_cancellation_during_spawn_leaks_no_streams
    test_a_non_oserror_spawn_failure_propagates_and_leaks_no_streams
    test_a_message_sent_just_before_exit_is_flushed_to_the_server
    test_a_failed_write_to_a_live_server_closes_the_read_stream_instead_of_hanging
    test_exit_completes_when_a_write_is_wedged_in_a_pipe_no_one_reads
    test_undelivered_server_output_is_drained_at_shutdown_so_the_server_can_exit
    test_shutdown_drains_stdout_first_so_a_wedged_writers_flush_can_complete
    test_cancellation_with_undelivered_backlog_still_drains_and_spares_the_server
    test_invalid_utf8_flushed_by_a_dying_server_does_not_break_shutdown
    test_a_kill_racing_a_pending_stdout_read_is_swallowed_during_shutdown
    test_a_mid_session_stdout_failure_is_logged_and_surfaces_as_clean_closure
    test_a_failing_stdout_close_still_closes_the_transport_streams
    test_a_process_surviving_the_kill_escalation_is_logged_and_abandoned
    test_a_graceful_exit_with_a_surviving_child_leaks_no_pipe_fds
    test_a_server_that_exits_on_stdin_close_is_reaped_and_never_terminated
    test_a_server_that_exits_mid_session_keeps_its_own_exit_code
    test_server_stderr_output_reaches_the_errlog_file
"""
_LEAVES_CHILDREN: Final = """
    test_a_gracefully_exiting_servers_child_survives_the_client_shutdown
    test_a_surviving_childs_write_to_the_inherited_stdout_fails_with_epipe
"""
_FAILS_ON_POPEN: Final = """
    test_client_with_stdio_parameters_launches_the_server_as_a_subprocess
    test_tool_call_and_notification_round_trip_over_a_stdio_subprocess
    test_a_tool_spawned_childs_stdout_writes_never_reach_the_wire
"""
FAILURES: Final = {
    **dict.fromkeys(
        _REPLACES_PRIVATE.split(), "replaces a private function of the SDK, which the adapter does not call"
    ),
    **dict.fromkeys(
        _FAILS_ON_POPEN.split(),
        "forbids `os.read`, with which `subprocess.Popen` waits for the child to start; asyncio's way to start a child "
        "does the same and is exempt by its name: both are right",
    ),
    **dict.fromkeys(
        _LEAVES_CHILDREN.split(),
        "expects that what a server has started outlives it; the adapter ends it with the server",
    ),
    "test_a_second_stdio_server_on_the_same_process_streams_is_refused": (
        "compares the text of the error: both are right"
    ),
}


def measure() -> Works:
    from mcp.shared.message import SessionMessage

    from jsonrpc_fast import decode
    from jsonrpc_fast.adapters import mcp as adapter

    from ..sdk_server import TEXTS, TOOLS

    types = adapter.types
    is_old = isinstance(types.JSONRPCMessage, type)

    def read(line: bytes) -> Any:
        if is_old:
            return SessionMessage(types.JSONRPCMessage.model_validate_json(line.decode()))
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line.decode(), by_name=False))

    def write(message: Any) -> bytes:
        text: str = message.model_dump_json(by_alias=True, **{"exclude_none" if is_old else "exclude_unset": True})
        return (text + "\n").encode()

    found: Works = {}
    arguments = {"query": "weather in Lisbon tomorrow", "limit": 10, "units": "metric", "lang": "en"}
    messages: dict[str, dict[str, Any]] = {
        size: {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
        for size, text in TEXTS.items()
    }
    messages["small"] = {
        "method": "tools/call",
        "params": {"name": "search", "arguments": arguments, "_meta": {"progressToken": 1}},
    }
    messages["80 kB of tools"] = {"result": {"tools": TOOLS}}
    for size, members in messages.items():
        line = json.dumps({"jsonrpc": "2.0", "id": 1, **members}, separators=(",", ":")).encode()
        message = read(line).message
        found[_name("decode", size)] = interleaved(
            lambda line=line: read(line), lambda line=line: adapter.to_session_message(decode(line, adapter.PROFILE))
        )
        root = message.root if is_old else message
        found[_name("encode", size)] = interleaved(
            lambda message=message: write(message), lambda root=root: adapter.to_line(root)
        )
    return found | asyncio.run(_measure_calls(list(TEXTS)))


def _name(work: str, size: str) -> str:
    return f"{work} {size}" if size in ("small", "80 kB") else f"{work}: {size}"


@asynccontextmanager
async def _calls(transport: str, errlog: Any) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Yield a function that calls the tool of a server process."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from jsonrpc_fast.adapters import mcp as adapter
    from jsonrpc_fast.codec import BACKEND

    connect: Any = stdio_client if transport == "sdk" else adapter.stdio_client
    command = [str(PEERS / "sdk_server.py"), transport, *FOLDERS]
    env = {"JSONRPC_FAST_PURE": "1" if BACKEND == "python" else "0"}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=env)
    async with connect(parameters, errlog) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.list_tools()

        async def call(size: str) -> None:
            result = await session.call_tool("text", {"size": size})
            assert result.content[0].type == "text"

        yield call


async def _measure_calls(sizes: list[str]) -> Works:
    """Time calls from a client of the SDK to a server of the SDK, both without or both with the adapter."""
    found: Works = {}
    async with AsyncExitStack() as stack:
        errlog = stack.enter_context(open(os.devnull, "w"))  # noqa: SIM115
        callers = [await stack.enter_async_context(_calls(transport, errlog)) for transport in ("sdk", "adapter")]
        for size in sizes:
            for in_flight, work in ((1, "end to end"), (IN_FLIGHT, f"end to end, {IN_FLIGHT} in flight")):
                best = [float("inf"), float("inf")]
                end = time.perf_counter() + CALL_SECONDS
                rounds = 0
                while rounds < CALL_ROUNDS or time.perf_counter() < end:
                    for which in (0, 1) if rounds % 2 else (1, 0):
                        begun = time.perf_counter()
                        calls = [callers[which](size) for _ in range(in_flight)]
                        await asyncio.wait_for(asyncio.gather(*calls), SECONDS)
                        best[which] = min(best[which], time.perf_counter() - begun)
                    rounds += 1
                found[_name(work, size)] = best[0] / in_flight, best[1] / in_flight
    return found


def measure_old() -> Works:
    """Measure SDK 1 in an environment that has it."""
    code = f"import sys; sys.path += {FOLDERS!r}; from tests.peers.adapters import mcp; mcp.main()"
    command = [python_of("sdk1"), "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=SECONDS)
    return {work: (without, with_it) for work, (without, with_it) in json.loads(run.stdout).items()}


def main() -> None:
    print(json.dumps(measure()))


SDK: Final = Library(
    name="mcp",
    adapter="mcp",
    install=INSTALL,
    tests=[
        *("tests/client", "tests/interaction", "tests/server/test_stdio.py", "tests/shared", "tests/transports"),
        *OPTIONS,
    ],
    package="src",
    needs=[
        "blockbuster>=1.5",
        "coverage>=7",
        "dirty-equals>=0.9",
        "inline-snapshot>=0.23",
        "logfire>=3",
        "mcp[cli]>=2",
        "pydantic-settings>=2.5",
        "pytest-examples>=0.0.14",
        "trio>=0.26",
    ],
    failures=FAILURES,
    measure=measure,
)
SDK_1: Final = Library(
    name="mcp",
    label="mcp1",
    adapter="mcp",
    install=INSTALL,
    tests=[
        *("tests/client", "tests/issues", "tests/server/test_stdio.py", "tests/shared/test_memory.py"),
        *("tests/shared/test_progress_notifications.py", "tests/shared/test_session.py"),
        *OPTIONS,
    ],
    package="src",
    needs=[
        "dirty-equals>=0.9",
        "inline-snapshot>=0.23",
        "mcp[cli,ws]>=1.27,<2",
        "pytest-examples>=0.0.14",
        "trio>=0.26",
    ],
    measure=measure_old,
)
FASTMCP: Final = Library(
    name="fastmcp",
    adapter="mcp",
    install=INSTALL,
    tests=[
        *("tests/client", "tests/server/test_server.py", "tests/server/mount", "tests/server/middleware"),
        *[f"tests/server/test_{part}.py" for part in ("context", "sessions", "pagination", "completions")],
        *("tests/server/test_protocol_eras.py", "tests/test_mcp_config.py", "tests/test_apps.py"),
        # Some files need packages that these tests do not use, such as clients of language models.
        *("--continue-on-collection-errors", "-o", "asyncio_mode=auto", *OPTIONS),
    ],
    package="fastmcp_slim",
    needs=["fastmcp>=4", "inline-snapshot>=0.27", "opentelemetry-sdk>=1.20", "psutil>=7", "pytest-asyncio>=1.2"],
)
