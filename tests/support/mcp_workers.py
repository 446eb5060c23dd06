"""Redis, two workers and nginx, with the files on docs/deploy/mcp.md."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .http_process import HOST
from .nginx import write_nginx
from .pages import write_scripts
from .places import PACKAGE, ROOT
from .processes import end_process
from .redis_server import RedisServer, redis_server
from .waiting import accepts, accepts_at, blocking_eventually, free_port

PAGE = ROOT / "docs" / "deploy" / "mcp.md"
_ANY_WORKER = """
server {{
    listen {host}:{port};
    location / {{
        proxy_pass http://mcp_all;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_read_timeout {read_timeout};
    }}
}}
"""


class Workers:
    """The running processes.

    Attributes:
        port: The port of nginx.
        any_port: A port of nginx that distributes requests over the workers in turn and ignores their sessions.
        redis: The Redis server.
        processes: The workers by name.
    """

    def __init__(self, port: int, any_port: int, redis: RedisServer) -> None:
        self.port = port
        self.any_port = any_port
        self.redis = redis
        self.processes: dict[str, subprocess.Popen[bytes]] = {}


def _block(pattern: str) -> list[str]:
    found = re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found


@contextlib.contextmanager
def mcp_workers(nginx: str, read_timeout: str = "60s") -> Iterator[Workers]:
    """Run everything. nginx closes a connection after `read_timeout` without data."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "redis").mkdir()
        workers = Workers(free_port(), free_port(), stack.enter_context(redis_server(folder / "redis")))
        write_scripts(PAGE, folder)
        environment = {
            **os.environ,
            "REDIS_URL": workers.redis.url,
            "STATE_KEY": "5a" * 32,
            "PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE.parent)]),
        }
        commands, _ = _block(r"^```\n(WORKER=.*?)\n```$")  # with uvicorn, and with granian
        for line in commands.replace("/run/mcp", str(folder)).replace('"', "").splitlines():
            name, *command = line.split()
            run = [sys.executable, "-m", *command]
            worker = environment | {"WORKER": name.removeprefix("WORKER=")}
            process = subprocess.Popen(run, env=worker, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            stack.callback(end_process, process)
            workers.processes[worker["WORKER"]] = process
        [rules] = _block(r"^```nginx\n(.*?)^```$")
        for old, new in {
            "/run/mcp": str(folder),
            "listen 80;": f"listen {HOST}:{workers.port};",
            "read_timeout 60s": f"read_timeout {read_timeout}",
        }.items():
            assert old in rules
            rules = rules.replace(old, new)
        rules += _ANY_WORKER.format(host=HOST, port=workers.any_port, read_timeout=read_timeout)
        command = write_nginx(nginx, folder, rules)

        def are_up() -> bool:
            assert all(process.poll() is None for process in workers.processes.values())
            return all(accepts_at(folder / f"{name}.sock") for name in workers.processes)

        blocking_eventually(are_up, 60)
        proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        stack.callback(end_process, proxy)
        blocking_eventually(lambda: proxy.poll() is not None or accepts(workers.port), 60)
        assert proxy.poll() is None, (folder / "error.log").read_text()
        yield workers
