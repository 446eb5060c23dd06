"""`_serving.py` in C: a plain request is decoded, called and written without a Python frame. `_serving.py` has the
rules."""

from cpython.contextvars cimport PyContext_Copy, PyContext_Enter, PyContext_Exit, PyContextVar_Set

cdef extern from "Python.h":
    void* vectorcall_of "PyVectorcall_Function"(PyObject* function)
    bint send_to "PyIter_Send"(object coroutine, object value, PyObject** result) except -1  # whether it continues
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


def serve_plain(data, find, bint raw, profile=JSONRPC, bint delimited=True):
    """`_pure.serve_plain`"""
    message = data
    if PyBytes_CheckExact(data):
        message = decode_bytes(<bytes>data, rules_of(profile), raw)
    elif isinstance(data, (bytes, str, bytearray, memoryview)):
        message = decode(data, profile, raw=raw)
    if type(message) is not Request:
        return message, None, None, None
    handler = None
    try:
        handler = find((<Request>message).method)
    except HANDLER_FAILURES:
        pass
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
            return result_line_with((<Request>message).id, result, FORM_2_0, None, ZERO, delimited)
        except HANDLER_FAILURES:
            pass
    return message, handler, result, failure


@cython.binding(False)
@cython.auto_pickle(False)
cdef class PlainServer:
    """`_serving.PlainServer`"""

    cdef public object find
    cdef public object context
    cdef public dict requests
    cdef public dict runs
    cdef public Py_ssize_t credit
    cdef public object last_read
    cdef public object make_task
    cdef public object loop
    cdef object encode  # None: `encode_result`
    cdef object current

    def __init__(self, find, encode, context, current):
        self.find = find
        self.context = context
        self.requests = {}
        self.runs = {}
        self.credit = 0
        self.last_read = UNSET
        self.encode = None if encode is encode_result else encode
        self.current = current

    def serve(self, message, destination=None):
        """`_serving.PlainServer.serve`"""
        handler = function = None
        if self.credit > 0 and destination is None and type(message) is Request:
            if PyDict_Size(self.requests) == 0 or not self.is_in_flight((<Request>message).id):
                handler = self.find((<Request>message).method)
                if handler is not None:
                    function = handler.plain
        if handler is None or (function is None and handler.wants_context):
            return self.receive_other(message, destination)
        self.last_read = (<Request>message).id
        context = PyContext_Copy(self.context)
        PyContext_Enter(context)
        try:
            return self.serve_in(<Request>message, handler, function, context)
        finally:
            PyContext_Exit(context)

    cdef object serve_in(self, Request message, handler, function, context):
        cdef ServedCoroutine served
        result = failure = None
        try:
            result = call_handler(handler, function, payload_in(message.stored))
        except BaseException as error:
            failure = error
        if failure is None:
            if is_awaitable(result):
                if not self.starts_at_once(result):
                    self.begin(message, result, context)
                    return None
                served = ServedCoroutine.__new__(ServedCoroutine)
                served.owner = self
                served.work = result
                served.message = message
                served.context = context
                PyContextVar_Set(self.current, served)
                task = self.make_task(served, loop=self.loop, name=message.method, eager_start=True)
                if not served.has_returned:
                    served.get_run().task = task
                    return None
                result = served.result
            try:
                text = result_line(message.id, result) if self.encode is None else self.encode(message.id, result)
            except HANDLER_FAILURES:
                pass
            else:
                self.credit -= len(text)
                return text
        self.conclude(message, handler, result, failure)
        if isinstance(failure, KeyboardInterrupt):
            raise failure

    cdef bint is_in_flight(self, id) except -1:
        return not (PyLong_CheckExact(id) or PyUnicode_CheckExact(id)) or id in self.requests

    cdef bint starts_at_once(self, work) except -1:
        if self.make_task is None or type(work) is not CoroutineType:
            return False
        return PyDict_Size(self.runs) == 0 or self.may_start()


@cython.binding(False)
@cython.final
@cython.freelist(8)
@cython.auto_pickle(False)
cdef class ServedCoroutine:
    """`_serving.ServedCoroutine`"""

    cdef object owner
    cdef object work
    cdef object run
    cdef object message
    cdef object context
    cdef readonly object result
    cdef readonly bint has_returned

    def __init__(self, owner, work, run, message=None, context=None):
        self.owner = owner
        self.work = work
        self.run = run
        self.message = message
        self.context = context

    def __getattr__(self, name):
        return getattr(self.work, name)

    def get_run(self):
        """`_serving.ServedCoroutine.get_run`"""
        if self.run is None and not self.has_returned:
            self.run = self.owner.make_run(self.work, self.message, self.context)
            self.context = None
        return self.run

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject* found = NULL
        cdef bint goes_on
        try:
            goes_on = send_to(self.work, None, &found)
        except BaseException as error:
            self.fail(error)
            raise StopIteration
        value = <object>found
        drop(found)
        if goes_on:
            return value
        self.succeed(value)
        raise StopIteration

    def send(self, value):
        return self.__next__()

    def throw(self, error, *_):
        try:
            return self.work.throw(error)
        except StopIteration as end:
            self.succeed(end.value)
        except BaseException as failure:
            self.fail(failure)
        raise StopIteration

    def close(self):
        self.work.close()

    cdef object succeed(self, result):
        owner, self.owner = self.owner, None
        if self.run is None:
            self.result = result
            self.has_returned = True
            self.context = None
        else:
            owner.ended(self.run, result, None)

    cdef object fail(self, error):
        run = self.get_run()
        owner, self.owner = self.owner, None
        owner.ended(run, None, error)
        if isinstance(error, KeyboardInterrupt):
            raise error
