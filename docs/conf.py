"""The documentation site: `nox -s docs` builds it.

Rules:
- Warnings are errors, and every internal link and cross-reference must resolve. No address is fetched, by the build or
  by a page of the site.
- Docstrings are plain text with `names` in single backticks and indented code. `prepare_docstring` turns them into
  reStructuredText before napoleon reads their sections.
- A public name is documented where users import it from. `resolve_alias` leads other names of it to that place.
- The first use of a public name on a page is a link to the reference, and so is each use in a block of code.
- Names of Python's library are links to its documentation, without its list of names, which would be fetched.
- The libraries of the adapters need not be installed: autodoc replaces them by mocks. An adapter that cannot be
  imported with mocks then has no entry.
"""

from __future__ import annotations

import ast
import builtins
import functools
import html
import importlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

# The pure backend has the annotations; the core has the same names, signatures and docstrings.
os.environ["JSONRPC_FAST_PURE"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

from diagrams import with_pictures
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

from jsonrpc_fast import __version__

logger = logging.getLogger(__name__)

INTERNAL = (
    r"\w+Options",  # the keyword arguments that several signatures share
    "Backoff",
    "Calling",
    "Catalog",
    "ChangeListener",
    "ChildChannel",
    "ContextServer",
    "Definition",
    "Elicitation",
    "EmptyObject",
    "Encoders",
    "Exchange",
    "Follower",
    "FrontSession",
    "Function",
    "GatewayConnection",
    "GroupMember",
    "HttpExchange",
    "InboundBatch",
    "Items",
    "LayeredChannel",
    "Lifespan",
    "ListChanged",
    "LocalServer",
    "MemoryChannel",
    "ModernClients",
    "OutboundBatch",
    "OuterCoroutine",
    "Phase",
    "Problem",
    "Program",
    "ProgramReport",
    "ProgramTransport",
    "Prompt",
    "RequestRules",
    "Resource",
    "Resources",
    "Result",
    "Revision",
    "Roots",
    "RunOwner",
    "RunState",
    "Sampling",
    "Served",
    "ServerConnection",
    "ServerContext",
    "ServerHandshake",
    "SocketChannel",
    "SocketTransport",
    "State",
    "StateCipher",
    "WebSocketChannel",
    r"session\.Request",
)
"""Names in public signatures that are not public themselves: they stay text."""

project = "jsonrpc_fast"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
nitpicky = True
nitpick_ignore_regex = [("py:class", rf"jsonrpc_fast\..*\.([A-Z]|{'|'.join(INTERNAL)})")]  # [A-Z]: type variables

html_theme = "furo"
html_title = f"jsonrpc_fast {__version__}"
html_favicon = "static/favicon.svg"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]

copybutton_prompt_text = "$ "  # only the commands of a console are copied
copybutton_line_continuation_character = "\\"

SUMMARY = (
    "A JSON-RPC 2.0 codec for Python that checks every message in less time than orjson takes to parse it, with "
    "servers and clients for stdio, TCP, HTTP, WebSocket, MCP and LSP."
)
myst_html_meta = {
    "description": SUMMARY,
    "property=og:description": SUMMARY,
    "property=og:title": html_title,
    "property=og:type": "website",
}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
myst_links_external_new_tab = False

LIBRARIES = ("acp", "aiorpcx", "mcp", "nats", "opentelemetry", "pygls", "pylsp_jsonrpc", "redis", "web3")
autodoc_mock_imports = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_type_aliases = {
    name: f"jsonrpc_fast.{name}" for name in ("Framing", "Message", "MessageId", "Params", "RawMessage")
} | {name: f"jsonrpc_fast.transports.{name}" for name in ("Received", "Sendable")}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

API = Path(__file__).parent / "api"
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)", re.MULTILINE)
SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:", "Attributes:")
ADAPTERS = re.compile(r"^\.\. automodule:: (jsonrpc_fast\.adapters\.\w+)\n(?: +.*\n)*", re.MULTILINE)
ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
FOREIGN = re.compile(
    r"<(?!a\b)\w+\b[^>]*\b(?:src|srcset|href|data|poster)=.(?:https?:)?//[^>]*>"
    r"|(?:@import|\bimport\(|\burl\()\s*[\"']?(?:https?:)?//[^)\s]*"
)
NAME = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DESCRIPTION_CHARACTERS = 200
BLOCK = re.compile(r'<div class="highlight-python .*?</pre>', re.DOTALL)
CODE_NAME = re.compile(r'<span class="(n|nn|nc)">([\w.]+)</span>')
TAG = re.compile(r"<[^>]*>")
PYTHON = "https://docs.python.org/3/library/"
PYTHON_PAGES = {
    **dict.fromkeys(["bool", "float", "int", "object", "type"], "functions"),
    **dict.fromkeys(["asyncio.AbstractEventLoop", "asyncio.Server"], "asyncio-eventloop"),
    "asyncio.Task": "asyncio-task",
    "asyncio.Future": "asyncio-future",
    "None": "constants",
}
"""The pages of names whose module or class does not tell the page."""
PYTHON_MODULES = {"collections.abc", "concurrent.futures", "contextvars", "ssl", "subprocess", "typing"}


def documented_names() -> dict[str, str]:
    """Return the full name of what the API pages document, by each name that code may use for it."""
    full_names = []
    for page in sorted(API.glob("*.md")):
        for kind, name in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind == "module" and can_import(name):
                module = importlib.import_module(name)
                full_names += [f"{name}.{member}" for member in public_names(module)]
            elif kind != "module":
                full_names.append(name)
    found = {"jsonrpc_fast.types.Unset": "jsonrpc_fast.UNSET"}
    for full in full_names:
        module_name, _, member = full.rpartition(".")
        value = getattr(importlib.import_module(module_name), member)
        found.setdefault(member, full)
        for other in [name for name in sys.modules if name.startswith("jsonrpc_fast")]:
            if vars(sys.modules[other]).get(member) is value:
                found.setdefault(f"{other}.{member}", full)
        found[full] = full
    return found


def public_names(module: ModuleType) -> list[str]:
    """Return the names that autodoc documents for a module: not those of other projects that it passes on."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", None) or [name for name in own if not name.startswith("_") and len(name) > 1]
    values = [getattr(module, name) for name in names]
    return [name for name, value in zip(names, values, strict=True) if is_own(value)]


def is_own(value: object) -> bool:
    return not inspect.isclass(value) or value.__module__.startswith("jsonrpc_fast")


def documented_elsewhere(names: dict[str, str]) -> set[str]:
    """Return the names of the base classes whose members are not repeated in their subclasses."""
    classes = [getattr(sys.modules[full.rpartition(".")[0]], full.rpartition(".")[2]) for full in set(names.values())]
    bases = {base for cls in classes if inspect.isclass(cls) for base in cls.__mro__[1:]}
    own = {base for base in bases if base.__module__.startswith("jsonrpc_fast") and base.__name__ not in names}
    # For autodoc's check a protocol is not a class, and its members are in the classes that implement it.
    stops = {base.__name__ for base in bases - own if not getattr(base, "_is_protocol", False)}
    return stops | {"Connection", "SocketTransport"}


def is_without_text(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the fields of a NamedTuple, which the signature shows."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def prepare_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Leave out the signature of a protocol, `(*args, **kwargs)`, and write type aliases in unions as names."""
    if what == "class" and getattr(obj, "_is_protocol", False):
        return "", None
    return signature and (ALIAS.sub(r"\1", signature), returns and ALIAS.sub(r"\1", returns))


def prepare_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText: names become links or literals, indented text becomes code."""
    if what == "data":
        lines[:] = attribute_docstring(name)
    if what == "property":
        lines.insert(0, "")  # napoleon would take a first line with a colon for a type
    names: dict[str, str] = app.config.documented
    prepared: list[str] = []
    section = code = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line and not indent:
            section = line in SECTIONS
            code = False
        elif line and not section and not code and prepared and not prepared[-1]:
            prepared += ["::", ""]
            code = True
        prepared.append(line if code else NAME.sub(lambda found: linked(found[1], names), line))
    lines[:] = prepared


def linked(text: str, names: dict[str, str]) -> str:
    """Return a name as a link if it is documented, and as a literal otherwise."""
    return f":py:obj:`~{names[text]}`" if text in names else f"``{text}``"


def attribute_docstring(name: str) -> list[str]:
    """Return the docstring below the assignment of a constant, from the module that has one."""
    package, _, member = name.rpartition(".")
    value = getattr(sys.modules[package], member)
    for module in [module for name, module in sys.modules.items() if name.startswith("jsonrpc_fast")]:
        if vars(module).get(member) is value:
            analyzer = ModuleAnalyzer.for_module(module.__name__)
            analyzer.analyze()
            if ("", member) in analyzer.attr_docs:
                return list(analyzer.attr_docs["", member])
    return []


def resolve_alias(app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element) -> Any:
    """Resolve a reference to the defining module of a public name. Names of other projects but Python stay text."""
    if node.get("refdomain") != "py":
        return None
    target: str = node["reftarget"]
    names: dict[str, str] = app.config.documented
    if target in names:  # or a type alias, which is data, not the class that an annotation refers to
        domain = env.domains["py"]
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", names[target], node, contnode)
    if page := python_page(target):
        return nodes.reference("", "", contnode, internal=False, refuri=f"{PYTHON}{page}.html#{target}")
    return None if target.startswith("jsonrpc_fast") else contnode


def python_page(target: str) -> str | None:
    """Return the page of Python's documentation that has a name; None if that is not known."""
    module = target.rpartition(".")[0]
    value = getattr(builtins, target, None)
    is_exception = inspect.isclass(value) and issubclass(value, BaseException)
    page = "exceptions" if is_exception else "stdtypes" if inspect.isclass(value) else None
    return PYTHON_PAGES.get(target) or (module if module in PYTHON_MODULES else page)


def link_code(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Link the names that code on a page imports from this package to their entries in the reference."""
    if doctree is None or not context.get("body"):
        return
    objects = app.env.domains["py"].objects
    places: dict[str, str] = {}

    def link(found: re.Match[str]) -> str:
        place = places.get(found[2])
        return found[0] if place is None else f'<a class="{found[1]}" href="{place}">{found[2]}</a>'

    def link_block(found: re.Match[str]) -> str:
        for name, full in imported_names(html.unescape(TAG.sub("", found[0]))):
            entry = objects.get(app.config.documented.get(full, full))
            if entry is None:
                places.pop(name, None)
            else:
                places[name] = f"{app.builder.get_relative_uri(pagename, entry.docname)}#{entry.node_id}"
        return CODE_NAME.sub(link, found[0])

    context["body"] = BLOCK.sub(link_block, context["body"])


def imported_names(text: str) -> list[tuple[str, str]]:
    """Return the names that code imports from modules, each with its full name; nothing for a part of a program."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return [(name.asname or name.name, f"{node.module}.{name.name}") for node in found for name in node.names]


def link_first_uses(app: Sphinx, doctree: nodes.document) -> None:
    """Link the first use of each public name on a page to its entry in the reference."""
    page = app.env.docname
    linked_names = set()
    for literal in list(doctree.findall(nodes.literal)):
        name = entry_of(literal.astext().partition("(")[0], app.config.documented)
        is_plain = not isinstance(literal.parent, (nodes.reference, nodes.title, pending_xref))
        if name is None or name in linked_names or page.startswith("api/") or not is_plain:
            continue
        linked_names.add(name)
        reference = pending_xref("", refdomain="py", reftype="obj", reftarget=name, refdoc=page, refexplicit=True)
        literal.replace_self(reference)
        reference += literal


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give each page a title and a description of its own, which search engines and links show."""
    title, paragraph = next(doctree.findall(nodes.title), None), next(doctree.findall(nodes.paragraph), None)
    is_known = app.env.docname == "index" or app.env.docname.startswith("api/")  # by the site's description
    for meta in doctree.findall(nodes.meta):
        kind = meta.get("name") or meta.get("property")
        if kind == "og:title" and title is not None:
            meta["content"] = f"{title.astext()}: {project}" if title.astext() != project else project
        elif kind in {"description", "og:description"} and paragraph is not None and not is_known:
            text = " ".join(paragraph.astext().split())
            meta["content"] = textwrap.shorten(text, DESCRIPTION_CHARACTERS, placeholder=" …")


def title_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Name the target of a link as users import it, not by the module that defines it."""
    for reference in doctree.findall(nodes.reference):
        title = reference.get("reftitle")
        if title in app.config.documented:
            reference["reftitle"] = app.config.documented[title]


def entry_of(text: str, names: dict[str, str]) -> str | None:
    """Return the full name that a name on a page refers to. A function of a module has the module's name as its prefix.

    A member of a class is in the entry of its class.
    """
    first, *rest = text.split(".")
    return names.get(f"jsonrpc_fast.{text}") or (names.get(first) if first[:1].isupper() and len(rest) < 2 else None)


def prepare_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Show pictures in place of the texts of diagrams, and leave out the adapters that cannot be imported."""
    source[0] = with_pictures(Path(app.env.doc2path(docname)), source[0])
    source[0] = ADAPTERS.sub(lambda found: found[0] if can_import(found[1]) else "", source[0])


@functools.cache
def can_import(name: str) -> bool:
    """Return whether a module can be imported; if all libraries are installed, a fault in it is not hidden."""
    try:
        importlib.import_module(name)
    except Exception:
        if not autodoc_mock_imports:
            raise
        return False
    return True


def check_completeness(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of each documented or public name that has no entry, such as one without a docstring."""
    entries = {name for name, *_ in env.domains["py"].get_objects()}
    for name in sorted(set(app.config.documented.values()) - entries):
        logger.warning("%s has no entry in the API reference", name)


with mock(autodoc_mock_imports):
    documented = documented_names()
autodoc_default_options = {"members": True, "inherited-members": ",".join(sorted(documented_elsewhere(documented)))}


def check_hosts(app: Sphinx, exception: Exception | None) -> None:
    """Warn of each page or style that would load something from another host."""
    for page in [*Path(app.outdir).rglob("*.html"), *Path(app.outdir).rglob("*.css")]:
        for tag in FOREIGN.findall(page.read_text(encoding="utf-8")):
            logger.warning("%s loads from another host: %s", page.name, tag)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("documented", documented, "env", dict)
    app.connect("autodoc-skip-member", is_without_text)
    app.connect("autodoc-process-signature", prepare_signature)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=100)
    app.connect("source-read", prepare_page)
    app.connect("doctree-read", link_first_uses)
    app.connect("doctree-read", describe)
    app.connect("missing-reference", resolve_alias)
    app.connect("doctree-resolved", title_links)
    app.connect("html-page-context", link_code)
    app.connect("env-check-consistency", check_completeness)
    app.connect("build-finished", check_hosts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
