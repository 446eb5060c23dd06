"""The extension module and its build switch; all metadata is in pyproject.toml.

JSONRPC_FAST_EXTENSION   yes    build the core; a failure is fatal (release jobs use this)
                         no     do not build it
                         unset  build it if possible, and print a warning if not

An older core is removed before anything is built, so it cannot be mistaken for the new one. If the core is not built,
the reason is stored in the package, for `python -m jsonrpc_fast info`.

Nothing is written next to the sources. Cython's C file and the finished core stay in `build/core/KEY`, where the key is
a checksum of the sources and of Cython's release: the same sources are not translated again, nor compiled again with
the same settings (`--force` does both), and a branch that was built once is free. If that folder cannot be written,
they stay in the build's own folder.

A docstring of the core that ends with a reference, such as `_pure.decode`, gets the docstring of that name in the pure
backend instead. It takes one line there, so the numbers of lines in tracebacks are those of the sources.

orjson is a dependency if it can be installed. No environment marker identifies a free-threaded Python, so a package
that is built there does not require orjson. The core is only for CPython: elsewhere nothing is compiled, unless it is
required.

The core has no symbols; `build_ext --debug` keeps them. With SOURCE_DATE_EPOCH, the same sources and
tools give the same bytes in any folder: setuptools does so for wheels, `SourceArchive` for the source distribution.
"""

import ast
import gzip
import hashlib
import os
import platform
import re
import runpy
import shutil
import sys
import sysconfig
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

HOME = os.environ.get("JSONRPC_FAST_HOME", "https://example.org/jsonrpc_fast")
"""A placeholder for the project's address in the metadata. The pages, the changes and the issues are below it."""
ORJSON = "orjson>=3.12; platform_python_implementation == 'CPython' and sys_platform != 'emscripten'"
"""Up to 3.11.9, `dumps` alone corrupts the heap for some of the values that the tests of `default` make."""
PYX = f"{FOLDER}/_core.pyx"
SOURCES = ("*.pyx", "*.pxd", "*.pxi", "*.h")
REFERENCE = re.compile(r'`(_messages|_pure|_serving)\.([\w.]+)`(?=""")')
KEPT_BUILDS = 12
"""How many builds are kept, so that a branch that was built once is built at once."""
SETTINGS = ("CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET")
"""Variables that change what a compiler makes."""


PURE_WHEEL = (
    "JSONRPC_FAST_EXTENSION=no, as for the pure wheel. Installers take that wheel if the release has no other for this "
    "Python and system. With a C compiler, `pip install --no-binary jsonrpc_fast jsonrpc_fast` builds the core"
)


class Core:
    """The result of the build. `fault` says why there is no core; None if there is one."""

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
        if not self.debug and self.compiler.compiler_type != "msvc":
            ext.extra_compile_args.append("-g0")
            ext.extra_link_args.append("-Wl,-x" if sys.platform == "darwin" else "-Wl,-s")
        if self.compiler.compiler_type != "msvc":
            # The core is a tenth smaller than with -O3, and as fast: functions that must be inlined say so
            # (`output.pxi`).
            if "-O" not in os.environ.get("CFLAGS", ""):
                ext.extra_compile_args.append("-O2")
            # Without alignment, a change anywhere moves the loops of the readers, which can cost a quarter of their
            # speed.
            ext.extra_compile_args += ["-falign-functions=64", "-falign-loops=32"]
            # Tables for unwinding are a twentieth of the core, and no exception of C++ passes through it.
            ext.extra_compile_args.append("-fno-asynchronous-unwind-tables")
        try:
            self.build_core(ext)
        except Exception as error:  # also an ImportError: Cython is missing or too old
            give_up(error)

    def build_core(self, ext):
        """Take the finished core of an earlier build, or translate and compile it."""
        folder = self.kept_folder()
        target = Path(self.get_ext_fullpath(ext.name))
        settings = [getattr(self.compiler, name, None) for name in ("compiler_type", "compiler_so", "linker_so")]
        settings += [ext.extra_compile_args, ext.extra_link_args, ext.define_macros]
        settings += [os.environ.get(name) for name in SETTINGS]
        kept = folder / digest(repr(settings).encode()) / target.name
        if kept.is_file() and not self.force:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, target)
            target.chmod(0o755)  # as the linker does; wheels hold the mode
            return
        ext.sources = [str(self.translate(ext, folder))]
        super().build_extension(ext)
        place(kept, target.read_bytes())

    def kept_folder(self):
        """Return the folder of these sources and this Cython, and remove the ones that were not used for longest."""
        import Cython

        texts = [*documented_sources().values(), Cython.__version__.encode()]
        key = digest(b"".join([b"%d:%b" % (len(text), text) for text in texts]))
        for base in (Path("build", "core"), Path(self.build_temp, "core")):
            try:
                (base / key).mkdir(parents=True, exist_ok=True)
            except OSError:
                continue
            os.utime(base / key)
            newest = sorted(base.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
            for other in newest[KEPT_BUILDS:]:
                shutil.rmtree(other, ignore_errors=True)
            return base / key
        raise OSError(f"cannot write to {self.build_temp}")

    def translate(self, ext, folder):
        """Return the C file of the core."""
        from Cython.Build import cythonize

        found = folder / "_core.c"
        if self.force or not found.is_file():
            own = folder.resolve() / f"{os.getpid()}"  # another build may run at the same time
            for path, text in documented_sources().items():
                place(own / path, text)
            home = os.getcwd()
            os.chdir(own)  # the C file contains the paths of the sources as they are given
            try:
                [made] = cythonize([Extension(ext.name, [PYX])], build_dir="made", force=True)
                text = Path(made.sources[0]).read_bytes()
            finally:
                os.chdir(home)
            place(found, text)
            shutil.rmtree(own)
        return found


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


def documented_sources():
    """Return the sources of the core by path, with the docstrings that they refer to, and the packages around them."""
    found = {Path(PACKAGE.partition(".")[0], "__init__.py"): b"", Path(FOLDER, "__init__.py"): b""}
    docstrings = {}

    def docstring(reference):
        module, name = reference.groups()
        if module not in docstrings:
            docstrings[module] = docstrings_of(Path(FOLDER, f"{module}.py"))
        return docstrings[module][name].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    for path in sorted(path for kind in SOURCES for path in Path(FOLDER).rglob(kind)):
        found[path] = REFERENCE.sub(docstring, path.read_text(encoding="utf-8")).encode()
    return found


def docstrings_of(path):
    """Return the docstrings in a module by the names of its functions, classes and methods."""
    found = {}
    kinds = (ast.ClassDef, ast.FunctionDef)
    for outer in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = outer.body if isinstance(outer, ast.ClassDef) else []
        for prefix, node in [("", outer), *[(f"{outer.name}.", each) for each in inner]]:
            if isinstance(node, kinds) and ast.get_docstring(node) is not None:
                found[prefix + node.name] = ast.get_docstring(node, clean=False)
    return found


def digest(data):
    """Return a short checksum, for names."""
    return hashlib.sha256(data).hexdigest()[:16]


def place(path, data):
    """Write a file at once, for others that may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.write_bytes(data)
    os.replace(own, path)


def extensions():
    if CHOICE == "no":
        Core.fault = PURE_WHEEL
        return []
    if sys.implementation.name != "cpython":
        give_up(NotImplementedError(f"it is for CPython, and this is {platform.python_implementation()}"))
        return []
    checksum = runpy.run_path(os.path.join(FOLDER, "_sources.py"))["checksum"](FOLDER)
    macros = [("JSONRPC_FAST_SOURCES", f"{checksum}UL")]
    # Code that calls Python methods, raises or calculates with ints is not fast anyway: the core is smaller without
    # Cython's special code for these, and without the lines of the C file in tracebacks.
    plain = ("UNPACK_METHODS", "FAST_PYCALL", "FAST_THREAD_STATE", "USE_PYLONG_INTERNALS", "CLINE_IN_TRACEBACK")
    macros += [(f"CYTHON_{name}", "0") for name in plain]
    return [Extension(f"{PACKAGE}._core", [PYX], define_macros=macros, optional=CHOICE == "unset")]


setup(
    install_requires=[] if sysconfig.get_config_var("Py_GIL_DISABLED") else [ORJSON],
    project_urls={
        "Homepage": HOME,
        "Documentation": f"{HOME}/docs",
        "Changelog": f"{HOME}/changelog",
        "Issues": f"{HOME}/issues",
    },
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildCore, "build_py": BuildPackage, "sdist": SourceArchive},
)
