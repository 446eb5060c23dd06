"""mcp-server-git, ported: the same responses to the same calls. It needs the extra `mcp`, and gitpython.

jsonrpc-fast call --mcp git_status repo_path=. -- python examples/port_git.py
jsonrpc-fast call --mcp git_log repo_path=. max_count=1 -- python examples/port_git.py --repository .
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import git
import msgspec
from gitdb.exc import ODBError  # type: ignore[import-untyped]

from jsonrpc_fast.mcp.server import Server, ToolAnnotations, ToolError, UnsafePart, safe_join

Context = Annotated[int, msgspec.Meta(description="How many lines of context to show.")]
Moment = Annotated[str | None, msgspec.Meta(description="An ISO date, or what git reads, such as '2 weeks ago'.")]
Commit = Annotated[str | None, msgspec.Meta(description="A commit; omit it to search without one.")]

F = TypeVar("F", bound=Callable[..., Any])

# Functions that are not async run on the loop, one at a time, as the index of a repository requires.
server = Server("mcp-git", "1.0", show_errors=(ValueError, LookupError, OSError, git.GitError, ODBError))
options = argparse.ArgumentParser()
options.add_argument("-r", "--repository", type=Path, help="the only repository that may be used")
allowed: list[Path] = []


def tool(read_only: bool = False, destructive: bool = False, idempotent: bool = True) -> Callable[[F], F]:
    hints = ToolAnnotations(
        read_only_hint=read_only, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=False
    )
    return server.tool(annotations=hints, structured_output=False)


def opened(repo_path: str) -> git.Repo:
    for folder in allowed:
        if not Path(repo_path).resolve().is_relative_to(folder.resolve()):
            raise ToolError(f"Repository path '{repo_path}' is outside the allowed repository '{folder}'")
    return git.Repo(repo_path)


def no_flag(what: str, value: str | None) -> None:
    """Refuse what git would read as an option."""
    if value and value.startswith("-"):
        raise ToolError(f"Invalid {what}: '{value}' - cannot start with '-'")


@tool(read_only=True)
def git_status(repo_path: str) -> str:
    """Show what has changed, and what is staged."""
    return f"Repository status:\n{opened(repo_path).git.status()}"


@tool(read_only=True)
def git_diff_unstaged(repo_path: str, context_lines: Context = 3) -> str:
    """Show the changes that are not staged."""
    return f"Unstaged changes:\n{opened(repo_path).git.diff(f'--unified={context_lines}')}"


@tool(read_only=True)
def git_diff_staged(repo_path: str, context_lines: Context = 3) -> str:
    """Show the changes that are staged."""
    return f"Staged changes:\n{opened(repo_path).git.diff(f'--unified={context_lines}', '--cached')}"


@tool(read_only=True)
def git_diff(repo_path: str, target: str, context_lines: Context = 3) -> str:
    """Compare the working tree with a branch or a commit."""
    repo = opened(repo_path)
    no_flag("target", target)
    repo.rev_parse(target)
    return f"Diff with {target}:\n{repo.git.diff(f'--unified={context_lines}', target)}"


@tool(idempotent=False)
def git_commit(repo_path: str, message: str) -> str:
    """Commit what is staged."""
    repo = opened(repo_path)
    merge = Path(repo.git_dir) / "MERGE_HEAD"
    head = repo.head.commit if repo.head.is_valid() else None
    if not merge.exists() and not (repo.index.entries if head is None else repo.index.diff(head)):
        raise ToolError(
            "No changes staged for commit. Use git_add to stage changes first; "
            "git_status shows what is currently staged."
        )
    if not merge.exists():
        return f"Changes committed successfully with hash {repo.index.commit(message).hexsha}"
    parents = [repo.head.commit, *map(repo.commit, merge.read_text().split())]
    commit = repo.index.commit(message, parent_commits=parents)
    for name in ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"):
        (merge.parent / name).unlink(missing_ok=True)
    return f"Changes committed successfully with hash {commit.hexsha}{after_merge(repo)}"


def after_merge(repo: git.Repo) -> str:
    """Bring back what `git merge --autostash` has put aside."""
    kept = Path(repo.git_dir) / "MERGE_AUTOSTASH"
    if not kept.exists():
        return ""
    stash = kept.read_text().strip()
    try:
        repo.git.stash("apply", stash)
        note = "\nApplied autostash."
    except git.GitCommandError:
        repo.git.stash("store", "-m", "autostash", "-q", stash)
        note = (
            "\nApplying autostash resulted in conflicts. Your changes are safe in the stash; "
            'run "git stash pop" or "git stash drop" at any time.'
        )
    kept.unlink()
    return note


@tool()
def git_add(repo_path: str, files: Annotated[list[str], msgspec.Meta(min_length=1)]) -> str:
    """Stage files, or ["."] for everything."""
    repo = opened(repo_path)
    root = Path(repo.working_dir).resolve()
    for file in files:
        try:
            safe_join(root, file)
        except UnsafePart:
            raise ToolError(f"Path '{file}' is outside the repository '{root}'") from None

    def staged() -> str:
        return str(repo.git.ls_files("--stage", "--", *files))

    before = staged()
    repo.git.add("--", *files)
    if staged() != before:
        return "Files staged successfully"
    return (
        "No changes were staged: the given paths had nothing new to stage. "
        "git_status shows what is modified or untracked."
    )


@tool(destructive=True)
def git_reset(repo_path: str) -> str:
    """Unstage everything."""
    opened(repo_path).index.reset()
    return "All staged changes reset"


@tool(read_only=True)
def git_log(repo_path: str, max_count: int = 10, start_timestamp: Moment = None, end_timestamp: Moment = None) -> str:
    """List commits, the latest first."""
    repo = opened(repo_path)
    no_flag("start_timestamp", start_timestamp)
    no_flag("end_timestamp", end_timestamp)
    bounds: dict[str, Any] = {"max_count": max_count, "since": start_timestamp, "until": end_timestamp}
    texts = [
        f"Commit: {each.hexsha}\nAuthor: {each.author}\nDate: {each.authored_datetime}\nMessage: {each.message!s}\n"
        for each in repo.iter_commits(**{name: bound for name, bound in bounds.items() if bound not in (None, "")})
    ]
    return "Commit history:\n" + "\n".join(texts)


@tool(idempotent=False)
def git_create_branch(repo_path: str, branch_name: str, base_branch: str | None = None) -> str:
    """Create a branch, by default from the current one."""
    repo = opened(repo_path)
    no_flag("branch name", branch_name)
    no_flag("base branch", base_branch)
    if not base_branch and repo.head.is_detached:
        raise ToolError("HEAD is detached, so there is no current branch to branch from; pass base_branch")
    base = repo.references[base_branch] if base_branch else repo.active_branch
    if branch_name in [head.name for head in repo.heads]:
        raise ToolError(f"Cannot create branch '{branch_name}': refs/heads/{branch_name} already exists")
    repo.create_head(branch_name, base)
    return f"Created branch '{branch_name}' from '{base.name}'"


@tool(idempotent=False)
def git_checkout(repo_path: str, branch_name: str) -> str:
    """Switch to a branch, or to another revision."""
    repo = opened(repo_path)
    no_flag("branch name", branch_name)
    repo.rev_parse(branch_name)
    repo.git.checkout(branch_name)
    if repo.head.is_detached:
        return f"HEAD is now detached at {repo.head.commit.hexsha[:7]}"
    return f"Switched to branch '{repo.active_branch.name}'"


@tool(read_only=True)
def git_show(repo_path: str, revision: str) -> str:
    """Show a commit; or a file or a folder, as <revision>:<path>."""
    repo = opened(repo_path)
    no_flag("revision", revision)
    found = repo.rev_parse(revision)
    if isinstance(found, git.Blob):
        return str(found.data_stream.read().decode("utf-8", "replace"))
    if isinstance(found, git.Tree):
        return "\n".join(f"{item.name}/" if isinstance(item, git.Tree) else item.name for item in found)
    commit = repo.commit(revision)
    author, message = commit.author, str(commit.message).rstrip("\n").split("\n")
    parts = [
        f"commit {commit.hexsha}\nAuthor: {author.name} <{author.email}>\n",
        f"Date:   {commit.authored_datetime:%Y-%m-%d %H:%M:%S %z}\n\n",
        *(f"    {line}\n" for line in message),
    ]
    parent = commit.parents[0] if commit.parents else None
    changes = (
        commit.diff(git.NULL_TREE, create_patch=True) if parent is None else parent.diff(commit, create_patch=True)
    )
    for change in changes:
        old = "/dev/null" if change.new_file or change.a_path is None else f"a/{change.a_path}"
        new = "/dev/null" if change.deleted_file or change.b_path is None else f"b/{change.b_path}"
        parts += [
            f"\n--- {old}\n+++ {new}\n",
            change.diff if isinstance(change.diff, str) else (change.diff or b"").decode("utf-8", "replace"),
        ]
    return "".join(parts)


@tool(read_only=True)
def git_branch(repo_path: str, branch_type: str, contains: Commit = None, not_contains: Commit = None) -> str:
    """List branches.

    Args:
        branch_type: 'local', 'remote' or 'all'.
    """
    repo = opened(repo_path)
    no_flag("contains value", contains)
    no_flag("not_contains value", not_contains)
    flags = {"local": [], "remote": ["-r"], "all": ["-a"]}.get(branch_type)
    if flags is None:
        raise ToolError(f"Invalid branch type: {branch_type}")
    flags += ["--contains", contains] if contains is not None else []
    flags += ["--no-contains", not_contains] if not_contains is not None else []
    return str(repo.git.branch(*flags))


if __name__ == "__main__":
    repository = options.parse_args().repository
    if repository is not None:
        allowed.append(Path(git.Repo(repository, search_parent_directories=True).working_dir))
    raise SystemExit(server.serve_stdio())
