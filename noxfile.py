"""The development commands: `nox -l` lists them, `nox -s NAME` runs one, and what stands after `--` is passed on.

Rules:
- A session runs in the active environment, which has the extra `dev`. Only the sessions that test an installation, or
  another Python, make an environment of their own.
- `.ci/run` runs these sessions, so each command is written once.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).parent
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
PYTEST = ["pytest", "-n", "auto", "--dist", "loadfile"]
NO_COMPILER = {"CC": "/nonexistent/cc"}
FAILURE = range(1, 256)
BACKEND = "import jsonrpc_fast; print(jsonrpc_fast.BACKEND)"


def expect(session: nox.Session, text: str, *command: str, env: dict[str, str] | None = None) -> None:
    """Run a command, and fail unless its output contains a text."""
    output = str(session.run(*command, env=env, silent=True))
    if text not in output:
        session.error(f"the output does not contain {text!r}:\n{output}")


def leave_sources(session: nox.Session) -> None:
    """Change to a directory where the sources do not hide the installed package."""
    session.chdir(session.create_tmp())


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
    """Check the style of the Python and Cython sources."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    codec = Path("jsonrpc_fast", "codec")
    session.run("cython-lint", *[str(path) for kind in ("pyx", "pxd", "pxi") for path in codec.rglob(f"*.{kind}")])


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the sources with mypy."""
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on both backends, in parallel; `-- --slow` includes the slow ones."""
    session.run(*PYTEST, *session.posargs)


@nox.session
def pure(session: nox.Session) -> None:
    """Run the tests with the pure backend chosen, as on a machine without a compiler."""
    session.run(*PYTEST, "tests", *session.posargs, env={"JSONRPC_FAST_PURE": "1"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Compare the backends on mutated messages for a minute; `-- --seconds 600 --seed 7` changes that."""
    session.run("python", "-m", "tests.fuzz.differential", "--inputs", "100000000", "--seconds", "60", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Report the branch coverage of the Python sources, child processes included."""
    session.run("coverage", "erase")
    session.run(*PYTEST, "tests", "--cov", "--cov-report=term:skip-covered", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the speed table: every ratio beside its bar."""
    session.run("python", "-m", "benchmarks.report", *session.posargs)


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
    expect(session, "core_fault  the core was not built", "jsonrpc-fast", "info")


@nox.session(venv_backend="virtualenv")
def installed(session: nox.Session) -> None:
    """Check the types of the installed package with mypy, and with pyright where it runs."""
    session.install(".[cli,mcp,otel]", "mcp>=2", "mypy", "pyright", env={"JSONRPC_FAST_EXTENSION": "yes"})
    leave_sources(session)
    expect(session, "cython", "python", "-c", BACKEND)
    session.run("mypy", "--config-file=", "--strict", str(ROOT / "tests" / "package" / "typed" / "public.py"))
    if has_pyright(session):
        command = ("pyright", "--ignoreexternal", "--verifytypes", "jsonrpc_fast")
        expect(session, "completeness score: 100%", *command)
    else:
        session.warn("pyright does not run here: only mypy has checked the types")


@nox.session(venv_backend="virtualenv", python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Run the tests on each installed Python."""
    session.install("-e", ".[test]", env={"JSONRPC_FAST_EXTENSION": "yes"})
    session.run(*PYTEST, *session.posargs)
