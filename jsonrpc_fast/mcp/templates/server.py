"""A server for a folder of text templates: each template is a prompt and a resource.

Reading and rendering block, so they run in threads. A file watcher notices changes; polling covers file systems without
notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import watchfiles

from ..._logs import logger_of
from ..._typing import Unpack
from ..._version import __version__
from ...transports.protocol import Transport
from ...transports.stdio.main import run_stdio
from ..applications import HttpOptions
from ..http.serving import run_http
from ..protocol.definitions import Prompt, Resource
from ..server.context import Context
from ..server.providers import Provider
from ..server.server import Server
from .prompts import TemplatePrompts

_DEBOUNCE_MS: Final = 200  # changes that follow each other closer than this are one
_WATCHER_STEP_MS: Final = 50
_POLL_MS: Final = 10_000
_GRACE_SECONDS: Final = 1.0  # after a signal; nearly every template renders in less
_INSTRUCTIONS: Final = "Each prompt is a text template of one folder. The same files can be read as resources."

_logger: Final = logger_of("mcp")


class TemplateFolder(Provider):
    """A folder of templates as a provider of a server.

    The folder is first read in the background, and requests for it wait until then: a template that takes long to
    compile does not delay the handshake.

    Args:
        directory: The folder.

    Raises:
        NotADirectoryError: `directory` is not a folder.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._templates = TemplatePrompts(directory, read=False)
        self._first: asyncio.Task[object] | None = None

    kinds: Collection[str] = ("prompts", "resources")

    async def list_prompts(self, context: Context | None = None) -> Sequence[Prompt]:
        """Return the prompts, sorted by name."""
        return (await self._read()).prompts()

    async def list_resources(self, context: Context | None = None) -> Sequence[Resource]:
        """Return the templates as resources, sorted by URI."""
        return (await self._read()).resources()

    async def get_prompt(
        self, name: str, arguments: dict[str, str], context: Context | None = None
    ) -> dict[str, Any] | None:
        """Return a rendered prompt (`GetPromptResult`); None for an unknown prompt."""
        return await asyncio.to_thread((await self._read()).get, name, arguments)

    async def read_resource(self, uri: str, context: Context | None = None) -> dict[str, Any] | None:
        """Return the text of a template (one of `contents`); None for an unknown URI."""
        return (await self._read()).read(uri)

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        """Return completions of a prompt's argument; None for an unknown prompt."""
        return (await self._read()).complete(str(reference.get("name")), argument)

    async def _read(self) -> TemplatePrompts:
        """Return the templates once the folder has been read."""
        await asyncio.shield(self._begin_reading())  # a cancelled request must not cancel the reading
        return self._templates

    def _begin_reading(self) -> asyncio.Task[object]:
        if self._first is None:
            self._first = asyncio.create_task(asyncio.to_thread(self._templates.refresh))
        return self._first

    async def watch(self, server: Server, stop: asyncio.Event) -> None:
        """Notify the server's clients of changes until `stop` is set; return early if the folder cannot be watched."""
        try:
            # Reading starts when the watcher first waits, so that no change between both is missed.
            self._begin_reading()
            async for _ in watchfiles.awatch(
                self._directory,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_WATCHER_STEP_MS,
                # Polling: some file systems do not notify, and a removed folder may return.
                rust_timeout=_POLL_MS,
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
            _logger.warning("no longer watching the folder: %s", type(error).__name__)

    def close(self) -> None:
        """Kill the rendering processes. Blocks for a moment."""
        self._templates.close()


def serve_folder(folder: TemplateFolder) -> int:
    """Serve a folder on this process's stdin and stdout, and close it. Returns the exit code, like `serve_stdio`."""
    server = _server(folder)

    async def serve(transport: Transport) -> None:
        stop = asyncio.Event()
        watching = asyncio.create_task(folder.watch(server, stop))
        try:
            await server.run(transport)
        finally:
            stop.set()
            # Each running render occupies a thread that the loop waits for at the end. Not in a thread: all of them
            # may be occupied until their renders time out.
            folder.close()
            await watching

    return run_stdio(serve, on_signal=server.end_subscriptions, grace_seconds=_GRACE_SECONDS, profile=server.profile)


def serve_folder_over_http(folder: TemplateFolder, host: str, port: int, **options: Unpack[HttpOptions]) -> int:
    """Serve a folder over HTTP, and close it. The arguments and the exit code are those of `Server.serve_http`."""
    server = _server(folder)

    async def watch(stop: asyncio.Event) -> None:
        try:
            await folder.watch(server, stop)
            await stop.wait()
        finally:
            folder.close()

    return run_http(server.asgi_app(**options), host, port, grace_seconds=_GRACE_SECONDS, alongside=watch)


def _server(folder: TemplateFolder) -> Server:
    server = Server("jsonrpc-fast", __version__, title="Text templates as prompts", instructions=_INSTRUCTIONS)
    server.mount(folder)
    return server
