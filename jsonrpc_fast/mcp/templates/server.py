"""A server for a folder of text templates: each template is a prompt and a resource.

Rules:
  - The folder is read when the lifespan begins. Requests wait for the end of this first reading; their cancellation
    does not cancel it.
  - A file watcher notices changes, and polls as well, because some file systems send no notifications. Only the watcher
    reads the folder again, so two readings never run at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import watchfiles

from ..._version import __version__
from ...support import logger_of
from ..protocol.definitions import Prompt, Resource
from ..server.context import Context
from ..server.providers import Provider
from ..server.server import Server
from .prompts import TemplatePrompts

_GRACE_SECONDS: Final = 1.0  # after a signal; nearly every template renders in less

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

    kinds: Collection[str] = ("prompts", "resources")
    _first: asyncio.Task[object]

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._templates = TemplatePrompts(directory)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Read and watch the folder, and kill the rendering processes at the end."""
        templates = self._templates = TemplatePrompts(self._directory)
        stop = asyncio.Event()
        self._first = asyncio.create_task(asyncio.to_thread(templates.refresh))
        watching = asyncio.create_task(self._watch(stop))
        try:
            yield
        finally:
            stop.set()
            # Each running render occupies a thread for which the loop waits at the end. Closed in this thread, because
            # all others may be occupied until their renders time out.
            templates.close()
            await watching

    async def list_prompts(self, context: Context) -> Sequence[Prompt]:
        """Return the prompts, sorted by name."""
        return (await self._read()).prompts()

    async def list_resources(self, context: Context) -> Sequence[Resource]:
        """Return the templates as resources, sorted by URI."""
        return (await self._read()).resources()

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        """Return a rendered prompt (`GetPromptResult`); None for an unknown prompt."""
        return await asyncio.to_thread((await self._read()).get, name, arguments)

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        """Return the text of a template (one of `contents`); None for an unknown URI."""
        return (await self._read()).read(uri)

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        """Return completions of a prompt's argument; None for an unknown prompt."""
        return (await self._read()).complete(str(reference.get("name")), argument)

    async def _read(self) -> TemplatePrompts:
        """Return the templates once the folder has been read."""
        await asyncio.shield(self._first)  # a cancelled request must not cancel the reading
        return self._templates

    async def _watch(self, stop: asyncio.Event) -> None:
        """Notify clients of changes until `stop` is set; return early if the folder cannot be watched."""
        try:
            # Without a filter: the default one would leave out folders such as `node_modules`. Changes within 200 ms
            # are treated as one.
            async for _ in watchfiles.awatch(
                self._directory,
                watch_filter=None,
                debounce=200,
                step=50,
                # Polls as well: some file systems do not send notifications, and a removed folder may return.
                rust_timeout=10_000,
                yield_on_timeout=True,
                stop_event=stop,
            ):
                # The first reading may still be in progress; a second one would do the work twice.
                await self._read()
                changes = await asyncio.to_thread(self._templates.refresh)
                if changes.prompts:
                    self.list_changed("prompts")
                if changes.resources:
                    self.list_changed("resources")
                for uri in changes.updated:
                    self.resource_updated(uri)
        except (OSError, RuntimeError) as error:  # the limit on watches is reached, or the folder was removed
            _logger.warning("no longer watching the folder: %s", type(error).__name__)


def serve_folder(folder: TemplateFolder) -> int:
    """Serve a folder on this process's stdin and stdout. Returns the exit code, like `serve_stdio`."""
    return _server(folder).serve_stdio(grace_seconds=_GRACE_SECONDS)


def serve_folder_over_http(folder: TemplateFolder, host: str, port: int, **options: Any) -> int:
    """Serve a folder over HTTP. The exit code is that of `run_http`; the options are those of `McpEndpoint`."""
    from ..http import McpEndpoint, run_http  # a server on stdio does without

    return run_http(McpEndpoint(_server(folder), **options), host, port, grace_seconds=_GRACE_SECONDS)


def _server(folder: TemplateFolder) -> Server:
    server = Server(
        "jsonrpc-fast",
        __version__,
        title="Text templates as prompts",
        instructions="Each prompt is a text template of one folder. The same files can be read as resources.",
    )
    server.mount(folder)
    return server
