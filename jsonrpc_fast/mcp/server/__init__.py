"""An MCP server: functions as tools, prompts and resources.

    server       `Server`, and a server as the provider of another one
    serving      what a server, a gateway and a program behind HTTP share
    connection   one connection: its session and requests
    methods      the methods of MCP
    functions/   the functions: registered, called, provided from elsewhere
    request/     one request: its rules, its context, its rounds, tasks and subscriptions
    values/      what functions return and get: content blocks, results, forms

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
from .functions.providers import Provider
from .methods import Middleware
from .request.context import Context
from .request.task_store import TaskStore
from .server import Server
from .values.blocks import (
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
from .values.forms import Elicited

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
