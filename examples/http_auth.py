"""A server over HTTP that knows its callers by their tokens, and counts the requests of each. It needs uvicorn.

python examples/http_auth.py 8000
jsonrpc-fast call --header 'Authorization: Bearer 7f3a' http://127.0.0.1:8000/ add a=1 b=2
jsonrpc-fast call --header 'Authorization: Bearer 7f3a' http://127.0.0.1:8000/ usage
"""

import sys
from collections import Counter
from contextvars import ContextVar
from typing import Any

import uvicorn

from jsonrpc_fast.handlers import RequestContext
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.http import Endpoint, Refusal

USERS = {b"Bearer 7f3a": "Ada", b"Bearer 11c8": "Alan"}
user: ContextVar[str] = ContextVar("user")


def user_of(scope: Any) -> str:
    """Return the user of a request, before its body is received."""
    found = USERS.get(dict(scope["headers"]).get(b"authorization", b""))
    if found is None:
        raise Refusal(401, "Unknown token.", [(b"www-authenticate", b"Bearer")])
    user.set(found)  # for the hooks
    return found


class Usage:
    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def request_served(
        self, trace: object, id: object, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        self.counts[user.get(), outcome.value] += 1


usage = Usage()


def own_usage(context: RequestContext) -> dict[str, int]:
    return {outcome: count for (name, outcome), count in usage.counts.items() if name == context.context}


app = Endpoint({"add": lambda a, b: a + b, "usage": own_usage}, context=user_of, hooks=usage)

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
