"""Prompts from a folder of templates: names, arguments, rendered texts, completions, and hostile templates."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.templates import prompts as prompts_module
from jsonrpc_fast.mcp.templates import rendering
from jsonrpc_fast.mcp.templates.prompts import Changes, TemplatePrompts

from ...support.mcp_schemas import schema_of
from ...support.tables import table

REVIEW = """{#
  Reviews a piece
  of code.
#}
Review this {{ language }} code{% if tone == "strict" or tone in ("kind", "calm") %} ({{ tone }}){% endif %}:
{{ code }}{{ note | default("") }}
"""

Opened = Callable[..., TemplatePrompts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "templates"
    path.mkdir()
    return path


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    """Return a function that writes files into the folder and opens it."""
    prompts = []

    def open_folder(files: dict[str, str]) -> TemplatePrompts:
        write(folder, files)
        prompts.append(TemplatePrompts(folder))
        prompts[-1].refresh()
        return prompts[-1]

    yield open_folder
    for each in prompts:
        each.close()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def text_of(prompts: TemplatePrompts, name: str, /, **arguments: str) -> str:
    result = prompts.get(name, arguments)
    assert result is not None
    [message] = result["messages"]
    assert (message["role"], message["content"]["type"]) == ("user", "text")
    return message["content"]["text"]  # type: ignore[no-any-return]


def refused(prompts: TemplatePrompts, name: str, arguments: dict[str, str] | None = None) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        prompts.get(name, arguments or {})
    return caught.value.code, caught.value.message


def test_a_template_is_a_prompt(opened: Opened, corpora: Path) -> None:
    prompts = opened({"review.md.j2": REVIEW})
    [prompt] = prompts.prompts()
    assert prompt.to_dict() == {
        "name": "review",
        "description": "Reviews a piece of code.",
        "arguments": [
            {"name": "language", "required": True},
            {"name": "tone", "required": True},
            {"name": "code", "required": True},
            {"name": "note", "required": False},
        ],
    }
    result = prompts.get("review", {"language": "C", "tone": "strict", "code": "{{ not_a_template }}"})
    text = "Review this C code (strict):\n{{ not_a_template }}"
    assert result == {
        "description": "Reviews a piece of code.",
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }
    for version in ("2024-11-05", "2025-11-25"):
        schema_of(corpora, version, "Prompt").validate(prompt.to_dict(version))
        schema_of(corpora, version, "GetPromptResult").validate(result)


LINE_BREAKS = [
    ("{# D. #}\nx", "x"),
    ("{# D. #}\r\nx", "x"),
    ("{# D. #} \t\n\nx", "\nx"),
    ("{# D.\n#}\n{# other #}\nx", "\nx"),
    ("{# D. #}x\ny", "x\ny"),
    ("{# D. +#}\nx", "\nx"),
    ("{# D. -#}\n\n x", "x"),
    ("a{# D. #}\nx", "a\nx"),
    ("{# D. #}{# E. #}\nx", "\nx"),
    ("{##}\nx", "x"),
    ("{# D. #}\n{% include 'b.txt' %}", "included"),
]


def test_the_line_break_after_the_description_is_not_in_the_prompt(opened: Opened) -> None:
    files = {f"{number}.txt": template for number, (template, _) in enumerate(LINE_BREAKS)}
    prompts = opened({**files, "b.txt": "{# Part. #}\nincluded"})
    with table() as row:
        for number, (template, text) in enumerate(LINE_BREAKS):
            with row(template):
                assert text_of(prompts, str(number)) == text


def test_names_of_prompts_and_resources(opened: Opened) -> None:
    prompts = opened(
        {
            "b.txt": "",
            "a.txt": "",
            "a.md": "",
            "sub/c.prompt": "",
            "_partial.txt": "",
            "_parts/d.txt": "",
            ".hidden.txt": "",
            ".git/e.txt": "",
            "program.py": "",
            "f.md.jinja2": "",
        }
    )
    assert [prompt.name for prompt in prompts.prompts()] == ["a.md", "a.txt", "b", "f", "sub/c"]
    assert [resource.name for resource in prompts.resources()] == [
        "a.md",
        "a.txt",
        "b.txt",
        "f.md.jinja2",
        "sub/c.prompt",
    ]


def test_resources(opened: Opened, corpora: Path) -> None:
    prompts = opened({"sub/naïve name.md": "# {{ x }} é\n", "_p.txt": ""})
    [resource] = prompts.resources()
    uri = "resource://templates/sub/na%C3%AFve%20name.md"
    assert resource.to_dict() == {"uri": uri, "name": "sub/naïve name.md", "mimeType": "text/markdown", "size": 13}
    schema_of(corpora, "2025-11-25", "Resource").validate(resource.to_dict())
    assert prompts.read(uri) == {"uri": uri, "mimeType": "text/markdown", "text": "# {{ x }} é\n"}
    for other in (
        "resource://templates/_p.txt",
        "resource://templates/../templates/_p.txt",
        "resource://templates//etc/passwd",
        "resource://templates/%2e%2e/secret.txt",
        "file:///etc/passwd",
        "",
    ):
        assert prompts.read(other) is None


def test_includes(opened: Opened) -> None:
    prompts = opened(
        {
            "letter.txt": "{% extends '_base.txt' %}{% block body %}{{ body }}{% for line in body.split() %}"
            "{% include ['missing.txt', '_line.txt'] %}{% endfor %}{% endblock %}",
            "_base.txt": "Dear {{ name }},\n{% block body %}{% endblock %}\n{% include '_sign.txt' ignore missing %}",
            "_line.txt": "[{{ line }}{{ mark }}]",
            "_sign.txt": "{{ sender }}",
            "macro.txt": "{% from '_macros.txt' import hello %}{{ hello(who) }}",
            "_macros.txt": "{% macro hello(x) %}Hello {{ x }}{{ unknown }}{% endmacro %}",
        }
    )
    macro, letter = sorted(prompts.prompts(), key=lambda prompt: prompt.name, reverse=True)
    arguments = letter.to_dict()["arguments"]
    assert {item["name"] for item in arguments} == {"body", "name", "mark", "sender"}
    assert text_of(prompts, "letter", body="a b", name="Bob", mark="!", sender="Al") == "Dear Bob,\na b[a!][b!]\nAl"
    assert macro.to_dict()["arguments"] == [{"name": "who", "required": True}]


def test_optional_arguments(opened: Opened) -> None:
    prompts = opened(
        {
            "a.txt": "{% if x is defined %}x={{ x }}{% endif %}{{ y | d('none') }}",
            "b.txt": "{{ x | default('') }}{{ x.upper() }}",
        }
    )
    assert text_of(prompts, "a") == "none"
    assert text_of(prompts, "a", x="1", y="2") == "x=12"
    assert refused(prompts, "b") == (-32602, "missing argument: x")


def test_invalid_requests(opened: Opened) -> None:
    prompts = opened({"a.txt": "{{ one }}{{ two }}", "none.txt": ""})
    assert prompts.get("SECRET", {}) is prompts.get("a.txt", {}) is None
    assert refused(prompts, "a") == (-32602, "missing argument: one, two")
    assert refused(prompts, "a", {"one": "SECRET"}) == (-32602, "missing argument: two")
    accepts = "unknown argument; the prompt accepts: "
    assert refused(prompts, "a", {"one": "", "two": "", "SECRET": ""}) == (-32602, accepts + "one, two")
    assert refused(prompts, "none", {"SECRET": ""}) == (-32602, accepts + "none")
    long = {"one": "x" * 1024 * 1024, "two": "x"}
    assert refused(prompts, "a", long) == (-32602, "the arguments have more than 1048576 characters")


def test_arguments_are_not_templates(opened: Opened) -> None:
    prompts = opened({"a.txt": "{{ x }}"})
    for value in ("{{ 7 * 7 }}", "{% include 'a.txt' %}", "\0\u2028\ud7ff𝄞", "<b>&</b>", "'\"\\\n"):
        assert text_of(prompts, "a", x=value) == value


@pytest.mark.ci
def test_completion(opened: Opened) -> None:
    many_values = "".join([f"{{% if x == 'v{number}' %}}{{% endif %}}" for number in range(150)])
    prompts = opened({"review.txt": REVIEW, "many.txt": many_values})

    def complete(name: str, argument: str, value: str) -> Any:
        return prompts.complete(name, {"name": argument, "value": value})

    assert complete("review", "tone", "") == {"values": ["strict", "kind", "calm"]}
    assert complete("review", "tone", "k") == {"values": ["kind"]}
    assert complete("review", "language", "") == {"values": []}
    assert complete("review", "", "") == {"values": ["language", "tone", "code", "note"]}
    assert complete("review", "co", "") == {"values": ["code"]}
    assert complete("many", "x", "v1")["values"][:3] == ["v1", "v10", "v11"]
    assert complete("other", "a", "") is None


def test_refresh(opened: Opened, folder: Path) -> None:
    prompts = opened({"a.txt": "{{ x }}", "b.txt": "b", "c.txt": "{% include '_p.txt' %}", "_p.txt": "{{ one }}"})
    assert prompts.refresh() == Changes()
    uri = "resource://templates/"

    write(folder, {"b.txt": "B"})
    os.utime(folder / "b.txt", ns=(1, 1))
    assert prompts.refresh() == Changes(updated=frozenset({uri + "b.txt"}))
    assert text_of(prompts, "b") == "B"

    write(folder, {"_p.txt": "{{ another }}"})
    assert prompts.refresh() == Changes(prompts=True)
    assert text_of(prompts, "c", another="1") == "1"

    write(folder, {"d.txt": "d"})
    assert prompts.refresh() == Changes(prompts=True, resources=True)

    (folder / "d.txt").unlink()
    write(folder, {"a.txt": "{# Now described. #}{{ x }}"})
    changes = prompts.refresh()
    assert changes == Changes(prompts=True, resources=True, updated=frozenset({uri + "a.txt"}))
    assert [prompt.name for prompt in prompts.prompts()] == ["a", "b", "c"]

    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert prompts.refresh() == Changes(prompts=True, resources=True)
    assert prompts.prompts() == []


def test_the_path_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(NotADirectoryError, match="is not a folder"):
            TemplatePrompts(path)


def test_an_unusable_template_is_logged_once(opened: Opened, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "binary.txt").write_bytes(b"\xff\xfe\0")
    with caplog.at_level(logging.WARNING, "jsonrpc_fast"):
        prompts = opened({"good.txt": "", "bad.txt": "\n{% if %}SECRET", "unknown.txt": "{{ x | nofilter }}"})
        assert [prompt.name for prompt in prompts.prompts()] == ["good"]
        # A template that does not compile is still a resource.
        assert len(prompts.resources()) == 3
        write(folder, {"new.txt": ""})
        prompts.refresh()
        prompts.refresh()
    assert caplog.messages == [
        "template 'binary.txt' is skipped: it is not UTF-8",
        "template 'bad.txt' is not a prompt: it failed with TemplateSyntaxError in line 2",
        "template 'unknown.txt' is not a prompt: it failed with TemplateAssertionError in line 1",
    ]


def test_a_template_left_out_for_lack_of_time_is_tried_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(prompts_module, "_ANALYSIS_SECONDS", 0.0)
        prompts = opened({"good.txt": "good"})
    assert prompts.prompts() == []
    assert caplog.messages == ["template 'good.txt' is not a prompt: it was left out because others took too long"]
    assert prompts.refresh().prompts
    assert text_of(prompts, "good") == "good"
    assert not prompts.refresh().prompts


HOSTILE = {
    "loop": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "slow": "{{ 9 ** (9 ** 9) }}{{ x }}",
    "shift": "{{ (1 << (x | int)) | string }}",
    "product": "{{ x * 10 ** 9 }}",
    "constant": "{{ 'x' * 10 ** 9 }}",
    "format": "{{ '%1000000000d' % 1 }}",
    "braces": "{{ '{:1000000000}'.format(x) }}",
    "pad": "{{ x | center(10 ** 9) }}",
    "range": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "include": "{% include 'include.txt' %}",
    "large": "{% for i in range(9999) %}{{ 'x' * 1000 }}{% endfor %}",
    "grow": "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "class": "{{ x.__class__.__mro__ }}",
    "globals": "{{ cycler.__init__.__globals__ }}",
    "attr": "{{ x | attr('__class__') | attr('__base__') }}",
    "formatted": "{{ '{0.__class__.__init__}'.format(x) }}",
    "surrogate": "{{ '\\ud800' }}",
    "zero": "{{ 1 // 0 }}",
    "part": "{{ x.SECRET }}",
    "outside": "{% include '../secret.txt' %}",
    "absolute": "{% include '/etc/passwd' %}",
    "named": "{% include x %}",
    "imported": "{% import '../secret.txt' as s %}{{ s }}",
    "extended": "{% extends '../secret.txt' %}",
}


@pytest.mark.slow
def test_hostile_templates(
    opened: Opened, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "secret.txt").write_text("SECRET")
    files = {f"{name}.txt": text for name, text in HOSTILE.items()}
    monkeypatch.setattr(rendering, "RENDER_SECONDS", 1)
    monkeypatch.setattr(rendering, "MAX_TEXT_CHARACTERS", 100_000)
    monkeypatch.setattr(rendering, "MAX_MEMORY_BYTES", 256 * 1024 * 1024)
    prompts = opened({**files, "good.txt": "good {{ x }}"})
    outcomes = {}
    for prompt in prompts.prompts():
        names = {argument["name"] for argument in prompt.to_dict()["arguments"]}
        value = "../secret.txt" if prompt.name == "named" else "99999999999"
        began = time.monotonic()
        try:
            outcomes[prompt.name] = (0, text_of(prompts, prompt.name, **dict.fromkeys(names, value)))
        except RpcError as error:
            outcomes[prompt.name] = (error.code, error.message)
        assert time.monotonic() - began < 5
        assert text_of(prompts, "good", x="1") == "good 1"
    assert outcomes.pop("good") == (0, "good 99999999999")
    # Jinja2's sandbox renders some unsafe expressions as an empty text.
    assert {name: text for name, (code, text) in outcomes.items() if code == 0} in ({}, {"attr": ""})
    assert outcomes["loop"] == (-32603, "the template took longer than 1 seconds")
    assert outcomes["large"] == (-32603, "the template rendered more than 100000 characters")
    for name in ("product", "format", "braces", "macro", "include", "class", "part", "outside", "named", "surrogate"):
        assert outcomes[name] == (-32603, "the template failed"), name
    assert {code for code, _ in outcomes.values()} <= {0, -32603}
    assert "SECRET" not in str(outcomes)
    assert "SECRET" not in caplog.text


@pytest.mark.slow
def test_a_looping_template_does_not_delay_another(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "RENDER_SECONDS", 3)
    prompts = opened({"loop.txt": HOSTILE["loop"], "good.txt": "good"})
    assert text_of(prompts, "good") == "good"
    thread = threading.Thread(target=refused, args=(prompts, "loop"))
    thread.start()
    try:
        time.sleep(0.2)
        for _ in range(5):
            assert text_of(prompts, "good") == "good"
        assert thread.is_alive()
    finally:
        thread.join(30)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no links")
def test_links_outside_the_folder_are_not_followed(
    opened: Opened, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET")
    write(folder, {"real/a.txt": "inside"})
    (folder / "link.txt").symlink_to(folder / "real" / "a.txt")
    (folder / "out.txt").symlink_to(outside / "secret.txt")
    (folder / "up.txt").symlink_to("../outside/secret.txt")
    (folder / "gone.txt").symlink_to("nothing.txt")
    (folder / "self.txt").symlink_to("self.txt")
    (folder / "dir").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.txt")
    with caplog.at_level(logging.WARNING, "jsonrpc_fast"):
        prompts = opened({"reads.txt": "{% include 'out.txt' %}", "dirs.txt": "{% include 'dir/secret.txt' %}"})
    assert [prompt.name for prompt in prompts.prompts()] == ["dirs", "link", "reads", "real/a"]
    assert text_of(prompts, "link") == "inside"
    assert refused(prompts, "reads") == refused(prompts, "dirs") == (-32603, "the template failed")
    assert "SECRET" not in str([prompts.read(resource.uri) for resource in prompts.resources()])
    assert "'out.txt' is skipped: it is a link to a file outside the folder" in caplog.text
    assert "'up.txt' is skipped: it is a link to a file outside the folder" in caplog.text
    assert "'gone.txt' is skipped: it cannot be opened" in caplog.text
    assert "'pipe.txt' is skipped: it is not a regular file" in caplog.text


def test_nothing_is_rendered_after_close(opened: Opened) -> None:
    prompts = opened({"a.txt": "a"})
    assert text_of(prompts, "a") == "a"
    prompts.close()
    prompts.close()
    assert refused(prompts, "a") == (-32603, "the template could not be rendered: RuntimeError")


def test_the_log_of_many_bad_files_is_short(opened: Opened, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(50):
        (folder / f"{number:02}.txt").write_bytes(b"\xff")
    with caplog.at_level(logging.WARNING, "jsonrpc_fast"):
        opened({})
    assert caplog.messages == [
        *[f"template '{number:02}.txt' is skipped: it is not UTF-8" for number in range(20)],
        "30 more templates are skipped or are not prompts",
    ]
