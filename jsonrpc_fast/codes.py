"""Error codes by band, and the codes of the faults that decoding finds.

A band is a range of codes with one allocator. A number may have different meanings in two protocols, as -32002 has, so
each protocol has its own enum.
"""

from __future__ import annotations

import enum
from typing import Final, TypeGuard

from .types import plain_int


class ErrorCode(enum.IntEnum):
    """JSON-RPC 2.0's own codes (specification, section 5.1)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603


class McpErrorCode(enum.IntEnum):
    """The Model Context Protocol's codes, all in the implementation-defined band."""

    RESOURCE_NOT_FOUND = -32002
    HEADER_MISMATCH = -32020  # 2026-07-28 on
    MISSING_REQUIRED_CLIENT_CAPABILITY = -32021  # 2026-07-28 on
    UNSUPPORTED_PROTOCOL_VERSION = -32022  # 2026-07-28 on
    URL_ELICITATION_REQUIRED = -32042  # 2025-11-25


class LspErrorCode(enum.IntEnum):
    """The Language Server Protocol's codes (3.17, "ErrorCodes")."""

    SERVER_NOT_INITIALIZED = -32002
    UNKNOWN_ERROR_CODE = -32001
    REQUEST_CANCELLED = -32800
    CONTENT_MODIFIED = -32801
    SERVER_CANCELLED = -32802
    REQUEST_FAILED = -32803


class SessionErrorCode(enum.IntEnum):
    """The codes that sessions and `Handlers` of this package send, in the implementation-defined band."""

    DEADLINE_EXCEEDED = -32008  # the server's deadline passed: the handler was cancelled, or not called
    SERVER_BUSY = -32009  # not handled, may be sent again: too many messages wait, or the session is closing


def is_error_code(value: object) -> TypeGuard[int]:
    """Return whether `value` is a valid error code: a 64-bit integer, because wider integers decode to floats."""
    # True is an int in Python; 2**64 - 1 is the largest integer that orjson writes and reads.
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def plain_error_code(value: object) -> int:
    """Return an error code as a plain int, even if it is of a subclass.

    Raises TypeError if it is not an int, and ValueError if it is beyond 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"code must be an int, not {type(value).__name__}")
    code = plain_int(value)
    if not is_error_code(code):
        raise ValueError("code must fit in 64 bits")
    return code


class ParseErrorCode(enum.Enum):
    """What is wrong with a message. `ParseError.message` begins with the value; the page on errors says what to do.

    A fault of the text has an offset; a fault of a message has the id, if it is certain.
    """

    # RFC 8259; or a number beyond a double, or a lone surrogate: then the id is known, if that is the only fault.
    MALFORMED_JSON = "the text is not JSON"
    INVALID_UTF8 = "the text is not UTF-8"  # RFC 3629. It comes before any other fault.
    TRUNCATED = "the stream ended inside a message"
    INVALID_FRAMING = "the framing is invalid"  # such as LSP 3.17, "Header Part"
    # Only the first 1024 bytes are read. The id is known if they hold the whole id, a member that distinguishes a
    # request from a response, and no duplicate member.
    MESSAGE_TOO_LARGE = "the message is larger than the limit"
    TOO_DEEP = "the message nests deeper than the limit"
    BATCH_TOO_LARGE = "the batch has more items than the limit"
    METHOD_TOO_LONG = "method is longer than the limit"
    ID_TOO_LONG = "id is longer than the limit"
    # An integer beyond 64 bits with `big_ints="reject"`, one with more digits than CPython converts, or an exponent of
    # more than four digits with `floats="decimal"`.
    INTEGER_TOO_LARGE = "a number is larger than the profile allows"
    NOT_AN_OBJECT = "the message is not an object"  # section 4: a scalar, or an array inside a batch
    EMPTY_BATCH = "the batch is empty"  # section 6
    BATCH_NOT_ALLOWED = "the protocol does not allow batches"
    DUPLICATE_MEMBER = "a member occurs more than once"  # two parsers may read two different messages
    MISSING_JSONRPC = "jsonrpc is missing"  # section 4, as are the next two
    INVALID_JSONRPC_VERSION = 'jsonrpc is not the string "2.0"'
    INVALID_ID_TYPE = "the protocol does not allow this type of id here"  # or a number that cannot be echoed exactly
    MISSING_ID = "the response has no id"  # section 5
    AMBIGUOUS_MESSAGE = "method is present together with result or error"
    MISSING_METHOD = "the message has no method, result or error"  # section 4, as is the next
    INVALID_METHOD_TYPE = "method is not a string"
    EMPTY_METHOD = "method is empty"
    INVALID_PARAMS_TYPE = "the protocol does not allow this type of params"  # section 4.2
    RESULT_AND_ERROR = "both result and error are present"  # section 5
    INVALID_RESULT_TYPE = "result is not an object"
    INVALID_ERROR_TYPE = "error is not an object"  # section 5.1, as are the next two
    INVALID_ERROR_CODE = "the code of the error is not a 64-bit integer"
    INVALID_ERROR_MESSAGE = "the message of the error is not a string"
    UNEXPECTED_MEMBER = "there is a member that the protocol does not define"  # without `extra_members`

    @property
    def rpc_code(self) -> ErrorCode:
        """The code of the error response: -32700 for a fault of the text, else -32600."""
        # section 5.1: -32700 if the server cannot parse the text, -32600 for JSON that is not a valid request
        texts = ("MALFORMED_JSON", "INVALID_UTF8", "TRUNCATED", "INVALID_FRAMING")
        return ErrorCode.PARSE_ERROR if self.name in texts else ErrorCode.INVALID_REQUEST


class Hint(enum.Enum):
    """What the bytes at a fault look like, or what is wrong with a header. `ParseError.message` ends with the value."""

    NEWLINE_FRAMING = "it looks like newline framing: one message per line, without headers"
    CONTENT_LENGTH_FRAMING = "it looks like a header of Content-Length framing"
    SSE_FRAMING = "it looks like a server-sent event"
    HTTP = "it looks like the response of an HTTP server"
    TLS = "it looks like TLS"
    PRINTED_TEXT = "it looks like a log line or printed text; a program on stdio must print to stderr"

    SEVERAL_MESSAGES = 'it looks like several messages: Decoder("concatenated") reads them one by one'

    MISSING_LENGTH = "Content-Length is missing"
    DUPLICATE_LENGTH = "there is more than one Content-Length"
    INVALID_LENGTH = "Content-Length is not a whole number"
    LENGTH_TOO_LARGE = "Content-Length is larger than any message"
    LENGTH_TOO_SMALL = "the previous body may be longer than its Content-Length, which counts bytes"
    UNKNOWN_CHARSET = "the charset is not UTF-8"
    HEADER_TOO_LARGE = "the headers are larger than the limit"


RPC_MESSAGES: Final = {
    ErrorCode.PARSE_ERROR: "Parse error",
    ErrorCode.INVALID_REQUEST: "Invalid Request",
    ErrorCode.METHOD_NOT_FOUND: "Method not found",
    ErrorCode.INVALID_PARAMS: "Invalid params",
    ErrorCode.INTERNAL_ERROR: "Internal error",
}
"""The messages that the specification defines for its codes (section 5.1)."""

DEADLINE_MESSAGE: Final = "Deadline exceeded"
"""The message of `SessionErrorCode.DEADLINE_EXCEEDED`."""
