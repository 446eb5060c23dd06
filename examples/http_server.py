"""An HTTP server with typed params. It needs the extra `typed`, and uvicorn.

python examples/http_server.py 8000
jsonrpc-fast call http://127.0.0.1:8000/ order 'item={"name": "tea", "price": 2.5}' count=2
"""

import sys
from typing import Annotated

import msgspec
import uvicorn

from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint


class Item(msgspec.Struct):
    name: str
    price: Annotated[float, msgspec.Meta(ge=0)]


handlers = Handlers()


@handlers.register("order", typed=True)
def order(item: Item, count: int = 1) -> dict[str, object]:
    return {"text": f"{count} x {item.name}", "total": count * item.price}


app = Endpoint(handlers, raw=True)  # raw: the params are decoded once, to these types

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
