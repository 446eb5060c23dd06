"""Names of tools and prompts in the list of several servers: the server's name, a separator, the name at that server.

No name is ambiguous: no server's name with the separator is a prefix of another server's.
"""

from __future__ import annotations


class Prefixes:
    """The names of the servers in one list.

    Args:
        separator: The text between the name of a server and the name at that server.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._prefixes: dict[str, str] = {}

    def add(self, server: str, prefix: str | None = None) -> None:
        """Add a server, whose names begin with a prefix: its name and the separator, if none is given.

        Raises:
            ValueError: The names of two servers make the names of their tools ambiguous.
        """
        prefix = server + self._separator if prefix is None else prefix
        # If one prefix began with another, a name would have two meanings: `a_b_c` could be of `a` or of `a_b`.
        for other, known in self._prefixes.items():
            if prefix.startswith(known) or known.startswith(prefix):
                raise ValueError(
                    f"the servers {other!r} and {server!r} would have names in common: change one, or the separator"
                )
        self._prefixes[server] = prefix

    def join(self, server: str, name: str) -> str:
        """Return the name in the common list."""
        return self._prefixes[server] + name

    def split(self, name: str) -> tuple[str, str] | None:
        """Return the server of a name in the common list, and the name at that server; None if no server has it."""
        # At most one fits, because `add` refuses a prefix that begins with another.
        for server, prefix in self._prefixes.items():
            if name.startswith(prefix):
                return server, name[len(prefix) :]
        return None
