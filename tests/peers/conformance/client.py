"""The client that the scenarios of the conformance suite expect. The suite runs `python client.py URL`.

It reads the name of the scenario, its context and the revision from the environment (`MCP_CONFORMANCE_…`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import runpy
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jsonrpc_fast.mcp.client import Client

CLIENT_METADATA: Final = "https://conformance-test.local/client-metadata.json"
_CLIENTS_AT_A_TIME: Final = 3

SCENARIO: Final = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
REVISION: Final = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
CONTEXT: Final[dict[str, Any]] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


def wait_for_slot() -> Any:
    """Wait until few other clients run: the suite starts all of them at the same time."""
    import fcntl

    slot = (Path(os.environ["CONFORMANCE_SLOTS"]) / str(os.getpid() % _CLIENTS_AT_A_TIME)).open("w")
    fcntl.flock(slot, fcntl.LOCK_EX)
    return slot


def connect(url: str, **options: Any) -> Client:
    from jsonrpc_fast.mcp import connect

    options = {"timeout": 20.0, **options}
    return connect(url, mode="auto" if REVISION is None else REVISION, **options)


async def use_tools(url: str, **options: Any) -> None:
    """List the tools, and call the first one."""
    async with connect(url, **options) as client:
        tools = await client.list_tools()
        if tools:
            await client.call_tool(tools[0]["name"], {"a": 2, "b": 3})


async def list_only(url: str, **options: Any) -> None:
    async with connect(url, **options) as client:
        await client.list_tools()


async def echo_schema(url: str) -> None:
    """Send the schema of a tool back unchanged."""
    async with connect(url) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        schema = tools["json_schema_2020_12_tool"]["inputSchema"]
        await client.call_tool("json_schema_echo", {"schema": schema})


def accept_defaults(params: dict[str, Any]) -> dict[str, Any]:
    """Accept a form with its default values."""
    properties = params["requestedSchema"]["properties"]
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": content}


async def elicit_defaults(url: str) -> None:
    async with connect(url, handlers={"elicitation/create": accept_defaults}) as client:
        await client.list_tools()
        await client.call_tool("test_client_elicitation_defaults", {})


async def reconnect(url: str) -> None:
    """Call the tool whose stream ends before its result."""
    async with connect(url) as client:
        tools = await client.list_tools()
        await client.call_tool(tools[0]["name"], {})


async def answer_requests(url: str) -> None:
    """Call the tools that ask for input, two of them at the same time."""
    accepted = {"action": "accept", "content": {"confirmed": True}}
    async with connect(url, handlers={"elicitation/create": lambda params: accepted}) as client:
        await client.list_tools()
        calls = [client.call_tool("test_mrtr_echo_state", {}), client.call_tool("test_mrtr_unrelated", {})]
        await asyncio.gather(*calls)
        await client.call_tool("test_mrtr_no_state", {})
        await client.call_tool("test_mrtr_no_result_type", {})


async def use_everything(url: str) -> None:
    """List and use all tools, resources and prompts."""
    async with connect(url) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool["name"], {})
        for resource in await client.list_resources():
            await client.read_resource(resource["uri"])
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt["name"])


async def use_headers(url: str) -> None:
    """Make the calls that the scenario lists."""
    async with connect(url) as client:
        await client.list_tools()
        for call in CONTEXT["toolCalls"]:
            await client.call_tool(call["name"], call["arguments"])


async def use_valid_tools(url: str) -> None:
    """Call every tool that the client lists: those with invalid headers are left out."""
    async with connect(url) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool["name"], dict.fromkeys(tool["inputSchema"]["properties"], "value"))


async def list_skills(url: str) -> None:
    """List the skills, whose files are not read before one is used."""
    async with connect(url) as client:
        await client.call("skills/list")


async def use_skill(url: str) -> None:
    """Read the files of a skill, until one differs from the list."""
    async with connect(url) as client:
        [skill] = (await client.call("skills/list"))["skills"]
        for file in skill["resources"]:
            text = (await client.read_resource(file["uri"]))["contents"][0]["text"]
            data = text.encode()
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            if (len(data), digest) != (file["size"], file["digest"]):
                return
            if file["uri"] == skill["uri"]:
                lines = text.split("---\n")[1].splitlines()
                if dict(line.split(": ", 1) for line in lines) != skill["frontmatter"]:
                    return


# OAuth


def follow(address: str) -> None:
    """Follow the redirect of the authorization server back to the client, as a browser would."""
    import httpx2

    httpx2.get(address, follow_redirects=True)


def browser(**options: Any) -> Any:
    from jsonrpc_fast.mcp.client import oauth
    from jsonrpc_fast.mcp.client.token_stores import MemoryStore

    return oauth.browser(store=MemoryStore(), open_browser=follow, **options)


async def authorize(url: str) -> None:
    async with connect(url, auth=browser(client_metadata_url=CLIENT_METADATA)) as client:
        await client.list_tools()
        await client.call_tool("test-tool", {})


async def authorize_registered(url: str) -> None:
    """Use a client id and a secret that the authorization server already knows."""
    await list_only(url, auth=browser(client_id=CONTEXT["client_id"], client_secret=CONTEXT["client_secret"]))


async def authorize_with_secret(url: str) -> None:
    from jsonrpc_fast.mcp.client import oauth

    issuer = await issuer_of(url)
    auth = oauth.client_credentials(CONTEXT["client_id"], CONTEXT["client_secret"], issuer=issuer)
    await list_only(url, auth=auth)


async def authorize_with_key(url: str) -> None:
    from jsonrpc_fast.mcp.client import oauth

    algorithm = CONTEXT.get("signing_algorithm", "ES256")
    issuer = await issuer_of(url)
    key = CONTEXT["private_key_pem"]
    await list_only(url, auth=oauth.private_key(CONTEXT["client_id"], key, issuer=issuer, algorithm=algorithm))


async def issuer_of(url: str) -> str:
    """Return the authorization server, which a real client knows in advance (RFC 9728)."""
    from urllib.parse import urlsplit

    import httpx2

    place = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        origin = f"{place.scheme}://{place.netloc}"
        metadata = (await client.get(f"{origin}/.well-known/oauth-protected-resource{place.path}")).json()
    return str(metadata["authorization_servers"][0])


async def authorize_with_identity(url: str) -> None:
    """Exchange the identity token of the company's provider for an assertion, and that for an access token."""
    import httpx2

    issuer = await issuer_of(url)

    async def assertion() -> str:
        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "audience": issuer,
            "resource": url,
            "subject_token": CONTEXT["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": CONTEXT["idp_client_id"],
        }
        async with httpx2.AsyncClient() as client:
            answer = await client.post(CONTEXT["idp_token_endpoint"], data=data)
        return str(answer.json()["access_token"])

    auth = await exchanged(url, assertion, client_id=CONTEXT["client_id"], secret=CONTEXT["client_secret"])
    await list_only(url, auth=auth)


async def authorize_workload(url: str) -> None:
    """Exchange the token that the platform gave to this workload."""

    async def token() -> str:
        return str(CONTEXT["valid_jwt"])

    await list_only(url, auth=await exchanged(url, token, client_id=CONTEXT["client_id"]))


async def exchanged(url: str, assertion: Callable[[], Awaitable[str]], **form: str) -> Any:
    """Return the `auth` of the example, for the token endpoint of the authorization server."""
    import httpx2

    async with httpx2.AsyncClient() as client:
        metadata = (await client.get(f"{await issuer_of(url)}/.well-known/oauth-authorization-server")).json()
    return example("mcp_workload")["Exchanged"](metadata["token_endpoint"], assertion, resource=url, **form)


async def authorize_with_proofs(url: str) -> None:
    auth = example("mcp_dpop")["Proving"](browser(client_metadata_url=CLIENT_METADATA))
    await list_only(url, auth=auth)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[3] / "examples" / f"{name}.py"))


SCENARIOS: Final[dict[str, Callable[[str], Awaitable[None]]]] = {
    "initialize": list_only,
    "tools_call": use_tools,
    "elicitation-sep1034-client-defaults": elicit_defaults,
    "sse-retry": reconnect,
    "request-metadata": list_only,
    "sep-2322-client-request-state": answer_requests,
    "http-standard-headers": use_everything,
    "http-custom-headers": use_headers,
    "http-invalid-tool-headers": use_valid_tools,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": use_skill,
    "sep-2640-client-verify-frontmatter": use_skill,
    "sep-2640-client-verify-size": use_skill,
    "auth/pre-registration": authorize_registered,
    "auth/client-credentials-basic": authorize_with_secret,
    "auth/client-credentials-jwt": authorize_with_key,
    "auth/cross-app-access-complete-flow": authorize_with_identity,
    "auth/enterprise-managed-authorization": authorize_with_identity,
    "auth/wif-jwt-bearer": authorize_workload,
    "auth/dpop": authorize_with_proofs,
    "auth/dpop-nonce": authorize_with_proofs,
}
"""What the client does, by scenario. All other scenarios of `auth/` are the same for the client."""


def main() -> None:
    url = sys.argv[1]
    slot: Any = wait_for_slot() if "CONFORMANCE_SLOTS" in os.environ else contextlib.nullcontext()
    warnings.simplefilter("ignore")
    run = SCENARIOS.get(SCENARIO) or (authorize if SCENARIO.startswith("auth/") else None)
    if run is None:
        sys.exit(f"the client does not know the scenario {SCENARIO}")
    with slot:
        asyncio.run(asyncio.wait_for(run(url), 60))


if __name__ == "__main__":
    main()
