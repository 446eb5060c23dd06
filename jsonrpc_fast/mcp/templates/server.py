"""A server of a folder of text templates: each is a prompt, and a resource to read.

Reading and rendering block, so they are done in threads. What is changed in the folder is seen by the watcher of
the system, and by polling where it has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import watchfiles

from ..._version import __version__
from ...transports.protocol import Transport
from ...transports.stdio.main import run_stdio
from ..protocol.definitions import Prompt, Resource
from ..server.server import Server
from .prompts import TemplatePrompts

_SETTLING_MS: Final = 200  # a burst of changes is taken for one
_WATCHER_STEP_MS: Final = 50
_LOOKING_MS: Final = 10_000
_GRACE_SECONDS: Final = 1.0  # after a signal; nearly every template is rendered in less
_INSTRUCTIONS: Final = "Each prompt is a text template of one folder. The same files can be read as resources."

_logger: Final = logging.getLogger("jsonrpc_fast.mcp")


class TemplateFolder:
    """The templates of a folder, as a `Source` of a server. Raises NotADirectoryError for what is no folder.

    The folder is read for the first time in the background, and what is asked before that waits for it: a template
    that takes long to compile does not keep a client from beginning.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._templates = TemplatePrompts(directory, read=False)
        self._first: asyncio.Task[object] | None = None

    async def prompts(self) -> Sequence[Prompt]:
        return (await self._read()).prompts()

    async def resources(self) -> Sequence[Resource]:
        return (await self._read()).resources()

    async def get(self, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
        return await asyncio.to_thread(self._templates.get, name, arguments) if await self._has(name) else None

    async def read(self, uri: str) -> dict[str, Any] | None:
        return (await self._read()).read(uri)

    async def complete(self, name: str, argument: dict[str, str]) -> dict[str, Any] | None:
        return self._templates.complete(name, argument) if await self._has(name) else None

    async def _has(self, name: str) -> bool:
        return any(prompt.name == name for prompt in await self.prompts())

    async def _read(self) -> TemplatePrompts:
        """The templates, as soon as the folder was read once."""
        await asyncio.shield(self._begin_reading())  # whoever waits may be cancelled
        return self._templates

    def _begin_reading(self) -> asyncio.Task[object]:
        if self._first is None:
            self._first = asyncio.create_task(asyncio.to_thread(self._templates.refresh))
        return self._first

    async def watch(self, server: Server, stop: asyncio.Event) -> None:
        """Tells the server's clients of changes, until `stop`. When the folder cannot be watched, it returns."""
        try:
            # It begins when the watcher waits for the first time, so no change falls between both.
            self._begin_reading()
            async for _ in watchfiles.awatch(
                self._directory,
                watch_filter=None,
                debounce=_SETTLING_MS,
                step=_WATCHER_STEP_MS,
                # Once in a while it is read unasked: some file systems tell of nothing, and a folder may come back.
                rust_timeout=_LOOKING_MS,
                yield_on_timeout=True,
                stop_event=stop,
            ):
                await self._read()
                changes = await asyncio.to_thread(self._templates.refresh)
                if changes.prompts:
                    server.list_changed("prompts")
                if changes.resources:
                    server.list_changed("resources")
                for uri in changes.updated:
                    server.resource_updated(uri)
        except (OSError, RuntimeError) as error:  # the limit on watches; the folder is gone
            _logger.warning("the folder is not watched any more: %s", type(error).__name__)

    def close(self) -> None:
        """Ends what renders. Blocks for a moment."""
        self._templates.close()


def serve_folder(folder: TemplateFolder) -> int:
    """Serves a folder on this process's stdin and stdout, and closes it. Returns the exit code, as `serve_stdio`."""
    server = Server("jsonrpc-fast", __version__, title="Text templates as prompts", instructions=_INSTRUCTIONS)
    server.add_source(folder)

    async def serve(transport: Transport) -> None:
        stop = asyncio.Event()
        watching = asyncio.create_task(folder.watch(server, stop))
        try:
            await server.run(transport)
        finally:
            stop.set()
            # What still renders has a thread each, which the loop is going to wait for. Not in a thread itself: they
            # may all be taken, and each only comes free when what it renders is over its time.
            folder.close()
            await watching

    return run_stdio(serve, on_signal=server.end_subscriptions, grace_seconds=_GRACE_SECONDS, profile=server.profile)
