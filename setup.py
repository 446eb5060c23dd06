"""The extension module and its build switch; all metadata is in pyproject.toml.

JSONRPC_FAST_EXTENSION   yes    build the core; a failure is fatal (release jobs use this)
                         no     do not build it
                         unset  build it if possible, and print a warning if not

An older core is removed before anything is built, so it cannot be mistaken for the new one. If the core is not built,
the reason is stored in the package, for `python -m jsonrpc_fast info`.
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
    """The result of the build. `fault` is the reason why there is no core, or None."""

    fault = None


def give_up(error):
    """Continue without the core, or raise `error` if the core is required."""
    if CHOICE == "yes":
        raise error
    Core.fault = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    print(
        f"\n*** jsonrpc_fast: the compiled core was NOT built ({error}).\n"
        "*** The package works without it, but slower. JSONRPC_FAST_EXTENSION=yes makes this an error.\n",
        file=sys.stderr,
    )


def clear(folder):
    """Remove the core of an earlier build from a folder."""
    for suffix in EXTENSION_SUFFIXES:
        Path(folder, f"_core{suffix}").unlink(missing_ok=True)


def record(folder):
    """Store the reason where the selector looks for it."""
    path = Path(folder, "_build.txt")
    path.unlink(missing_ok=True)
    if Core.fault is not None and path.parent.is_dir():
        path.write_text(Core.fault + "\n", encoding="utf-8")


class BuildPackage(build_py):
    """Build the package. Without an extension to build, clear the older core and record the reason here."""

    def run(self):
        super().run()
        if not self.distribution.ext_modules:
            folder = FOLDER if self.editable_mode else os.path.join(self.build_lib, FOLDER)
            clear(folder)
            record(folder)


class BuildCore(build_ext):
    """Build the core. If it is optional and the build fails, record the reason."""

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
    except Exception as error:  # Cython is missing or too old, or the C file cannot be written
        give_up(error)
        return []
    for extension in built:
        # cythonize() makes new Extension objects, without `optional`.
        extension.optional = CHOICE == "unset"
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildPackage})
