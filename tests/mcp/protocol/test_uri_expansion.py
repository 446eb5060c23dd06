"""The expansion of URI templates: the examples of RFC 6570, and that matching reads it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.mcp.client import expand_uri_template
from jsonrpc_fast.mcp.protocol.uris import UriTemplate

from ...support.tables import rows

VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": 6,
    "x": 1024,
    "y": 768,
    "empty": "",
    "empty_keys": {},
    "undef": None,
}


@rows(
    ("template", "uri"),
    [
        ("{count}", "one,two,three"),
        ("{count*}", "one,two,three"),
        ("{/count}", "/one,two,three"),
        ("{/count*}", "/one/two/three"),
        ("{;count}", ";count=one,two,three"),
        ("{;count*}", ";count=one;count=two;count=three"),
        ("{?count}", "?count=one,two,three"),
        ("{?count*}", "?count=one&count=two&count=three"),
        ("{&count*}", "&count=one&count=two&count=three"),
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("{var:3}", "val"),
        ("{var:30}", "value"),
        ("{keys}", "semi,%3B,dot,.,comma,%2C"),
        ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+keys*}", "semi=;,dot=.,comma=,"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{#keys}", "#semi,;,dot,.,comma,,"),
        ("{.half,who}", ".50%25.fred"),
        ("www{.dom*}", "www.example.com"),
        ("X{.empty_keys}", "X"),
        ("X{.empty_keys*}", "X"),
        ("{/var,empty}", "/value/"),
        ("{/var:1,var}", "/v/value"),
        ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;keys}", ";keys=semi,%3B,dot,.,comma,%2C"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,undef}", "&x=1024&y=768"),
        ("caf\u00e9 %41{var}", "caf%C3%A9%20%41value"),
        ("{var}{var}", "valuevalue"),
    ],
)
def test_the_examples_of_the_rfc(template: str, uri: str) -> None:
    assert expand_uri_template(template, VALUES) == uri


@rows("template", ["{", "}", "a{b", "{a}}", "{a}b{", "{a b}", "{}", "{a:0}", "{!a}", "{{a}}"])
def test_an_invalid_template(template: str) -> None:
    with pytest.raises(ValueError, match="not a URI template"):
        expand_uri_template(template, {})


@rows(
    ("template", "value"),
    [("{a}", b"x"), ("{a}", object()), ("{a}", [1]), ("{a*}", {"b": None}), ("{a:3}", ["x"]), ("{?a*}", {1: "b"})],
)
def test_a_value_of_another_type(template: str, value: Any) -> None:
    with pytest.raises(TypeError):
        expand_uri_template(template, {"a": value})


texts = st.text(min_size=1, max_size=8)


@given(texts, st.lists(texts, min_size=1, max_size=4), st.dictionaries(texts, st.text(max_size=8), min_size=1))
def test_matching_reads_what_expansion_wrote(owner: str, path: list[str], options: dict[str, str]) -> None:
    template = "repo://{owner}{/path*}{?ref,page}{#part}"
    values = {"owner": owner, "path": path, "ref": owner, "part": "a"}
    uri = expand_uri_template(template, values)
    assert UriTemplate(template, unsafe_parts=True).match(uri) == values
    uri = expand_uri_template("repo://x{?options*}", {"options": options})
    assert UriTemplate("repo://x{?options*}", unsafe_parts=True).match(uri) in (
        {"options": options},
        {"options": [*options.values()]},
    )
