"""Draw the diagrams of the pages: `python -m docs.diagrams`.

A page has a diagram as text, which GitHub draws itself. The site has it as an SVG in `static/diagrams`, named by a
checksum of the text, so that no page of it loads anything from another host. This program draws what is missing with
mermaid, from npm, in Chromium, and removes what no page has any more.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parent
DIAGRAMS: Final = DOCS / "static" / "diagrams"
MERMAID: Final = "mermaid@12.3.0"
FENCE: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGE: Final = """<!doctype html><meta charset="utf-8"><pre id="found"></pre><script src="package/dist/mermaid.min.js">
</script><script>
mermaid.initialize({{
  startOnLoad: false, theme: "neutral", fontFamily: "sans-serif", htmlLabels: false,
  flowchart: {{ useMaxWidth: false, wrappingWidth: 320, htmlLabels: false }},
  sequence: {{ useMaxWidth: false, wrap: true, mirrorActors: false, width: 130 }},
}});
(async () => {{
  const found = {{}};
  const texts = {texts};
  for (const name in texts) found[name] = (await mermaid.render("diagram-" + name, texts[name])).svg;
  document.getElementById("found").textContent = JSON.stringify(found);
}})();
</script>"""


def name_of(text: str) -> str:
    """Return the name of a diagram's picture."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def with_pictures(page: Path, text: str) -> str:
    """Return the text of a page with a picture in place of each diagram."""
    folder = os.path.relpath(DIAGRAMS, page.parent)
    return FENCE.sub(lambda found: f"![A diagram]({folder}/{name_of(found[1])}.svg)", text)


def texts() -> Iterator[str]:
    """Yield the text of each diagram on the pages."""
    for page in sorted(DOCS.rglob("*.md")):
        yield from FENCE.findall(page.read_text(encoding="utf-8"))


def draw(missing: dict[str, str]) -> dict[str, str]:
    """Return the SVG of each diagram, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        [archive] = Path(folder).glob("*.tgz")
        subprocess.run(["tar", "xf", archive.name, "package/dist/mermaid.min.js"], cwd=folder, check=True)
        page = Path(folder, "page.html")
        page.write_text(PAGE.format(texts=json.dumps(missing)), encoding="utf-8")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom")
        command = ["chromium", *options, f"--user-data-dir={folder}/profile", page.as_uri()]
        text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found: dict[str, str] = json.loads(html.unescape(re.findall(r'<pre id="found">(.*?)</pre>', text)[0]))
    return found


def smaller(svg: str) -> str:
    """Return a picture without what only mermaid's scripts read, its coordinates in tenths of a pixel."""
    svg = re.sub(r' (?:data|aria)-[\w-]+="[^"]*"', "", svg)
    return re.sub(r"(\d\.\d)\d+", r"\1", svg)


def main() -> None:
    wanted = {name_of(text): text for text in texts()}
    DIAGRAMS.mkdir(exist_ok=True)
    for path in DIAGRAMS.glob("*.svg"):
        if path.stem not in wanted:
            path.unlink()
    missing = {name: text for name, text in wanted.items() if not (DIAGRAMS / f"{name}.svg").is_file()}
    for name, svg in draw(missing).items() if missing else ():
        (DIAGRAMS / f"{name}.svg").write_text(smaller(svg) + "\n", encoding="utf-8")
    print(f"{len(wanted)} diagrams, {len(missing)} drawn")


if __name__ == "__main__":
    main()
