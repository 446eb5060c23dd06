"""The server of the conformance suite: `python -m tests.peers.conformance.server PORT`, or "stdio" in place of a port.

The names of tools, prompts and resources, and what they return, are those of the suite.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from typing import Annotated, Any, Final

from jsonrpc_fast.codes import ErrorCode
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.protocol.capabilities import ServerCapabilities
from jsonrpc_fast.mcp.server import Context, Server, ToolResult

HOST: Final = "127.0.0.1"
IMAGE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="  # a red pixel
)
AUDIO: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="  # an empty WAV file

JSON_SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

SKILLS: Final = "io.modelcontextprotocol/skills"
server = Server(
    "jsonrpc-fast-conformance",
    "1.0.0",
    ttl_ms=1000,
    capabilities=ServerCapabilities(extensions={SKILLS: {"directoryRead": True}}),
)


def image() -> dict[str, Any]:
    return {"type": "image", "data": IMAGE, "mimeType": "image/png"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def embedded(uri: str, mime_type: str, value: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": value}}


# Tools


@server.tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> ToolResult:
    """Return an image."""
    return ToolResult([image()])


@server.tool
def test_audio_content() -> ToolResult:
    """Return a sound."""
    return ToolResult([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}])


@server.tool
def test_embedded_resource() -> ToolResult:
    """Return an embedded resource."""
    return ToolResult([embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])


@server.tool
def test_multiple_content_types() -> ToolResult:
    """Return a text, an image and a resource."""
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolResult([text("Multiple content types test:"), image(), resource])


@server.tool
async def test_tool_with_logging(context: Context) -> str:
    """Send log messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.log("info", message)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@server.tool
async def test_tool_with_progress(context: Context) -> str:
    """Report progress."""
    for progress in (0, 50, 100):
        context.report_progress(progress, total=100, message=f"Completed step {progress} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    params = {"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": 100}
    result = await context.call("sampling/createMessage", params)
    return f"LLM response: {result['content']['text']}"


async def _elicit(context: Context, message: str, properties: dict[str, Any], *required: str) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    result = await context.call("elicitation/create", {"message": message, "requestedSchema": schema})
    return f"action={result['action']}, content={json.dumps(result.get('content', {}))}"


@server.tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user."""
    properties = {"response": {"type": "string", "description": "User's response"}}
    return f"User response: {await _elicit(context, message, properties, 'response')}"


@server.tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user, with default values."""
    properties: dict[str, Any] = {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    }
    return f"Elicitation completed: {await _elicit(context, 'Please review and update the form fields', properties)}"


def _titled(*names: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": name} for number, name in enumerate(names, 1)]


@server.tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user to select options."""
    options = ["option1", "option2", "option3"]
    several = {"type": "array", "minItems": 1, "maxItems": 3}
    properties: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {**several, "items": {"type": "string", "enum": options}},
        "titledMulti": {**several, "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
    }
    return f"Elicitation completed: {await _elicit(context, 'Please select options', properties)}"


@server.tool(input_schema=JSON_SCHEMA_2020_12)
def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Have a schema with keywords of JSON Schema 2020-12."""
    return f"JSON Schema 2020-12 tool called with: {json.dumps(arguments)}"


@server.tool
async def test_reconnection(context: Context) -> str:
    """Close the stream, and return the result after the client has come back."""
    context.close_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


@server.tool(
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    }
)
def test_custom_header(region: str) -> str:
    """Have an argument that the client sends as a header, too."""
    return region


@server.tool
async def test_missing_capability(context: Context) -> str:
    """Need a client that declares sampling."""
    context.require("sampling")
    return "Success"


@server.tool
async def test_streaming_elicitation(context: Context) -> str:
    """Report progress before the result."""
    context.report_progress(50, total=100)
    return "Streaming complete"


@server.tool
async def test_logging_tool(context: Context) -> str:
    """Send a log message, which the client gets only if its request asks for it."""
    context.log("info", "Diagnostic trace logging activated")
    return "Logging evaluated"


@server.tool
def test_trigger_tool_change() -> str:
    """Notify the clients that the list of tools has changed."""
    server.list_changed("tools")
    return "Mutation triggered"


@server.tool
def test_trigger_prompt_change() -> str:
    """Notify the clients that the list of prompts has changed."""
    server.list_changed("prompts")
    return "Mutation triggered"


# Tools that need input (2026-07-28)


def _form(message: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return {"message": message, "requestedSchema": schema}


def _sampling(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": 100}


@server.tool
async def test_input_required_result_elicitation(context: Context) -> str:
    """Ask the user for a name."""
    answer = await context.call("elicitation/create", _form("What is your name?", name="string"), key="user_name")
    return f"Hello, {answer['content']['name']}!"


@server.tool
async def test_input_required_result_sampling(context: Context) -> str:
    """Ask the client's model."""
    answer = await context.call("sampling/createMessage", _sampling("What is the capital of France?"))
    return f"Sampling result: {answer['content']['text']}"


@server.tool
async def test_input_required_result_list_roots(context: Context) -> str:
    """Ask for the client's roots."""
    answer = await context.call("roots/list", {})
    return f"Found {len(answer['roots'])} root(s)"


@server.tool
async def test_input_required_result_request_state(context: Context) -> str:
    """Keep a value until the user responds."""
    context.state["asked"] = True
    answer = await context.call("elicitation/create", _form("Please confirm", ok="boolean"), key="confirm")
    return f"state-ok: {answer['action']}"


@server.tool
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask three questions at once."""
    user, greeting, roots = await asyncio.gather(
        context.call("elicitation/create", _form("What is your name?", name="string"), key="user_name"),
        context.call("sampling/createMessage", _sampling("Generate a greeting"), key="greeting"),
        context.call("roots/list", {}, key="client_roots"),
    )
    return f"{greeting['content']['text']} {user['content']['name']}, {len(roots['roots'])} roots"


@server.tool
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask twice."""
    name = await context.call("elicitation/create", _form("Step 1: What is your name?", name="string"), key="step1")
    question = _form("Step 2: What is your favorite color?", color="string")
    color = await context.call("elicitation/create", question, key="step2")
    return f"{name['content']['name']} likes {color['content']['color']}"


@server.tool
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask, with a state that the client may try to alter."""
    answer = await context.call("elicitation/create", _form("Please confirm", ok="boolean"), key="confirm")
    return f"integrity-ok: {answer['action']}"


@server.tool
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask only for what the client's capabilities allow."""
    questions = []
    if context.client_capabilities.supports("elicitation"):
        questions.append(context.call("elicitation/create", _form("Elicitation input", value="string")))
    if context.client_capabilities.supports("sampling"):
        questions.append(context.call("sampling/createMessage", _sampling("Sample request")))
    return f"capabilities-ok: received {len(await asyncio.gather(*questions))}"


# Tools that run as tasks


@server.tool
def greet(name: str) -> str:
    """Greet."""
    return f"Hello, {name}!"


@server.tool(task_support="optional")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some seconds."""
    await asyncio.sleep(seconds)
    return f"{label} took {seconds} s"


@server.tool(task_support="required")
async def failing_job() -> str:
    """Fail after a moment."""
    await asyncio.sleep(0.1)
    raise RuntimeError("This job always fails")


@server.tool(task_support="optional")
async def protocol_error_job() -> str:
    """Fail with an error of the protocol."""
    raise RpcError(ErrorCode.INTERNAL_ERROR, "This job always breaks")


@server.tool(task_support="optional")
async def confirm_delete(filename: str, context: Context) -> str:
    """Ask the user before a file is deleted."""
    answer = await context.call("elicitation/create", _form(f"Delete {filename}?", confirm="boolean"))
    return f"{filename}: {answer['action']}"


@server.tool(task_support="optional")
async def multi_input(context: Context) -> str:
    """Ask two questions at once."""
    questions = [_form("Your name?", name="string"), _form("Go on?", confirm="boolean")]
    answers = await asyncio.gather(*[context.call("elicitation/create", question) for question in questions])
    return f"{len(answers)} answers"


@server.tool(task_support="required", task_start="function")
async def test_tool_with_task(context: Context) -> str:
    """Ask for a name before the task starts."""
    answer = await context.call("elicitation/create", _form("What is your name?", name="string"), key="user_name")
    await context.start_task()
    return f"Hello, {answer['content']['name']}!"


# Prompts and resources


@server.prompt(title="Simple Test Prompt")
def test_simple_prompt() -> str:
    """Return a prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt(title="Prompt With Arguments", complete={"arg1": ["paris", "park", "party"]})
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """Return a prompt with its arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(title="Prompt With Embedded Resource")
def test_prompt_with_embedded_resource(resourceUri: Annotated[str, "URI of the resource to embed"]) -> list[Any]:
    """Return a prompt with a resource."""
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [{"role": "user", "content": resource}, "Please process the embedded resource above."]


@server.prompt(title="Prompt With Image")
def test_prompt_with_image() -> list[Any]:
    """Return a prompt with an image."""
    return [{"role": "user", "content": image()}, "Please analyze the image above."]


@server.prompt
async def test_input_required_result_prompt(context: Context) -> str:
    """Ask the user for the context of the prompt."""
    question = _form("What context should the prompt use?", context="string")
    answer = await context.call("elicitation/create", question, key="user_context")
    return f"Prompt with context: {answer['content']['context']}"


@server.resource("test://static-text", title="Static Text Resource", mime_type="text/plain")
def static_text() -> str:
    """Return a text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", title="Static Binary Resource", mime_type="image/png")
def static_binary() -> bytes:
    """Return an image."""
    return base64.b64decode(IMAGE)


@server.resource("test://template/{id}/data", title="Resource Template", mime_type="application/json")
def template(id: str) -> str:
    """Return the data of an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource", title="Watched Resource", mime_type="text/plain")
def watched_resource() -> str:
    """Return a text that a client may watch."""
    return "Watched resource content"


# A skill: an extension, by methods of its own

SKILL: Final = "skill://tea-making"
FRONTMATTER: Final = {"name": "tea-making", "description": "Makes tea."}
FILES: Final = {
    f"{SKILL}/SKILL.md": "---\nname: tea-making\ndescription: Makes tea.\n---\nBoil water.\n",
    f"{SKILL}/docs/times.md": "Green tea: two minutes.\n",
}
CACHING: Final = {"ttlMs": 1000, "cacheScope": "private"}


@server.resource(f"{SKILL}/SKILL.md", name=FRONTMATTER["name"], mime_type="text/markdown")
def skill() -> str:
    """Makes tea."""
    return FILES[f"{SKILL}/SKILL.md"]


@server.resource(f"{SKILL}/docs/times.md", mime_type="text/markdown")
def times() -> str:
    """Return how long tea takes."""
    return FILES[f"{SKILL}/docs/times.md"]


def skill_entry() -> dict[str, Any]:
    files = [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(content.encode()).hexdigest()}", "size": len(content.encode())}
        for uri, content in FILES.items()
    ]
    return {"uri": f"{SKILL}/SKILL.md", "frontmatter": FRONTMATTER, "resources": files}


@server.method("skills/list")
def list_skills(cursor: str | None = None) -> dict[str, Any]:
    return {"skills": [skill_entry()], **CACHING}


@server.method("skills/get")
def get_skill(uri: str) -> dict[str, Any]:
    if uri != f"{SKILL}/SKILL.md":
        raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown skill", {"uri": uri})
    return {"skill": skill_entry(), **CACHING}


@server.method("resources/directory/read")
def read_directory(uri: str, cursor: str | None = None) -> dict[str, Any]:
    markdown = {"mimeType": "text/markdown"}
    folders: dict[str, list[dict[str, Any]]] = {
        SKILL: [
            {"uri": f"{SKILL}/SKILL.md", "name": "tea-making", **markdown},
            {"uri": f"{SKILL}/docs", "name": "docs", "mimeType": "inode/directory"},
        ],
        f"{SKILL}/docs": [{"uri": f"{SKILL}/docs/times.md", "name": "times", **markdown}],
    }
    if uri not in folders:
        raise RpcError(ErrorCode.INVALID_PARAMS, "Not a directory", {"uri": uri})
    return {"resources": folders[uri], **CACHING}


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        raise SystemExit(server.serve_stdio())
    import uvicorn

    uvicorn.run(McpEndpoint(server), host=HOST, port=int(sys.argv[1]), log_level="warning", timeout_keep_alive=75)
