"""Descriptions of parameters in docstrings."""

from __future__ import annotations

import inspect

from jsonrpc_fast.handlers.params.docstrings import read_docstring
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.mcp.server.functions import RegisteredFunction

from ...support.tables import rows

GOOGLE = """Find a flight.

    The cheapest one.

    Args:
        start: Where to begin,
            in any language.
        end (str): The end: a city.
        *others: Ignored.

    Returns:
        A flight.
    """
NUMPY = """Find a flight.

    The cheapest one.

    Parameters
    ----------
    start : str
        Where to begin,
        in any language.
    end
        The end: a city.

    Returns
    -------
    str
        A flight.
    """
SPHINX = """Find a flight.

    The cheapest one.

    :param start: Where to begin,
        in any language.
    :type start: str
    :param str end: The end: a city.
    :returns: A flight.
    """


@rows(
    ("text", "rest"),
    [
        (GOOGLE, "Returns:\n    A flight."),
        (NUMPY, "Returns\n-------\nstr\n    A flight."),
        (SPHINX, ":returns: A flight."),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_the_usual_styles(text: str, rest: str) -> None:
    shown, described = read_docstring(inspect.cleandoc(text), ["start", "end"])
    assert described == {"start": "Where to begin, in any language.", "end": "The end: a city."}
    assert shown == f"Find a flight.\n\nThe cheapest one.\n\n{rest}"


@rows(
    "text",
    [
        "Find a flight.",
        "Args:",
        "Args:\n    other: Not a parameter.",
        "A heading\n\nArgs: start",
        "Parameters\n----------",
        "Parameters",
        "Parameters\nare not described here.",
        ":param",
        ":param other: Not a parameter.",
    ],
)
def test_what_is_not_understood_stays(text: str) -> None:
    assert read_docstring(text, ["start"]) == (text, {})


def test_an_empty_docstring() -> None:
    assert read_docstring(None, ["a"]) == (None, {})
    assert read_docstring("", ["a"]) == (None, {})
    assert read_docstring("Args:\n    a: An a.", ["a"]) == (None, {"a": "An a."})


def test_shared_names_in_numpy_style() -> None:
    text = "Add.\n\nParameters\n----------\na, b : int\n    A number.\nc\n    Another one."
    assert read_docstring(text, ["a", "b", "c"]) == ("Add.", {"a": "A number.", "b": "A number.", "c": "Another one."})


def test_descriptions_reach_tools_and_prompts() -> None:
    server = Server("test", "1")

    def find(start: str, end: str = "Rome") -> str:
        return start + end

    find.__doc__ = GOOGLE
    server.tool(find)
    server.prompt(find)
    function = RegisteredFunction(find)
    assert function.descriptions() == {"start": "Where to begin, in any language.", "end": "The end: a city."}
    assert server.tools["find"].checked.tool.input_schema["properties"]["end"] == {
        "type": "string",
        "default": "Rome",
        "description": "The end: a city.",
    }
    assert server.tools["find"].checked.tool.description == (
        "Find a flight.\n\nThe cheapest one.\n\nReturns:\n    A flight."
    )
    [start, _] = server.prompts["find"].definition.to_dict()["arguments"]
    assert start == {"name": "start", "description": "Where to begin, in any language.", "required": True}
