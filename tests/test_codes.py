"""The numbers of the codes, and their texts."""

from __future__ import annotations

from jsonrpc_fast.codes import (
    RPC_MESSAGES,
    ErrorCode,
    LspErrorCode,
    McpErrorCode,
    ParseErrorCode,
    SessionErrorCode,
)


def test_numbers() -> None:
    assert {code.name: int(code) for code in ErrorCode} == {
        "PARSE_ERROR": -32700,
        "INVALID_REQUEST": -32600,
        "METHOD_NOT_FOUND": -32601,
        "INVALID_PARAMS": -32602,
        "INTERNAL_ERROR": -32603,
    }
    assert {code.name: int(code) for code in McpErrorCode} == {
        "RESOURCE_NOT_FOUND": -32002,
        "HEADER_MISMATCH": -32020,
        "MISSING_REQUIRED_CLIENT_CAPABILITY": -32021,
        "UNSUPPORTED_PROTOCOL_VERSION": -32022,
        "URL_ELICITATION_REQUIRED": -32042,
    }
    assert {code.name: int(code) for code in LspErrorCode} == {
        "SERVER_NOT_INITIALIZED": -32002,
        "UNKNOWN_ERROR_CODE": -32001,
        "REQUEST_CANCELLED": -32800,
        "CONTENT_MODIFIED": -32801,
        "SERVER_CANCELLED": -32802,
        "REQUEST_FAILED": -32803,
    }
    assert {code.name: int(code) for code in SessionErrorCode} == {"DEADLINE_EXCEEDED": -32008, "SERVER_BUSY": -32009}


def test_messages_of_the_specification() -> None:
    assert {int(code): message for code, message in RPC_MESSAGES.items()} == {
        -32700: "Parse error",
        -32600: "Invalid Request",
        -32601: "Method not found",
        -32602: "Invalid params",
        -32603: "Internal error",
    }


TEXTS = {
    "MALFORMED_JSON": "the text is not JSON",
    "INVALID_UTF8": "the text is not UTF-8",
    "TRUNCATED": "the stream ended inside a message",
    "INVALID_FRAMING": "the framing is invalid",
    "MESSAGE_TOO_LARGE": "the message is larger than the limit",
    "TOO_DEEP": "the message nests deeper than the limit",
    "BATCH_TOO_LARGE": "the batch has more items than the limit",
    "METHOD_TOO_LONG": "method is longer than the limit",
    "ID_TOO_LONG": "id is longer than the limit",
    "INTEGER_TOO_LARGE": "a number is larger than the profile allows",
    "NOT_AN_OBJECT": "the message is not an object",
    "EMPTY_BATCH": "the batch is empty",
    "BATCH_NOT_ALLOWED": "the protocol does not allow batches",
    "DUPLICATE_MEMBER": "a member occurs more than once",
    "MISSING_JSONRPC": "jsonrpc is missing",
    "INVALID_JSONRPC_VERSION": 'jsonrpc is not the string "2.0"',
    "INVALID_ID_TYPE": "the protocol does not allow this type of id here",
    "MISSING_ID": "the response has no id",
    "AMBIGUOUS_MESSAGE": "method is present together with result or error",
    "MISSING_METHOD": "the message has no method, result or error",
    "INVALID_METHOD_TYPE": "method is not a string",
    "EMPTY_METHOD": "method is empty",
    "INVALID_PARAMS_TYPE": "the protocol does not allow this type of params",
    "RESULT_AND_ERROR": "both result and error are present",
    "INVALID_RESULT_TYPE": "result is not an object",
    "INVALID_ERROR_TYPE": "error is not an object",
    "INVALID_ERROR_CODE": "the code of the error is not a 64-bit integer",
    "INVALID_ERROR_MESSAGE": "the message of the error is not a string",
    "UNEXPECTED_MEMBER": "there is a member that the protocol does not define",
}


def test_texts_of_faults() -> None:
    assert {code.name: code.value for code in ParseErrorCode} == TEXTS
