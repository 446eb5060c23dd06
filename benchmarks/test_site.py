"""The tables and the plot of the documentation, and the versions on it, are those of the stored figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the group `bench` is not installed")
pytest.importorskip("ajsonrpc", reason="the group `bench` is not installed")

from . import site, summary


@pytest.fixture
def figures() -> Any:
    return json.loads(site.FIGURES.read_bytes())


@pytest.mark.parametrize("page", site.PAGES, ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_figures(figures: Any, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert site.with_sections(text, figures) == text
    figures["nanoseconds"]["decode"]["tiny_request"]["jsonrpc_fast"] *= 10
    assert site.with_sections(text, figures) != text


def test_each_table_stands_on_a_page(figures: Any) -> None:
    found = [name for page in site.PAGES for _, name, _ in site.MARKED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(site.sections(figures))


@pytest.mark.parametrize("name", ["orjson", "msgspec", "pjrpc", "json-rpc", "ajsonrpc", "jsonrpcserver"])
def test_the_comparison_has_the_versions_of_the_run(figures: Any, name: str) -> None:
    assert f"| {name} | {figures['facts'][name]} |" in site.PAGES[1].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["sizes.svg", "ratios.svg"])
def test_the_plots_are_those_of_the_figures(figures: Any, name: str) -> None:
    assert summary.digest(figures) in (site.HERE / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_plot_names_its_figures(figures: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the group `bench` is not installed")
    figures["facts"]["rounds"] = "1"
    site.plot(figures, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert summary.digest(figures) in text
    assert all(label in text for label, *_ in site.LINES.values())
