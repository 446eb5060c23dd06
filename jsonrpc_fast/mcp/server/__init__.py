"""An MCP server: functions as tools, prompts and resources.

    server          `Server`, and a server as the provider of another one
    serving         what a server and a gateway share
    session         the session of a client: requests, notifications and log messages to it
    handshake       the server's side of the handshake, without IO
    subscriptions   the changes that a client is notified of
    lifespan        resources that the server opens before it serves

    methods         the methods of MCP
    context         `Context`: the request of a function, and messages to the client
    inputs          requests to modern clients, in several rounds, and the state that they carry
    tasks           one task: a tool whose call continues after its response
    task_store      all tasks of a server, and the requests about them

    decorators      the decorators that register functions
    registry        registered functions and mounted providers
    functions       signatures of registered functions, and sync functions in a thread
    providers       `Provider`: tools, prompts and resources from other sources

    tools           validation of arguments, and the results of tools with their schemas
    blocks          content blocks, messages and results that functions may return
    contents        what functions return: as JSON, as content blocks, messages and resource contents
    forms           the forms of elicitation

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
from ..protocol.uris import UnsafePart, safe_join
from .blocks import (
    AssistantMessage,
    Audio,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    ToolError,
    ToolResult,
    UserMessage,
    WholeResult,
)
from .context import Context
from .forms import Elicited
from .providers import Provider
from .registry import Middleware
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
    "UnsafePart",
    "UserMessage",
    "WholeResult",
    "safe_join",
]
