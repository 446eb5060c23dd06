"""The public names of the codec, as `jsonrpc_fast` has them."""

from __future__ import annotations

from ..codes import ErrorBand as ErrorBand
from ..codes import ErrorCode as ErrorCode
from ..codes import Hint as Hint
from ..codes import LspErrorCode as LspErrorCode
from ..codes import McpErrorCode as McpErrorCode
from ..codes import ParseErrorCode as ParseErrorCode
from ..codes import error_band as error_band
from ..errors import CallCancelled as CallCancelled
from ..errors import CallTimeout as CallTimeout
from ..errors import ConnectionLost as ConnectionLost
from ..errors import EncodeError as EncodeError
from ..errors import HandshakeError as HandshakeError
from ..errors import RpcError as RpcError
from ..errors import StateError as StateError
from ..framing.frames import Framing as Framing
from ..profile import ACP as ACP
from ..profile import JSONRPC as JSONRPC
from ..profile import JSONRPC_1 as JSONRPC_1
from ..profile import LENIENT as LENIENT
from ..profile import LSP as LSP
from ..profile import MCP_2024_11_05 as MCP_2024_11_05
from ..profile import MCP_2025_03_26 as MCP_2025_03_26
from ..profile import MCP_2025_06_18 as MCP_2025_06_18
from ..profile import MCP_2025_11_25 as MCP_2025_11_25
from ..profile import MCP_2026_07_28 as MCP_2026_07_28
from ..profile import PRESETS as PRESETS
from ..profile import Limits as Limits
from ..profile import Profile as Profile
from ..types import UNSET as UNSET
from ..types import Classification as Classification
from ..types import MessageId as MessageId
from ._backend import *  # noqa: F403
