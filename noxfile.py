"""The development commands that need more than one step: `nox -l` lists them; what follows `--` is passed on.

Rules:
- A session runs in the active environment, which has the group `dev` and the extra `test`. Only the sessions that test
  an installation, or another Python, make an environment of their own, with uv where there is one.
- A command of one step is a row of PROGRAMS in `tools/programs.py`: `nox -s run -- fuzz --seconds 600`. NIGHTLY in
  `tools/nightly.py` has what takes long, or runs on more loops, Pythons and examples than a change needs.
- `.ci/run` runs these sessions, so each command is written once. The logic that can be tested is in `tools/`.
- The core is built once: `build` makes the wheel that the other sessions install.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))
from tools.packages import ROOT, built, commit_time, extras, unpack
from tools.programs import FREE_THREADED, PROGRAMS, PYTEST, PYTHONS

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = False

OWN = "uv|virtualenv"
"""The backend of sessions that have an environment of their own."""
DIST = ROOT / "dist"
CORE = {"JSONRPC_FAST_EXTENSION": "yes"}
TOOLS = ("-r", str(ROOT / "tools" / "requirements.txt"))
"""The tools that build and check packages, each at one version and with its hashes."""
MAX_WHEEL_BYTES = 1_170_000  # the aim is 1,000,000
FEW_TOOLS = (
    "hypothesis>=6.100,<6.130",  # later ones need Rust, without a wheel
    *("pytest>=8.3", "pytest-benchmark>=5.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6"),
)
"""What the tests of the codec need. Most of the test extra has no wheels for a free-threaded Python."""
LOWEST_TOOLS = (*FEW_TOOLS, "opentelemetry-sdk>=1.30", "pydantic>=2.8", "starlette>=0.41.3", "trustme>=1.1")
BACKEND = "import jsonrpc_fast; print(jsonrpc_fast.BACKEND)"
PLACE = "import jsonrpc_fast; print(jsonrpc_fast.__file__)"
UNTYPED = (
    *("jsonrpc_fast.adapters.aiorpcx.", "jsonrpc_fast.adapters.pylsp."),
    "jsonrpc_fast.adapters.web3.LegacyWebSocketProvider",
)
"""Classes whose base is unknown."""


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


def build_packages(session: nox.Session, sources: Path, target: Path, **env: str) -> None:
    """Build the source distribution, the wheel of this Python and the pure one from a folder of sources."""
    shutil.rmtree(target, ignore_errors=True)
    env = {"SOURCE_DATE_EPOCH": commit_time(), **env}
    os.umask(0o022)  # wheels contain the modes of some files
    build = ("python", "-m", "build", "-n", "-o", str(target))
    with session.chdir(sources):
        session.run(*build, "-s", env=env, silent=True)
        for choice in ("yes", "no"):
            for earlier in Path("build").glob("lib*"):
                shutil.rmtree(earlier)  # it may contain modules that were removed
            session.run(*build, "-w", env={**env, "JSONRPC_FAST_EXTENSION": choice}, silent=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style of the sources, the workflows, and what tests with the mark `lint` read in the sources."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    codec = Path("jsonrpc_fast", "codec")
    session.run("cython-lint", *[str(path) for kind in ("pyx", "pxd", "pxi") for path in codec.rglob(f"*.{kind}")])
    session.run("pytest", "-q", "--ci", "-m", "lint", "tests/package")
    files = sorted(str(path) for path in Path(".github", "workflows").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("zizmor", "--offline", "--quiet", "--min-severity", "medium", ".github")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the sources and of the examples with mypy."""
    session.run("mypy", *session.posargs)
    if not session.posargs:
        session.run("mypy", *map(str, sorted(Path("examples").glob("*.py"))))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on both backends, in parallel; `-- --ci`, `-- --slow --all-loops` are for more of them."""
    session.run(*PYTEST, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site into build/docs; warnings, and internal links that lead nowhere, are errors."""
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-E", "-j", "auto", "docs", "build/docs", *session.posargs)


@nox.session
def run(session: nox.Session) -> None:
    """Run a program of PROGRAMS: `-- fuzz --seconds 600 --seed 7`."""
    if not session.posargs or session.posargs[0] not in PROGRAMS:
        session.error(f"name a program: {', '.join(PROGRAMS)}")
    name, *arguments = session.posargs
    session.run(*PROGRAMS[name], *arguments, external=True)


@nox.session
def nightly(session: nox.Session) -> None:
    """Run everything that takes long; `-- fuzz guided` chooses some, `--scale 0.1` shortens it, `--help` says more."""
    session.run("python", "-m", "tools.nightly", *session.posargs)


@nox.session(venv_backend=OWN)
def guided(session: nox.Session) -> None:
    """Run each fuzz target for ten minutes on inputs that coverage guides; `-- decode --seconds 60` runs one."""
    session.install("-e", ".[test]", "atheris>=2.3", env=CORE)
    code = "from tests.fuzz.__main__ import load_targets; print(*load_targets())"
    names = str(session.run("python", "-c", code, silent=True)).split()
    chosen, _, seconds = " ".join(session.posargs).partition("--seconds ")
    for name in chosen.split() or names:
        session.run("python", "-m", "tests.fuzz.guided", name, f"-max_total_time={seconds or 600}")


@nox.session(venv_backend=OWN)
def docs_alone(session: nox.Session) -> None:
    """Build the site where no adapter's library is installed."""
    package = ".[cli,http,mcp-http,mcp-server-auth,mcp-templates,typed,websocket]"
    session.install("-e", package, *nox.project.dependency_groups(nox.project.load_toml(), "docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-q", "docs", str(temporary_folder(session) / "site"))


@nox.session(venv_backend=OWN)
def build(session: nox.Session) -> None:
    """Build the source distribution, the wheel of this Python and the pure wheel, in `dist`."""
    session.install(*TOOLS)
    build_packages(session, ROOT, DIST)


@nox.session(venv_backend=OWN)
def reproducible(session: nox.Session) -> None:
    """Build the contents of `dist` again, in another folder and with another hash seed: the bytes must be the same."""
    session.install(*TOOLS)
    folder = temporary_folder(session)
    other = folder / "again"
    sources = unpack(built("sources"), folder / "a folder with another path")
    (sources / "setup.cfg").unlink()  # generated, and would be in the list of sources
    build_packages(session, sources, other, PYTHONHASHSEED="7")
    names = sorted(path.name for path in DIST.iterdir())
    if len(names) != 3 or filecmp.cmpfiles(DIST, other, names, shallow=False)[0] != names:
        session.error(f"the builds in {DIST} and {other} are not the same")


@nox.session(venv_backend=OWN)
def check_packages(session: nox.Session) -> None:
    """Check what `build` has built: metadata, contents, tags, sizes."""
    session.install(*TOOLS)
    archive, wheels = built("sources"), [built("wheel"), built("pure-wheel")]
    session.run("twine", "check", "--strict", str(archive), *map(str, wheels))
    session.run("check-wheel-contents", *map(str, wheels))
    if (ROOT / ".git").exists():
        session.run("check-manifest", "--no-build-isolation", env={"JSONRPC_FAST_EXTENSION": "no"})
    session.run("pyroma", "--min=8", str(archive))  # 10 needs the address of an author
    if sys.platform == "linux":
        session.run("auditwheel", "show", str(wheels[0]))
    for wheel in wheels:
        session.log(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
        if wheel.stat().st_size > MAX_WHEEL_BYTES:
            session.error(f"{wheel.name} has more than {MAX_WHEEL_BYTES:,} bytes")


@nox.session(venv_backend="virtualenv")  # uv does not show what setup.py prints
def no_compiler(session: nox.Session) -> None:
    """Install the package without a compiler: a warning and the pure backend, an error if the core is required."""
    without, install = {"CC": "/nonexistent/cc"}, ("python", "-m", "pip", "install", "-v", ".")
    expect(session, "the compiled core was NOT built", *install, env=without)
    session.run(*install, env={**without, **CORE}, silent=True, success_codes=range(1, 256))
    session.chdir(temporary_folder(session))
    expect(session, "python", "python", "-c", BACKEND)
    expect(session, "the core was not built", "jsonrpc-fast", "info")


@nox.session(venv_backend=OWN)
def installed(session: nox.Session) -> None:
    """Install the wheel that `build` has built, and check its types with mypy, and with pyright where it runs."""
    groups = nox.project.dependency_groups(nox.project.load_toml(), "adapters")
    session.install(f"jsonrpc_fast[{extras()}] @ {built('wheel').as_uri()}", *groups, "mypy", "pyright")
    session.chdir(temporary_folder(session))
    expect(session, "cython", "python", "-c", BACKEND)
    shutil.copy(ROOT / "tests" / "package" / "typed" / "public.py", ".")  # where it is, mypy follows the sources
    session.run("mypy", "--config-file=", "--strict", "public.py")
    if shutil.which("node") is None:
        session.warn("pyright does not run without Node: only mypy has checked the types")
        return
    command = ("pyright", "--ignoreexternal", "--outputjson", "--verifytypes", "jsonrpc_fast")
    report = json.loads(str(session.run(*command, silent=True, success_codes=(0, 1))))
    symbols = [symbol for symbol in report["typeCompleteness"]["symbols"] if symbol["isExported"]]
    unknown = [symbol["name"] for symbol in symbols if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    unknown = [name for name in unknown if not name.startswith(UNTYPED)]
    if unknown or not symbols:
        session.error(f"of {len(symbols)} symbols, these have no complete type: {', '.join(unknown)}")


@nox.session(venv_backend=OWN)
def pages(session: nox.Session) -> None:
    """Follow the pages as a reader does, each in an environment that has what the page installs; `-- docs/http.md`."""
    session.install("virtualenv")  # it makes the environment of each page
    session.run("python", "-m", "tests.isolated.pages", str(built("wheel")), *session.posargs)


@nox.session(venv_backend=OWN, python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Run the tests on each installed Python, on the sources; `-- wheel`, `-- pure-wheel`: on one of `dist`."""
    kind = session.posargs[0] if session.posargs and session.posargs[0].endswith("wheel") else ""
    options = session.posargs[1:] if kind else session.posargs
    if kind:
        session.install(f"jsonrpc_fast[test] @ {built(kind).as_uri()}")
        sources = unpack(built("sources"), temporary_folder(session) / "sources")
        shutil.rmtree(sources / "jsonrpc_fast")  # it would hide the installed package
        session.chdir(sources)
        expect(session, "python" if kind == "pure-wheel" else "cython", "python", "-c", BACKEND)
        expect(session, "site-packages", "python", "-c", PLACE)
    else:
        session.install("-e", ".[test]", env=CORE)
    session.run(*PYTEST, *(["--pure-only"] if kind == "pure-wheel" else []), *options)


@nox.session(venv_backend=OWN, python=FREE_THREADED)
def free_threaded(session: nox.Session) -> None:
    """Run the tests of the codec, the framings and the handlers, and the threads, on a Python without the GIL."""
    session.install("-e", ".", *FEW_TOOLS, env=CORE)
    session.run(*PYTEST, "--ci", "tests/codec", "tests/framing", "tests/handlers")
    session.run("python", "-m", "tests.isolated.threads", *session.posargs)


@nox.session(venv_backend=OWN, python="pypy3.11")
def pypy(session: nox.Session) -> None:
    """Install the package on PyPy, call a server, and run the tests of the codec, framings and handlers there."""
    session.install(".", *FEW_TOOLS)
    session.run("python", "-m", "compileall", "-q", "jsonrpc_fast", "examples")  # as pip does: PyPy may abort
    with session.chdir(temporary_folder(session)):
        expect(session, "it is for CPython, and this is PyPy", "jsonrpc-fast", "info")
        server = str(ROOT / "examples" / "server.py")
        expect(session, "3\n", "jsonrpc-fast", "call", "add", "a=1", "b=2", "--", "python", server)
    session.run(*PYTEST, "--ci", "--pure-only", "tests/codec", "tests/framing", "tests/handlers", *session.posargs)


@nox.session(venv_backend="uv")  # pip has no lowest versions
def lowest(session: nox.Session) -> None:
    """Run all tests with the lowest version that the bounds of the package, its extras and its adapters allow."""
    adapted = nox.project.dependency_groups(nox.project.load_toml(), "adapters")
    session.install("--resolution", "lowest-direct", "-e", f".[{extras()}]", *adapted, *LOWEST_TOOLS, env=CORE)
    session.run(*PYTEST, *(session.posargs or ("tests", "--ci")))


@nox.session(venv_backend=OWN)
def sdist(session: nox.Session) -> None:
    """Run the tests in the unpacked source distribution, and those of the codec on a core in plain C, too."""
    sources = unpack(built("sources"), temporary_folder(session) / "unpacked")
    session.chdir(sources)
    session.install("-e", ".[test]", env=CORE)
    expect(session, str(sources), "python", "-c", PLACE)
    session.run(*PYTEST, "tests", *session.posargs)
    if sys.platform != "win32":
        build = ("python", "setup.py", "-q", "build_ext", "--inplace")
        session.run(*build, env={"CFLAGS": "-DJSONRPC_FAST_PLAIN_C", **CORE})
        session.run(*PYTEST, "--ci", "tests/codec")
        session.run("python", "-m", "tests.fuzz.differential", "--inputs", "200000")
