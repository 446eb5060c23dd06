"""The data of MCP, for server and client.

    versions       the revisions, their rules and methods
    records        the base class of the typed records
    capabilities   capabilities, name and version of a client or a server
    definitions    tools, prompts and resources
    schemas        JSON Schemas of tools
    faults         descriptions of values that do not match a schema
    contents       checks of content blocks, messages and contents of resources
    naming         names of tools and prompts in the list of several servers
    uris           URIs of resources, their templates and expansion, and contents
    meta           names in `_meta`, log levels, shared constants and errors

Needs the extra `mcp`.
"""
