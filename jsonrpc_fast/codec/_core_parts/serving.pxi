"""`_serving.py` in C, which has the rules: a plain request is decoded, called and written without a frame of Python."""

from cpython.contextvars cimport PyContext_Copy, PyContext_Enter, PyContext_Exit

cdef extern from "Python.h":
    void* vectorcall_of "PyVectorcall_Function"(PyObject* function)
    object call_with_names "PyObject_VectorcallDict"(PyObject* function, PyObject** arguments, size_t count, PyObject* names)


cdef bint is_awaitable(result) except -1:
    cdef PyObject* kind = <PyObject*>type_of(<PyObject*>result)
    if kind == <PyObject*>dict or kind == <PyObject*>list or kind == <PyObject*>str or kind == <PyObject*>int:
        return False
    if kind == <PyObject*>bool or kind == <PyObject*>float or result is None:
        return False
    return kind == <PyObject*>CoroutineType or hasattr(<object>kind, "__await__")


cdef object call_handler(handler, function, params):
    """Call a handler. function: its `plain`."""
    if function is None or type(params) is Raw:
        return handler.invoke(params, None)
    if type(params) is dict:
        # A function that is not called by `vectorcall` may keep the dict that it gets.
        if vectorcall_of(<PyObject*>function) != NULL:
            return call_with_names(<PyObject*>function, NULL, 0, <PyObject*>params)
        return function(**<dict>params)
    if type(params) is list:
        return function(*<list>params)
    return function()


cdef object call_in(context, handler, function, params):
    PyContext_Enter(context)
    try:
        return call_handler(handler, function, params)
    finally:
        PyContext_Exit(context)


def _serve_plain(bytes text not None, find, bint raw):
    """`_pure._serve_plain`"""
    message = decode_bytes(text, DEFAULT_RULES, raw)
    if type(message) is not Request:
        return message, None, None, None
    handler = find((<Request>message).method)
    if handler is None:
        return message, None, None, None
    function = handler.plain
    params = payload_in((<Request>message).stored)
    if function is None and (handler.wants_context or (type(params) is Raw and not handler.takes_raw)):
        return message, None, None, None
    result = failure = None
    try:
        result = call_handler(handler, function, params)
    except HANDLER_FAILURES as error:
        failure = error
    if failure is None and not is_awaitable(result):
        try:
            return result_line((<Request>message).id, result)
        except HANDLER_FAILURES:
            pass
    return message, handler, result, failure


@cython.final
@cython.auto_pickle(False)
cdef class PlainServer:
    """`_serving.PlainServer`"""

    cdef public object find
    cdef public object last_read
    cdef public Py_ssize_t room
    cdef dict serving
    cdef object encode  # None: `encode_result`
    cdef object context
    cdef object receive_other
    cdef object conclude

    def __init__(self, find, dict serving not None, encode, context, receive, conclude):
        self.find = find
        self.last_read = UNSET
        self.room = 0
        self.serving = serving
        self.encode = None if encode is encode_result else encode
        self.context = context
        self.receive_other = receive
        self.conclude = conclude

    def receive(self, message, destination=None):
        """`_serving.PlainServer.receive`"""
        handler = function = None
        if self.room > 0 and destination is None and type(message) is Request:
            if PyDict_Size(self.serving) == 0 or not self.is_in_flight((<Request>message).id):
                handler = self.find((<Request>message).method)
                if handler is not None:
                    function = handler.plain
        if handler is None or (function is None and handler.wants_context):
            return self.receive_other(message, destination)
        self.last_read = (<Request>message).id
        context = PyContext_Copy(self.context)
        result = failure = None
        try:
            result = call_in(context, handler, function, payload_in((<Request>message).stored))
        except BaseException as error:
            failure = error
        if failure is None and not is_awaitable(result):
            try:
                text = result_line((<Request>message).id, result) if self.encode is None else self.encode(message.id, result)
            except HANDLER_FAILURES:
                pass
            else:
                self.room -= len(text)
                return text
        response = self.conclude(message, handler, context, result, failure)
        if isinstance(failure, KeyboardInterrupt):
            raise failure
        return response

    cdef bint is_in_flight(self, id) except -1:
        return not (PyLong_CheckExact(id) or PyUnicode_CheckExact(id)) or id in self.serving
