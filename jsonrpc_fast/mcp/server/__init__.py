"""An MCP server: functions as tools, prompts and resources.

    server             `Server`, and how it runs
    decorators         the decorators that register functions
    registry           what is registered and mounted
    functions          signatures of registered functions
    results            what functions may return to set more of a result
    outputs            structured content: its schema, and the check of what a tool returned
    blocks             content blocks
    tasks              one task: a tool whose call goes on after its response
    task_store         all tasks of a server, and the requests about them
    tools              validation of arguments and results of tools
    contents           content blocks, messages and contents from what functions return
    context            `Context`: the request of a function, and messages to the client
    forms              forms for the user, from types
    lifespan           what the server opens before it serves
    threads            sync functions in a thread, and their context
    inputs             requests to modern clients, in several rounds
    request_state      what a modern client carries from round to round
    connection         one connection: its session and requests
    in_process         a transport from a client in the same process
    handshake          the server's side of the handshake, without IO
    methods            the methods of MCP
    middleware         functions around every method
    providers          `Provider`: tools, prompts and resources from elsewhere
    mounting           a server as the provider of another one
    subscriptions      the changes that a client is notified of
    paging             pages of lists, and cursors

Needs the extra `mcp`.
"""

from __future__ import annotations

from ..protocol.capabilities import Icon
from ..protocol.definitions import (
    Annotations,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
    ToolAnnotations,
)
from .blocks import AssistantMessage, Audio, EmbeddedResource, Image, ResourceLink, Text, UserMessage
from .context import Context
from .forms import Elicited
from .middleware import Middleware
from .providers import Provider
from .results import ToolError, ToolResult, WholeResult
from .server import Server
from .task_store import TaskStore

__all__ = [
    "Annotations",
    "AssistantMessage",
    "Audio",
    "Context",
    "Elicited",
    "EmbeddedResource",
    "Icon",
    "Image",
    "Middleware",
    "Prompt",
    "PromptArgument",
    "Provider",
    "Resource",
    "ResourceLink",
    "ResourceTemplate",
    "Server",
    "TaskStore",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "UserMessage",
    "WholeResult",
]
