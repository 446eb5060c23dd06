"""The extension module and its build switch; all metadata is in pyproject.toml.

JSONRPC_FAST_EXTENSION   yes    build the core; a failure is fatal (release jobs use this)
                         no     do not build it
                         unset  build it if possible, and print a warning if not

An older core is removed before anything is built, so it cannot be mistaken for the new one. If the core is not built,
the reason is stored in the package, for `python -m jsonrpc_fast info`.

A core for a wheel has no symbols, a core for the source folder keeps them. With SOURCE_DATE_EPOCH, the same sources and
tools give the same bytes in any folder: setuptools does so for wheels, `SourceArchive` for the source distribution.
"""

import gzip
import os
import runpy
import sys
import tarfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

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
        if not self.inplace and self.compiler.compiler_type != "msvc":
            ext.extra_compile_args.append("-g0")
            ext.extra_link_args.append("-Wl,-x" if sys.platform == "darwin" else "-Wl,-s")
        try:
            super().build_extension(ext)
        except Exception as error:
            give_up(error)


class SourceArchive(sdist):
    """Write the source distribution. With SOURCE_DATE_EPOCH, nothing in it depends on the machine or the time."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)

        def plain(member):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.mtime = int(epoch)
            return member

        name = f"{base_name}.tar.gz"
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(Path(root_dir or "", base_dir), base_dir, filter=plain)  # in sorted order
        return name


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


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildPackage, "sdist": SourceArchive})
