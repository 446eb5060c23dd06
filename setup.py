"""The extension and its build switch; everything else is in pyproject.toml.

JSONRPC_FAST_EXTENSION   yes    build the core; a failure is fatal (what release jobs use)
                         no     do not build it
                         unset  build it if it can be built, and say plainly when it could not

An older core is removed before anything is built, so that none is taken for the new one. Where the core is not built,
the reason is kept in the package, for `python -m jsonrpc_fast info`.
"""

import os
import runpy
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = "jsonrpc_fast.codec"
FOLDER = os.path.join("jsonrpc_fast", "codec")
CHOICE = os.environ.get("JSONRPC_FAST_EXTENSION") or "unset"
if CHOICE not in ("yes", "no", "unset"):
    sys.exit(f"JSONRPC_FAST_EXTENSION must be yes, no or unset, not {CHOICE!r}")


class Core:
    """What became of the core. `fault`: why it is not built, or None."""

    fault = None


def give_up(error):
    """Goes on without the core, or raises `error` where it has to be there."""
    if CHOICE == "yes":
        raise error
    Core.fault = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    print(
        f"\n*** jsonrpc_fast: the compiled core was NOT built ({error}).\n"
        "*** The package works in plain Python, slower. JSONRPC_FAST_EXTENSION=yes makes this an error.\n",
        file=sys.stderr,
    )


def clear(folder):
    """Removes the core that an earlier build left in a folder."""
    for suffix in EXTENSION_SUFFIXES:
        Path(folder, f"_core{suffix}").unlink(missing_ok=True)


def record(folder):
    """Leaves the reason where the selector looks for it."""
    path = Path(folder, "_build.txt")
    path.unlink(missing_ok=True)
    if Core.fault is not None and path.parent.is_dir():
        path.write_text(Core.fault + "\n", encoding="utf-8")


class BuildPackage(build_py):
    """Builds the package, and clears and records what no extension's build does where there is none to build."""

    def run(self):
        super().run()
        if not self.distribution.ext_modules:
            folder = FOLDER if self.editable_mode else os.path.join(self.build_lib, FOLDER)
            clear(folder)
            record(folder)


class BuildCore(build_ext):
    """Builds the core, and where it need not be there says why it is not."""

    def run(self):
        folders = [os.path.join(self.build_lib, FOLDER)] + [FOLDER] * bool(self.inplace)
        for folder in folders:
            clear(folder)
        try:
            super().run()
        except Exception as error:
            give_up(error)
        for folder in folders:
            record(folder)

    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except Exception as error:
            give_up(error)


def extensions():
    if CHOICE == "no":
        Core.fault = "JSONRPC_FAST_EXTENSION=no"
        return []
    try:
        from Cython.Build import cythonize

        checksum = runpy.run_path(os.path.join(FOLDER, "_sources.py"))["checksum"](FOLDER)
        macros = [("JSONRPC_FAST_SOURCES", f"{checksum}UL")]
        core = Extension(f"{PACKAGE}._core", [f"{FOLDER}/_core.pyx"], define_macros=macros)
        built = cythonize([core], force=True)
    except Exception as error:  # no Cython, one that is too old, or no C file can be written
        give_up(error)
        return []
    for extension in built:
        # cythonize() makes new Extension objects, without `optional`.
        extension.optional = CHOICE == "unset"
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildPackage})
