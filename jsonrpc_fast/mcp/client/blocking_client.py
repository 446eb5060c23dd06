"""The MCP client for programs without an event loop: the methods of `Client`, which wait for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec

from ...errors import ConnectionLost, StateError
from ...session import Blocking, blocking_form
from ...types import UNSET, Unset
from .client import Client
from .connecting import connect
from .handshake import ServerContext

P = ParamSpec("P")


class BlockingClient(Blocking):
    """A client whose methods block: see `blocking`. Arguments, results and exceptions are those of `Client`.

    Attributes:
        client: The asynchronous client, which belongs to the thread of the event loop.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client: Client = client

    async def _start(self) -> None:
        await self.client.start()

    async def _close(self) -> None:
        await self.client.close()

    @property
    def server(self) -> ServerContext:
        """The server: its revision, capabilities, name and instructions; see `Client.server`."""
        return self.client.server

    @blocking_form(Client.call, "client")
    def call(self) -> object: ...

    @blocking_form(Client.notify, "client")
    def notify(self) -> object: ...

    @blocking_form(Client.ping, "client")
    def ping(self) -> object: ...

    @blocking_form(Client.list_prompts, "client")
    def list_prompts(self) -> object: ...

    @blocking_form(Client.list_resources, "client")
    def list_resources(self) -> object: ...

    @blocking_form(Client.list_resource_templates, "client")
    def list_resource_templates(self) -> object: ...

    @blocking_form(Client.list_tools, "client")
    def list_tools(self) -> object: ...

    @blocking_form(Client.get_prompt, "client")
    def get_prompt(self) -> object: ...

    @blocking_form(Client.call_tool, "client")
    def call_tool(self) -> object: ...

    @blocking_form(Client.read_resource, "client")
    def read_resource(self) -> object: ...

    @blocking_form(Client.complete, "client")
    def complete(self) -> object: ...

    @blocking_form(Client.set_level, "client")
    def set_level(self) -> object: ...

    @contextmanager
    def listen(self, *uris: str, timeout: float | Unset | None = UNSET) -> Iterator[None]:
        """Subscribe to resources, and to the changes of lists, inside `with`: see `Client.listen`.

            changes = queue.SimpleQueue()
            on_notification = lambda method, params: changes.put((method, params))
            with blocking("server.py", on_notification=on_notification) as client, client.listen("notes://today"):
                method, params = changes.get(timeout=60)

        `on_notification` is called in the thread of the event loop; a queue brings the changes to this one.
        """
        listening = self.client.listen(*uris, timeout=timeout)
        self.wait_for(listening.__aenter__)
        try:
            yield
        finally:
            # Closing the client has ended the subscription, too.
            with suppress(ConnectionLost, StateError):
                self.wait_for(lambda: listening.__aexit__(None, None, None))


def _with_arguments_of(
    function: Callable[P, Client],
) -> Callable[[Callable[..., BlockingClient]], Callable[P, BlockingClient]]:
    """Give a function the arguments of another one, for type checkers."""
    return lambda decorated: decorated


@_with_arguments_of(connect)
def blocking(*args: object, **kwargs: object) -> BlockingClient:
    """Return a client for a program without an event loop. `with` connects it and closes it.

        with blocking("python", "server.py") as client:
            print(client.call_tool("add", {"a": 1, "b": 2}))

    Several threads may use it. It runs in the thread of all blocking clients, in which handlers are called, too.

    The arguments and the exceptions are those of `connect`.
    """
    return BlockingClient(connect(*args, **kwargs))  # type: ignore[arg-type]
