"""URIs of resources, URI templates, contents."""

from __future__ import annotations

import ntpath
import posixpath
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.protocol.uris import (
    UnsafePart,
    UriTemplate,
    blob_contents,
    check_uri,
    is_unsafe_uri,
    not_found,
    safe_join,
    text_contents,
    uri_faults,
)
from jsonrpc_fast.mcp.protocol.versions import REVISIONS

from ...support.mcp_schemas import schema_of
from ...support.tables import rows

NOT_A_STRING = "the URI is not a string"
TOO_LONG = "the URI has more than 8192 characters"
NOT_A_URI = "not a valid URI (RFC 3986)"
NO_PROVIDER = "a resource:// URI must name a provider"


@rows(
    "uri",
    [
        "file:///a/b.txt",
        "mem://r",
        "urn:isbn:0451450523",
        "x:",
        "https://user@[::1]:80/a?b#c",
        "resource://provider",
        "resource://provider/a%20b",
        "Resource://p/",
        "custom+scheme.1-2://x",
    ],
)
def test_valid_uri(uri: str) -> None:
    assert uri_faults(uri) == []
    assert check_uri(uri) == uri


@rows(
    ("uri", "faults"),
    [
        (None, [NOT_A_STRING]),
        (b"a:b", [NOT_A_STRING]),
        ("", [NOT_A_URI]),
        ("a/b", [NOT_A_URI]),
        ("file:///a b", [NOT_A_URI]),
        ("1a:b", [NOT_A_URI]),
        ("a:\ud800", [NOT_A_URI]),
        ("http://a/%zz", [NOT_A_URI]),
        ("http://naïve/", [NOT_A_URI]),
        ("a:" + "x" * 8192, [TOO_LONG]),
        ("resource://", [NO_PROVIDER]),
        ("resource:///a", [NO_PROVIDER]),
        ("RESOURCE:a", [NO_PROVIDER]),
        ("resource://:80/a", [NO_PROVIDER]),
        ("resource://user@/a", [NO_PROVIDER]),
        ("resource:///a b", [NOT_A_URI, NO_PROVIDER]),
        ("resource://[", [NOT_A_URI, NO_PROVIDER]),
    ],
)
def test_every_fault_of_a_uri(uri: object, faults: list[str]) -> None:
    assert uri_faults(uri) == faults
    with pytest.raises(RpcError) as caught:
        check_uri(uri)
    assert (caught.value.code, caught.value.message) == (-32602, "; ".join(faults))


def test_not_found() -> None:
    error = not_found("mem://x", REVISIONS["2025-11-25"])
    assert (error.code, error.message, error.data) == (-32002, "Resource not found: mem://x", {"uri": "mem://x"})
    assert not_found("mem://x", REVISIONS["2026-07-28"]).code == -32602


def test_contents(corpora: Path) -> None:
    assert text_contents("a:b", "é") == {"uri": "a:b", "text": "é"}
    assert blob_contents("a:b", b"\xff\0", "image/png") == {"uri": "a:b", "mimeType": "image/png", "blob": "/wA="}
    schema_of(corpora, "2025-11-25", "TextResourceContents").validate(text_contents("a:b", "x", "text/plain"))
    schema_of(corpora, "2025-11-25", "BlobResourceContents").validate(blob_contents("a:b", b""))


@rows(
    ("template", "uri", "values"),
    [
        ("notes://all", "notes://all", {}),
        ("notes://all", "notes://all/", None),
        ("notes://{id}", "notes://7", {"id": "7"}),
        ("notes://{id}", "notes://", {"id": ""}),
        ("notes://{id}", "notes://a%2Fb%20c", {"id": "a/b c"}),
        ("notes://{id}", "notes://a/b", None),
        ("notes://{id}", "notes://%zz", None),
        ("{a}/{b}", "x/y", {"a": "x", "b": "y"}),
        ("{a}/{b}", "x/y/z", None),
        ("r://{a}-{b}.txt", "r://x-y-z.txt", {"a": "x", "b": "y-z"}),
        ("r://{a}-{b}.txt", "r://x.txt", None),
        ("r://{a}/end", "r://x/en", None),
        ("r://{a}aa", "r://a", None),
    ],
)
def test_uri_template(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


@rows(
    ("template", "uri", "values"),
    [
        # RFC 6570, section 3.2.2
        ("{hello}", "Hello%20World%21", {"hello": "Hello World!"}),
        ("{half}", "50%25", {"half": "50%"}),
        ("O{empty}X", "OX", {"empty": ""}),
        ("?{x,empty}", "?1024,", {"x": "1024", "empty": ""}),
        ("{x,hello,y}", "1024,Hello%20World%21,768", {"x": "1024", "hello": "Hello World!", "y": "768"}),
        ("{var:3}", "val", {"var": "val"}),
        ("{var:30}", "value", {"var": "value"}),
        ("{var:3}", "value", None),
        ("{list*}", "red,green,blue", {"list": ["red", "green", "blue"]}),
        ("{keys*}", "semi=%3B,dot=.,comma=%2C", {"keys": {"semi": ";", "dot": ".", "comma": ","}}),
        # 3.2.3
        ("{+hello}", "Hello%20World!", {"hello": "Hello World!"}),
        ("{+base}index", "http://example.com/home/index", {"base": "http://example.com/home/"}),
        ("{+path}/here", "/foo/bar/here", {"path": "/foo/bar"}),
        ("here?ref={+path}", "here?ref=/foo/bar", {"path": "/foo/bar"}),
        ("up{+path}{var}/here", "up/foo/barvalue/here", ValueError),
        ("{+x,hello,y}", "1024,Hello%20World!,768", {"x": "1024", "hello": "Hello World!", "y": "768"}),
        ("{+path:6}/here", "/foo/b/here", {"path": "/foo/b"}),
        # 3.2.4
        ("{#hello}", "#Hello%20World!", {"hello": "Hello World!"}),
        ("foo{#empty}", "foo#", {"empty": ""}),
        ("foo{#undef}", "foo", {}),
        ("{#path,x}here", "#/foo/bar,1024here", {"path": "/foo/bar", "x": "1024"}),
        # 3.2.5
        ("{.half,who}", ".50%25.fred", {"half": "50%", "who": "fred"}),
        ("www{.dom*}", "www.example.com", {"dom": ["example", "com"]}),
        ("X{.var:3}", "X.val", {"var": "val"}),
        ("X{.empty}", "X.", {"empty": ""}),
        ("X{.undef}", "X", {}),
        # 3.2.6
        ("{/half,who}", "/50%25/fred", {"half": "50%", "who": "fred"}),
        ("{/var,x}/here", "/value/1024/here", {"var": "value", "x": "1024"}),
        ("{/var,undef}", "/value", {"var": "value"}),
        ("{/list*}", "/red/green/blue", {"list": ["red", "green", "blue"]}),
        ("{/keys*}", "/semi=%3B/dot=./comma=%2C", {"keys": {"semi": ";", "dot": ".", "comma": ","}}),
        ("{/list*,path:4}", "/red/green/blue/%2Ffoo", ValueError),
        # 3.2.7
        ("{;who}", ";who=fred", {"who": "fred"}),
        ("{;empty}", ";empty", {"empty": ""}),
        ("{;v,bar,who}", ";v=6;who=fred", {"v": "6", "who": "fred"}),
        ("{;hello:5}", ";hello=Hello", {"hello": "Hello"}),
        ("{;list*}", ";list=red;list=green", {"list": ["red", "green"]}),
        ("{;keys*}", ";semi=%3B;dot=.;comma=%2C", {"keys": {"semi": ";", "dot": ".", "comma": ","}}),
        # 3.2.8
        ("{?x,y}", "?x=1024&y=768", {"x": "1024", "y": "768"}),
        ("{?x,y}", "?y=768&x=1024", {"y": "768", "x": "1024"}),
        ("{?x,y,empty}", "?x=1024&y=768&empty=", {"x": "1024", "y": "768", "empty": ""}),
        ("{?x,y,undef}", "?x=1024&y=768", {"x": "1024", "y": "768"}),
        ("{?x,y}", "", {}),
        ("{?x,y}", "?z=1", {}),
        ("{?x,y}", "?x=1&utm=a:b/c?d=e&y=a=b", {"x": "1", "y": "a=b"}),
        ("{;x}", ";z=1", None),
        # What people write without encoding it.
        ("mail://{a}/inbox{?f}", "mail://ann@example.org/inbox?f=a:b", {"a": "ann@example.org", "f": "a:b"}),
        ("u://x/{q}", "u://x/a+b,c=d:e;f!g'(h)*&$i", {"q": "a+b,c=d:e;f!g'(h)*&$i"}),
        ("u://x/{q}", "u://x/a/b", None),
        ("u://x/{q}", "u://x/a?b", None),
        ("u://x/{q}", "u://x/a#b", None),
        ("u://x/{q}", "u://x/[a]", None),
        ("u://x/{a,b}", "u://x/1,2,3", {"a": "1", "b": "2,3"}),
        ("u://x{/a,b}", "u://x/k=v/l:m", {"a": "k=v", "b": "l:m"}),
        ("{?x,y}", "?x=1&x=2", None),
        ("{?list*}", "?list=red&list=green", {"list": ["red", "green"]}),
        ("{?keys*}", "?semi=%3B&dot=.", {"keys": {"semi": ";", "dot": "."}}),
        # 3.2.9
        ("?fixed=yes{&x}", "?fixed=yes&x=1024", {"x": "1024"}),
        ("?fixed=yes{&x}", "?fixed=yes", {}),
        # Expressions in sequence.
        (
            "repo://{owner}{/path*}{?ref}",
            "repo://ann/a/b.py?ref=main",
            {"owner": "ann", "path": ["a", "b.py"], "ref": "main"},
        ),
        ("repo://{owner}{/path*}{?ref}", "repo://ann?ref=main", {"owner": "ann", "ref": "main"}),
        ("repo://{owner}{/path*}{?ref}", "repo://ann", {"owner": "ann"}),
        ("x:{/a}{/b}", "x:/1/2", {"a": "1", "b": "2"}),
    ],
)
def test_templates_of_all_levels(template: str, uri: str, values: object) -> None:
    if values is ValueError:
        with pytest.raises(ValueError, match="in the URI template"):
            UriTemplate(template)
    else:
        assert UriTemplate(template, unsafe_parts=True).match(uri) == values


@rows(
    "template",
    [
        "{a}{b}",
        "{a}{+b}",
        "{?a}{?b}",
        "{/a*}{/b}",
        "{a*,b}",
        "{a",
        "a}",
        "{a}b}",
        "{}",
        "{+}",
        "{a}/{a}",
        "{{a}}",
        "{=a}",
        "{a:0}",
    ],
)
def test_invalid_templates(template: str) -> None:
    with pytest.raises(ValueError, match="URI template"):
        UriTemplate(template)


@rows(
    ("template", "uri"),
    [
        ("x:{+path}", "x:a/../b"),
        ("x:{/path*}", "x:/a/../b"),
        ("x:{?q}", "x:?q=.."),
        ("x:{?q*}", "x:?a=%2Fetc"),
        ("x:{#f}", "x:#/etc/passwd"),
    ],
)
def test_unsafe_parts_of_all_levels(template: str, uri: str) -> None:
    with pytest.raises(UnsafePart):
        UriTemplate(template).match(uri)


def test_matching_takes_time_in_proportion_to_the_uri() -> None:
    template = UriTemplate("x:" + "-".join(f"{{v{number}}}" for number in range(20)) + "{/p*}{?q*}!")
    for uri in ("x:" + "-" * 8000, "x:" + "a-" * 4000, "x:" + "/-a" * 2500 + "?" + "a=b&" * 100):
        assert template.match(uri) is None


@rows(
    ("part", "value"),
    [
        ("..", ".."),
        ("%2e%2E", ".."),
        ("..%2fetc%2fpasswd", "../etc/passwd"),
        ("a%2f..%2f..%2fb", "a/../../b"),
        ("a%2F..", "a/.."),
        ("..%5cwindows", "..\\windows"),
        ("a%00b", "a\0b"),
        ("%00", "\0"),
        ("%ff", "\udcff"),
        ("a%c0%af", "a\udcc0\udcaf"),
        ("%ed%a0%80", "\udced\udca0\udc80"),
        ("%2fetc%2fpasswd", "/etc/passwd"),
        ("%5c%5chost%5cshare", "\\\\host\\share"),
        ("C%3a%5ca", "C:\\a"),
    ],
)
def test_an_unsafe_part_is_refused_unless_it_is_allowed(part: str, value: str) -> None:
    for template, uri in (("notes://{id}", f"notes://{part}"), ("x:{a}/{id}.txt", f"x:b/{part}.txt")):
        with pytest.raises(UnsafePart, match="a part of the URI is unsafe: "):
            UriTemplate(template).match(uri)
        matched = UriTemplate(template, unsafe_parts=True).match(uri)
        assert matched is not None
        assert matched["id"] == value


@rows("part", ["a..b", "...", "1.0..2.0", "a%2Fb", "%252e%252e%252f", ".", "", "caf%C3%A9", "12%3A30"])
def test_a_safe_part(part: str) -> None:
    assert UriTemplate("notes://{id}").match(f"notes://{part}") is not None


@rows(
    ("template", "uri"),
    [
        ("docs://files{/path*}", "docs://files//etc/passwd"),
        ("docs://files{/path*}", "docs://files/a//etc"),
        ("docs://files{/path*}", "docs://files/%2Fetc/passwd"),
        ("docs://files{/path*}", "docs://files/./etc"),
        ("docs://files{/path*}", "docs://files/%2E/%2e"),
        ("docs://files/{path*}", "docs://files/,etc,passwd"),
        ("docs://files/{path*}", "docs://files/=,a=b"),
        ("docs://files{?path*}", "docs://files?path=&path=etc"),
        ("docs://files{?x,y}", "docs://files?x=&y=etc"),
        ("docs://files{;x,y}", "docs://files;x;y=etc"),
        ("docs://files{/x,y}", "docs://files//etc"),
        ("docs://files{.x,y}", "docs://files..etc"),
        ("docs://files/{x}/{y}", "docs://files//etc"),
        ("docs://files/{x}/{y}", "docs://files/a%2F./.%2Fb"),
        ("docs://files/{x}/{y}", "docs://files/C/%3A%5Cb"),
        ("docs://files/{x}/index.html", "docs://files//index.html"),
        ("docs://files/{x}.{y}", "docs://files/.."),
        ("docs://files/.{x}/secret", "docs://files/../secret"),
        ("docs://files{+x}.", "docs://filesa/.."),
    ],
)
def test_parts_that_leave_a_folder_together_are_refused(template: str, uri: str) -> None:
    with pytest.raises(UnsafePart, match="a part of the URI is unsafe: "):
        UriTemplate(template).match(uri)
    assert UriTemplate(template, unsafe_parts=True).match(uri) is not None


_TEMPLATES = [
    *(f"a://b{{{operator}x*}}" for operator in ("", "+", "#", ".", "/", ";", "?", "&")),
    *(f"a://b{{{operator}x,y}}" for operator in ("", "+", "#", ".", "/", ";", "?", "&")),
    "a://b/{x}/{y}", "a://b/{x}.{y}", "a://b/.{x}/{+y}", "a://b/{+x}/c{/y*}", "a://b/{x}{?y*}", "a://b/{x}/c",
]  # fmt: skip
_PIECES = st.sampled_from([".", "..", "/", "%2F", "%2e", "%5C", ",", "=", "&", ";", "x=", "y=", "a", "C", ":", "%3A"])


@given(st.sampled_from(_TEMPLATES), st.lists(_PIECES, max_size=8).map("".join))
def test_whatever_is_accepted_stays_in_its_folder(template: str, end: str) -> None:
    before, expression = template[: (start := template.index("{"))], template[start + 1]
    for uri in (f"{before}{end}", f"{before}{expression}{end}"):
        try:
            values = UriTemplate(template).match(uri)
        except UnsafePart:
            continue
        parts: list[str] = []
        for value in (values or {}).values():
            parts += [*value, *value.values()] if isinstance(value, dict) else [value] if type(value) is str else value
        if not parts:
            continue
        for first, second in {(parts[0], parts[-1]), (parts[-1], parts[0])} if len(parts) > 1 else ():
            assert _stays(f"{first}/{second}", uri)
            assert _stays(f"{first}{second}", uri)
            assert _stays(f"{first}.{second}", uri)
        assert _stays("/".join(parts), uri)
        assert _stays("".join(parts), uri)
        for system, root in ((posixpath, "/srv/docs"), (ntpath, "D:\\srv\\docs")):
            assert _is_in(system, root, system.join(root, *parts)), uri
        assert _is_in(posixpath, "/srv/docs", str(PurePosixPath("/srv/docs", *parts))), uri
        assert _is_in(ntpath, "D:\\srv\\docs", str(PureWindowsPath("D:\\srv\\docs", *parts))), uri
        assert safe_join("/srv/docs", *parts).is_relative_to("/srv/docs")


def _stays(path: str, uri: str) -> bool:
    """Whether a relative path, as a function makes it from parts, stays in its folder, on both systems."""
    return all(
        _is_in(system, root, system.join(root, path)) for system, root in ((posixpath, "/r/s"), (ntpath, "D:\\r\\s"))
    )


def _is_in(system: ModuleType, root: str, path: str) -> bool:
    found: str = system.normpath(path)
    # `ntpath` takes `.:` for a drive, too, which Windows does not have.
    if not system.splitdrive(found)[0][:1].isalpha() and system is ntpath:
        return True
    return found == root or found.startswith(root + system.sep)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "folder-2").mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "ring").symlink_to(folder / "ring")
    return tmp_path


@rows(
    ("parts", "path"),
    [
        ((), ""),
        (("a.txt",), "a.txt"),
        (("a", "b/c"), "a/b/c"),
        (("", "a"), "a"),
        (("a/../b",), "b"),
        (("missing", "x"), "missing/x"),
        (("..",), None),
        (("a", "../../x"), None),
        (("/etc/passwd",), None),
        (("a", "/etc/passwd"), None),
        (("../folder-2/x",), None),
        (("out/x",), None),
        (("a\0b",), None),
        (("ring",), None),
        (("ring/x",), None),
        (("ring/../out/x",), None),
        (("missing/../ring/../out/x",), None),
    ],
)
def test_safe_join(tree: Path, parts: tuple[str, ...], path: str | None) -> None:
    folder = tree / "folder"
    if path is None:
        with pytest.raises(UnsafePart, match="folder"):
            safe_join(folder, *parts)
    else:
        assert safe_join(folder, *parts) == folder.resolve() / path
        assert safe_join(str(folder), *parts) == folder.resolve() / path


@rows(
    ("uri", "is_unsafe"),
    [
        ("docs://files/a/b.txt", False),
        ("docs://files/a/", False),
        ("file:///etc/hosts", False),
        ("mem:note", False),
        ("docs://files/a?next=http://b//c", False),
        ("docs://files//etc/passwd", True),
        ("docs://files/%2Fetc/passwd", True),
        ("docs://files/a//b", True),
        ("docs://files/a/%5Cb", True),
        ("docs://files/C:/b", True),
        ("docs://files/a/../b", True),
        ("docs://files/a%00", True),
    ],
)
def test_a_provider_gets_no_uri_whose_path_leaves_a_folder(uri: str, is_unsafe: bool) -> None:
    assert is_unsafe_uri(uri) is is_unsafe


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=2, max_size=2))
def test_a_template_reads_what_it_expands(values: list[str]) -> None:
    from urllib.parse import quote

    template = UriTemplate("notes://{a}/{b}", unsafe_parts=True)
    uri = f"notes://{quote(values[0], safe='')}/{quote(values[1], safe='')}"
    assert template.match(uri) == {"a": values[0], "b": values[1]}
    assert template.names == ("a", "b")
