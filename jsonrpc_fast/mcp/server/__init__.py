"""An MCP server: functions as tools, prompts and resources.

    server       `Server`, and how it runs
    serving      what a server, a gateway and a program behind HTTP share
    connection   one connection: its session and requests
    methods      the methods of MCP
    mounting     a server as the provider of another one
    in_process   a transport from a client in the same process
    functions/   the functions: registered, called, surrounded by middleware, provided from elsewhere
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
from .functions.middleware import Middleware
from .functions.providers import Provider
from .request.context import Context
from .request.task_store import TaskStore
from .server import Server
from .values.blocks import AssistantMessage, Audio, EmbeddedResource, Image, ResourceLink, Text, UserMessage
from .values.forms import Elicited
from .values.results import ToolError, ToolResult, WholeResult

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
