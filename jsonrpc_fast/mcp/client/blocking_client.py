"""The MCP client for programs without an event loop: the methods of `Client`, which wait for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, ParamSpec

from ...errors import ConnectionLost, StateError
from ...session import Blocking, BlockingCaller, blocking_form
from ...types import UNSET, Unset
from .client import Client
from .connecting import connect
from .handshake import ServerContext

P = ParamSpec("P")


class BlockingClient(Blocking, BlockingCaller):
    """A client whose methods block: see `blocking`. Arguments, results and exceptions are those of `Client`.

    Attributes:
        client: The asynchronous client, which belongs to the thread of the event loop.
    """

    ping: Final = blocking_form(Client.ping)
    list_prompts: Final = blocking_form(Client.list_prompts)
    list_resources: Final = blocking_form(Client.list_resources)
    list_resource_templates: Final = blocking_form(Client.list_resource_templates)
    list_tools: Final = blocking_form(Client.list_tools)
    get_prompt: Final = blocking_form(Client.get_prompt)
    call_tool: Final = blocking_form(Client.call_tool)
    read_resource: Final = blocking_form(Client.read_resource)
    complete: Final = blocking_form(Client.complete)
    set_level: Final = blocking_form(Client.set_level)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.client: Client = client

    @property
    def server(self) -> ServerContext:
        """The server: its revision, capabilities, name and instructions; see `Client.server`."""
        return self.client.server

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
