"""The extension and its build switch; everything else is in pyproject.toml.

JSONRPC_FAST_EXTENSION   yes    build the core; a failure is fatal (what release jobs use)
                         no     do not build it
                         unset  build it if it can be built, and say plainly when it could not
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CHOICE = os.environ.get("JSONRPC_FAST_EXTENSION") or "unset"
if CHOICE not in ("yes", "no", "unset"):
    sys.exit(f"JSONRPC_FAST_EXTENSION must be yes, no or unset, not {CHOICE!r}")


class BuildCore(build_ext):
    """Builds the core, and where it need not be there says why it is not."""

    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except Exception as error:
            if not ext.optional:
                raise
            print(
                f"\n*** jsonrpc_fast: the compiled core was NOT built ({error}).\n"
                "*** The package works in plain Python, slower. JSONRPC_FAST_EXTENSION=yes makes this an error.\n",
                file=sys.stderr,
            )


def extensions():
    if CHOICE == "no":
        return []
    from Cython.Build import cythonize

    core = Extension("jsonrpc_fast._core", ["jsonrpc_fast/_core.pyx"])
    built = cythonize([core], force=True)
    for extension in built:
        # cythonize() makes new Extension objects, without `optional`.
        extension.optional = CHOICE == "unset"
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore})
