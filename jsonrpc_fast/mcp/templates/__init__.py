"""Prompts and resources from a folder of text templates.

    server     the folder as a source of an MCP server, with a file watcher
    prompts    prompts, completions and resources from the templates
    folder     reads the files of the folder
    rendering  renders and analyses templates in child processes
    sandbox    the program of such a process

Needs the extra `mcp`.
"""
