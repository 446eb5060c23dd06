"""Compile the C of the core for other systems with Zig; nothing is linked or run. The arguments are some of PORTS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from .packages import ROOT

PORTS: Final = (
    *("x86_64-linux-musl", "aarch64-linux-musl", "x86_64-macos", "aarch64-macos"),
    *("x86_64-windows-gnu", "aarch64-windows-gnu"),
)
"""Systems with wheels whose compilers a machine with Linux does not have, as Zig names them."""
WINDOWS: Final = {
    **dict.fromkeys(("MS_WINDOWS", "MS_WIN32", "MS_WIN64", "NT_THREADS", "HAVE_DECLSPEC_DLL"), ""),
    "Py_ENABLE_SHARED": "1",
    "HAVE_PY_SSIZE_T": "1",
    "PY_SSIZE_T_MAX": "9223372036854775807LL",
    **{f"SIZEOF_{name}": "2" for name in ("SHORT", "WCHAR_T")},
    **{f"SIZEOF_{name}": "4" for name in ("INT", "LONG", "FLOAT")},
    **{f"SIZEOF_{name}": "8" for name in ("LONG_LONG", "VOID_P", "SIZE_T", "TIME_T", "DOUBLE")},
    **{f"HAVE_{name}_H": "1" for name in ("STDDEF", "ERRNO", "IO", "SYS_STAT", "SYS_TYPES")},
}
"""The settings that Python's headers need for 64-bit Windows, in place of `pyconfig.h`, which is for this machine."""


def main(ports: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = folder / "tools"
        pip = (sys.executable, "-m", "pip", "install", "-q", "--target", str(tools), "ziglang>=0.13")
        subprocess.run(pip, check=True)
        build = ("setup.py", "-q", "build_ext", "--build-lib", str(folder), "--force")
        env = {**os.environ, "JSONRPC_FAST_EXTENSION": "yes"}
        subprocess.run([sys.executable, *build], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
        source = max((ROOT / "build" / "core").glob("*/_core.c"), key=lambda path: path.stat().st_mtime)
        headers = Path(sysconfig.get_paths()["include"])
        of_windows = folder / "windows"
        shutil.copytree(headers, of_windows)
        settings = "".join([f"#define {name} {value}\n" for name, value in WINDOWS.items()])
        (of_windows / "pyconfig.h").write_text(settings + "typedef long long Py_ssize_t;\n")
        for port in ports or PORTS:
            include = of_windows if "windows" in port else headers
            options = ("-target", port, "-c", "-O0", "-w", f"-I{include}", "-o", str(folder / f"{port}.o"))
            zig = (sys.executable, "-m", "ziglang", "cc", *options, str(source))
            subprocess.run(zig, env={**os.environ, "PYTHONPATH": str(tools)}, check=True)
            print(f"{port}: compiled")


if __name__ == "__main__":
    main(sys.argv[1:])
