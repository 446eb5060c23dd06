"""Take the pictures of the pages: `nox -s run -- pictures`.

- `static/terminal.svg`: the commands of [the command line](command-line.md) with the colours of a terminal.
- `static/diagrams`: the diagrams of the pages, by `docs/diagrams.py`.
- `static/site.png`: the first page of the site, on a wide screen and on a phone in dark mode.

Each page of the site is opened at the width of a phone, light and dark: none may be wider than the screen, or ask
another host for anything.
"""

from __future__ import annotations

import functools
import html
import http.server
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from docs import diagrams
from tests.support.pages import commands, steps

DOCS = Path(__file__).parent
SITE = DOCS.parent / "build" / "docs"
STATIC = DOCS / "static"
CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--hide-scrollbars", "--virtual-time-budget=20000"),
)
WIDTH, LINE, LEFT, TOP = 104, 18, 14, 24
"""The columns of the terminal; the height of a line and the margins in pixels."""
COLOURS = {"31": "#f47067", "32": "#8ddb8c", "33": "#dbab0a", "34": "#6cb6ff", "35": "#dcbdfb", "36": "#76e3ea"}
PHONE = 390
WIDE = """<!doctype html>
<style>body {{ margin: 0; display: flex; gap: 16px; background: #888 }} iframe {{ border: 0; height: 844px }}</style>
<iframe style="width: 1280px" src="{page}"></iframe>
<iframe style="width: 390px; color-scheme: dark" src="{page}"></iframe>
"""
NARROW = """<!doctype html>
<pre id="found"></pre>
<script>
const pages = {pages};
const found = [];
async function look(page, scheme) {{
  const frame = document.createElement("iframe");
  frame.style = `width: {width}px; height: 844px; border: 0; color-scheme: ${{scheme}}`;
  frame.src = page;
  await new Promise(done => {{ frame.onload = done; document.body.append(frame); }});
  const inside = frame.contentDocument.documentElement;
  const dark = frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches;
  const asked = frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name);
  const foreign = asked.filter(name => new URL(name).host !== location.host && !name.startsWith("data:"));
  found.push([page, inside.scrollWidth, foreign, dark === (scheme === "dark")]);
  frame.remove();
}}
(async () => {{
  for (const page of pages) for (const scheme of ["light", "dark"]) await look(page, scheme);
  document.getElementById("found").textContent = JSON.stringify(found);
}})();
</script>
"""


class Site(http.server.SimpleHTTPRequestHandler):
    """The files of the site, without a log."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def chromium(address: str, *options: str) -> str:
    """Open an address in a window that is larger than any picture, and return what Chromium prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*CHROMIUM, f"--user-data-dir={folder}", *options, address]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def picture_of_the_site(address: str) -> None:
    (SITE / "wide.html").write_text(WIDE.format(page="index.html"))
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "site.png")
        options = ("--window-size=1686,844", "--force-device-scale-factor=0.6", f"--screenshot={shot}")
        chromium(f"{address}/wide.html", *options)
        Image.open(shot).convert("RGB").quantize(96).save(STATIC / "site.png", optimize=True)
    (SITE / "wide.html").unlink()


def faults_of_pages(address: str) -> list[str]:
    names = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)
    (SITE / "narrow.html").write_text(NARROW.format(pages=json.dumps(names), width=PHONE))
    text = chromium(f"{address}/narrow.html", "--dump-dom")
    (SITE / "narrow.html").unlink()
    found = json.loads(html.unescape(re.findall(r'<pre id="found">(.*?)</pre>', text)[0]))
    assert len(found) == 2 * len(names), f"{len(found)} of {2 * len(names)} were opened"
    assert all(is_right for *_, is_right in found)
    wide = {f"{page}: {width} pixels wide" for page, width, *_ in found if width > PHONE}
    return sorted(wide | {f"{page}: asks {name}" for page, _, foreign, _ in found for name in foreign})


def terminal() -> Iterator[str]:
    """Yield the lines of the commands and of their output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "FORCE_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in steps(DOCS / "command-line.md"):
            if kind == "python":
                Path(folder, "server.py").write_text(text)
            for command, _ in commands(text) if kind == "console" else ():
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    shell=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )
                if "stubs" not in command:
                    yield from [f"$ \033[1m{command}\033[0m", *done.stdout.splitlines()]


def wrapped(line: str) -> Iterator[str]:
    """Yield a line in pieces as wide as the terminal; a style continues in the next one."""
    piece, width, style = "", 0, ""
    for code, char in re.findall(r"(\033\[[\d;]*m)|(.)", line):
        style = code or style
        if width == WIDTH:
            yield piece
            piece, width = style, 0
        piece, width = piece + (code or char), width + len(char)
    yield piece


def picture_of_the_terminal() -> None:
    rows = [piece for line in terminal() for piece in wrapped(line)]
    texts = []
    for number, row in enumerate(rows):
        spans = io.StringIO()
        names: list[str] = []
        for codes, text in re.findall(r"\033\[([\d;]*)m|([^\033]+)", row):
            if not text:
                names = codes.split(";")
                continue
            colour = next((COLOURS[name] for name in names if name in COLOURS), "")
            weight = ' font-weight="bold"' if "1" in names else ""
            opacity = ' opacity="0.65"' if "2" in names else ""
            fill = f' fill="{colour}"' if colour else ""
            spans.write(f"<tspan{fill}{weight}{opacity}>{html.escape(text, quote=False)}</tspan>")
        texts.append(f'<text x="{LEFT}" y="{TOP + LINE * number}">{spans.getvalue()}</text>')
    width, height = LEFT * 2 + 8 * WIDTH, TOP + LINE * len(rows)
    (STATIC / "terminal.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" '
        f'font-size="13" fill="#e6edf3">\n<style>text {{ white-space: pre }}</style>\n'
        '<rect width="100%" height="100%" rx="8" fill="#1c2128"/>\n' + "\n".join(texts) + "\n</svg>\n",
        encoding="utf-8",
    )


def main() -> int:
    diagrams.main()
    picture_of_the_terminal()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        picture_of_the_site(address)
        found = faults_of_pages(address)
        server.shutdown()
    print("\n".join(found) or f"no page is wider than {PHONE} pixels, or asks another host")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
