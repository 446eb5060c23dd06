"""A server over HTTP that logs each request: method, outcome, error code and time. It needs uvicorn.

python examples/access_log.py 8000
jsonrpc-fast call http://127.0.0.1:8000/ add a=1 b=2
"""

import logging
import sys

import uvicorn

from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.http import Endpoint


class AccessLog:
    def request_served(
        self, trace: object, id: object, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        # The client chooses the name of the method. Its repr has no line breaks.
        logging.info("%.100r %s %s %.1f ms", method, outcome.value, code or "-", seconds * 1000)


app = Endpoint({"add": lambda a, b: a + b}, hooks=AccessLog())

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_config=None, log_level="warning")
