"""The recipe of the conda package agrees with the metadata of the package. `nox -s conda` checks it as a recipe."""

from __future__ import annotations

import re

import pytest

from jsonrpc_fast import __version__

from ..support.places import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra `test`)")
tomllib = pytest.importorskip("tomllib", reason="tomllib is there from Python 3.11 on")


def test_the_recipe_agrees_with_the_metadata() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    project = pyproject["project"]
    assert recipe["package"] == {"name": project["name"], "version": __version__}
    needed = [text.partition(";")[0].lower() for text in pyproject["build-system"]["requires"]]
    assert recipe["requirements"]["host"] == ["python", "pip", *[text.replace(">=", " >=") for text in needed]]
    [orjson] = re.findall(r'"orjson(>=[\d.]+);', setup)
    assert recipe["requirements"]["run"] == ["python", f"orjson {orjson}"]
    about = recipe["about"]
    assert (about["summary"], about["license"]) == (project["description"], project["license"])
    assert [about["license_file"]] == project["license-files"]
    assert f'"JSONRPC_FAST_HOME", "{about["homepage"]}"' in setup
