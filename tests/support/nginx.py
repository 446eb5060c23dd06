"""The main configuration file for tests that start nginx. It writes only into one folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MAIN: Final = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {rules}
}}
"""


def write_nginx(nginx: str, folder: Path, rules: str) -> list[str]:
    """Write the main file, which contains the rules for HTTP, and return the command that starts nginx."""
    user = "user root;" if os.getuid() == 0 else ""
    file = folder / "nginx.conf"
    file.write_text(_MAIN.format(folder=folder, user=user, rules=rules))
    return [nginx, "-p", str(folder), "-c", str(file)]
