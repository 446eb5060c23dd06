"""Importing the package changes no logger."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from .test_extras import modules

IMPORTING = """
import importlib, json, logging, sys

class Seen(logging.Handler):
    def emit(self, record):
        seen.append(record.name)

seen = []
root = logging.getLogger()
root.setLevel(logging.DEBUG)
root.addHandler(Seen())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # an extra is missing
loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("jsonrpc_fast")}
found = {
    name: [logger.level, logger.propagate, logger.disabled, [type(one).__name__ for one in logger.handlers]]
    for name, logger in loggers.items()
}
logging.getLogger("jsonrpc_fast.session").warning("x")
print(json.dumps([found, [type(one).__name__ for one in root.handlers], root.level, seen[-1:]]))
"""


def test_importing_every_module_sets_no_level_and_adds_one_handler_that_does_nothing() -> None:
    environment = {**os.environ, "JSONRPC_FAST_DEBUG": "1"}
    command = [sys.executable, "-c", IMPORTING, *modules()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    found, handlers, level, seen = json.loads(done.stdout)
    assert found.pop("jsonrpc_fast") == [0, True, False, ["NullHandler"]]
    assert {"jsonrpc_fast.session", "jsonrpc_fast.transports"} <= set(found)
    assert found == {name: [0, True, False, []] for name in found}
    assert (handlers, level, seen) == (["Seen"], 10, ["jsonrpc_fast.session"])
