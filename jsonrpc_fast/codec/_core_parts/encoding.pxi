"""Encoding: the envelope is written around orjson's output, into one object."""


def encode(message, *, delimited=True, default=None, option=0):
    """Encode a message, or a list of messages as a batch, as one line of JSON.

    Args:
        message: an empty list gives b"": an empty batch is not a message (section 6).
        delimited: end in `\\n`.
        default: orjson's `default` for the payloads.
        option: orjson's `option` for the payloads, except OPT_INDENT_2 and OPT_APPEND_NEWLINE.

    Raises:
        EncodeError: a value cannot be written as JSON.
        TypeError: `message` is not a message.
        ValueError: the option breaks lines, or no profile accepts the id or the code.
    """
    cdef Buffer buffer
    if not isinstance(message, list):
        return encode_message(message, default, option, delimited)
    if not message:
        return b""
    buffer = Buffer()
    append_batch(buffer, <list>message, default, option)
    if delimited:
        buffer.append(b"\n", 1)
    return buffer.done()


def encode_many(messages, *, default=None, option=0):
    """Encode messages and batches, each as one line of JSON that ends in `\\n`.

    Args:
        messages: an iterable of what `encode` takes.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    cdef Buffer buffer = Buffer()
    for message in messages:
        if not isinstance(message, list):
            write_message(message, default, option, True, buffer)
        elif message:
            append_batch(buffer, <list>message, default, option)
            buffer.append(b"\n", 1)
    return buffer.done()


@cython.final
cdef class Buffer:
    """Bytes that grow at their end; `done` returns the same object, without a copy."""

    cdef PyObject* text  # bytes, owned; only the first `size` of them are written
    cdef Py_ssize_t size

    def __cinit__(self):
        self.text = NULL

    def __dealloc__(self):
        Py_XDECREF(self.text)

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        """Room for the next `size` bytes."""
        cdef Py_ssize_t needed = self.size + size
        if self.text == NULL:
            self.text = new_bytes(NULL, max(needed, 256))
        elif needed > PyBytes_GET_SIZE(<object>self.text):
            resize_bytes(&self.text, max(needed, self.size + (self.size >> 1)))
        self.size = needed
        return PyBytes_AS_STRING(<object>self.text) + needed - size

    cdef int append(self, const char* text, Py_ssize_t size) except -1:
        memcpy(self.reserve(size), text, size)
        return 0

    cdef bytes done(self):
        """The bytes. The buffer is empty afterwards."""
        cdef PyObject* text = self.text
        if text == NULL:
            return b""
        resize_bytes(&self.text, self.size)
        text = self.text
        self.text = NULL
        result = <bytes><object>text
        Py_XDECREF(text)
        return result


cdef int append_batch(Buffer buffer, list messages, default, option) except -1:
    cdef bint first = True
    for message in messages:
        buffer.append(b"[" if first else b",", 1)
        first = False
        write_message(message, default, option, False, buffer)
    return buffer.append(b"]", 1)


cdef inline bytes encode_message(message, default, option, bint delimited):
    return write_message(message, default, option, delimited, None)


# The writers below append a message to a buffer and return None; without a buffer they return its bytes.


cdef bytes write_message(message, default, option, bint delimited, Buffer buffer):
    cdef Request request
    cdef Notification notification
    cdef Response response
    cdef Error error
    if type(message) is Request:
        request = <Request>message
        return write_call(True, request.id, request.method, request.params, default, option, delimited, buffer)
    if type(message) is Notification:
        notification = <Notification>message
        return write_call(
            False, None, notification.method, notification.params, default, option, delimited, buffer
        )
    if type(message) is not Response:
        raise TypeError(f"message must be a Request, a Notification or a Response, not {type(message).__name__}")
    response = <Response>message
    if response.error is None:
        return write_result(response.id, response.result, default, option, delimited, buffer)
    error = <Error>response.error
    return write_error(response.id, error.code, error.message, error.data, default, option, delimited, buffer)


def encode_request(id, method, params=None, *, delimited=True, default=None, option=0):
    """Encode a request as one line of JSON, without making a `Request`.

    Args:
        id: as in `Request`.
        method: as in `Request`.
        params: any value that orjson writes as an object or an array; None if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    return write_call(True, id, method, params, default, option, delimited, None)


def encode_notification(method, params=None, *, delimited=True, default=None, option=0):
    """Encode a notification as one line of JSON, without making a `Notification`.

    Args:
        method: as in `Notification`.
        params: any value that orjson writes as an object or an array; None if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    return write_call(False, None, method, params, default, option, delimited, None)


def encode_result(id, result, *, delimited=True, default=None, option=0):
    """Encode a response with a result as one line of JSON, without making a `Response`.

    Args:
        id: as in `Response`.
        result: any value that orjson writes.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    return write_result(id, result, default, option, delimited, None)


def encode_error(id, code, message, data=UNSET, *, delimited=True, default=None, option=0):
    """Encode a response with an error as one line of JSON, without making a `Response`.

    Args:
        id: as in `Response`.
        code: as in `Error`.
        message: as in `Error`.
        data: any value that orjson writes; UNSET if absent.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        EncodeError, TypeError, ValueError: as in `encode`.
    """
    return write_error(id, code, message, data, default, option, delimited, None)


cdef struct Piece:
    const char* text
    Py_ssize_t size


cdef enum:
    # An error with data has the most pieces, because quotes count.
    MAX_PIECES = 16


cdef struct Writer:
    # The parts of a message in order. Their bytes are literals, in `digits`, or in objects that the caller holds until
    # `join`.
    Piece pieces[MAX_PIECES]
    int count
    char digits[3][24]  # for the id, the code and a payload: at most a sign and INTEGER_BYTES


cdef inline void put(Writer* writer, const char* text, Py_ssize_t size) noexcept:
    writer.pieces[writer.count].text = text
    writer.pieces[writer.count].size = size
    writer.count += 1


cdef inline bytes put_bytes(Writer* writer, bytes text):
    if text is None:
        raise TypeError("a serializer returned None")
    put(writer, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return text


cdef inline object put_integer(Writer* writer, char* digits, number):
    """Write an integer into `digits`, or return the object that holds its bytes."""
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    cdef char* end = digits + INTEGER_BYTES + 1
    cdef char* at = end
    # Unsigned, because -(-2**63) is not a long long.
    cdef unsigned long long rest = -<unsigned long long>value if value < 0 else <unsigned long long>value
    if overflow:
        check_id(number)
        return put_bytes(writer, b"%d" % number)
    while True:
        at -= 1
        at[0] = <char>(c"0" + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        at -= 1
        at[0] = c"-"
    put(writer, at, end - at)
    return None


cdef inline object put_string(Writer* writer, text):
    """Put a string; return the object that holds its bytes. The caller holds `text`."""
    cdef const char* start
    cdef Py_ssize_t size
    if PyUnicode_IS_ASCII(text):
        start = <const char*>PyUnicode_DATA(text)
        size = PyUnicode_GET_LENGTH(text)
        if skip_plain(<const uint8_t*>start, <const uint8_t*>start + size) == <const uint8_t*>start + size:
            put(writer, b'"', 1)
            put(writer, start, size)
            put(writer, b'"', 1)
            return text
    return put_bytes(writer, dumps(text))


cdef inline object put_id(Writer* writer, id):
    if not PyLong_CheckExact(id):  # `put_integer` checks wide integers
        check_id(id)
    if isinstance(id, int):
        return put_integer(writer, writer.digits[0], id)
    if isinstance(id, str):
        return put_string(writer, id)
    return put_bytes(writer, dumps(id))


cdef bytes put_raw(Writer* writer, Raw raw):
    """Put JSON, with line breaks between tokens replaced by spaces; strings hold none."""
    if memchr(raw.start, 0x0A, raw.size) == NULL and memchr(raw.start, 0x0D, raw.size) == NULL:
        put(writer, <const char*>raw.start, raw.size)
        return raw.owner
    return put_bytes(writer, raw.text().replace(b"\n", b" ").replace(b"\r", b" "))


cdef inline object put_payload(Writer* writer, value, default, option):
    """Put a payload and return the object that holds its bytes. The caller holds `value`."""
    cdef bytes text
    cdef int overflow = 0
    if type(value) is Raw:
        return put_raw(writer, <Raw>value)
    elif default is None and option is ZERO:
        # Most results that are not objects are short; orjson would take longer for the call than for the value.
        if PyUnicode_CheckExact(value):
            return put_string(writer, value)
        if value is None:
            put(writer, NULL_TEXT, 4)
            return None
        if value is True:
            put(writer, b"true", 4)
            return None
        if value is False:
            put(writer, b"false", 5)
            return None
        if PyLong_CheckExact(value):
            PyLong_AsLongLongAndOverflow(value, &overflow)
            if not overflow:
                return put_integer(writer, writer.digits[2], value)
        try:
            text = dumps_unchecked(value)
        except TypeError as error:
            raise EncodeError(str(error)) from error.__cause__
    else:
        text = dumps(value, default, option)
    if PyBytes_GET_SIZE(text) > LARGE_BYTES:
        note_large()
    put(writer, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return text


cdef inline void note_large() noexcept:
    global large_probes
    large_probes = LARGE_PROBES


cdef inline void copy(char* to, const char* text, Py_ssize_t size) noexcept:
    """`memcpy` without a call for short pieces, by two copies that may overlap."""
    if size > 32:
        memcpy(to, text, size)
    elif size >= 16:
        memcpy(to, text, 16)
        memcpy(to + size - 16, text + size - 16, 16)
    elif size >= 8:
        memcpy(to, text, 8)
        memcpy(to + size - 8, text + size - 8, 8)
    else:
        while size > 0:
            size -= 1
            to[size] = text[size]


cdef inline bytes join(Writer* writer, Buffer buffer):
    """Return the pieces as bytes, or append them to a buffer."""
    cdef Py_ssize_t size = 0
    cdef int i
    cdef bytes text = None
    cdef char* at
    for i in range(writer.count):
        size += writer.pieces[i].size
    if buffer is None:
        text = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(text)
    else:
        at = buffer.reserve(size)
    for i in range(writer.count):
        copy(at, writer.pieces[i].text, writer.pieces[i].size)
        at += writer.pieces[i].size
    return text


cdef inline bint is_large_leaf(PyObject* value) noexcept:
    return PyUnicode_Check(<object>value) and PyUnicode_GET_LENGTH(<object>value) > LARGE_BYTES


cdef bint is_large(PyObject* value, int* nodes) noexcept:
    """Whether a payload is probably more than LARGE_BYTES of JSON, judging by some of its nodes."""
    cdef PyObject* item
    cdef Py_ssize_t place = 0
    if PyDict_Check(<object>value):
        nodes[0] -= <int>min(PyDict_Size(<object>value), LARGE_NODES)
        if nodes[0] < 0:
            return True
        while PyDict_Next(<object>value, &place, NULL, &item):
            if is_large_leaf(item) or is_large(item, nodes):
                return True
        return False
    if PyList_Check(<object>value):
        nodes[0] -= <int>min(PyList_GET_SIZE(<object>value), LARGE_NODES)
        if nodes[0] < 0:
            return True
        for place in range(PyList_GET_SIZE(<object>value)):
            item = PyList_GET_ITEM(<object>value, place)
            if is_large_leaf(item) or is_large(item, nodes):
                return True
        return False
    return is_large_leaf(value)


cdef inline bytes write_large(dict envelope, bint delimited):
    """The message written by orjson alone, which saves a copy of the payload. None if orjson refuses it."""
    try:
        return dumps_unchecked(envelope, option=APPEND_NEWLINE if delimited else ZERO)
    except TypeError:
        return None


# How many of the next payloads to probe for their size. A probe is too expensive for small messages, so it is done only
# for some time after a large one: large messages come in groups.
cdef int large_probes = 0


cdef inline bint may_be_large(payload, default, option, Buffer buffer) noexcept:
    global large_probes
    cdef int nodes = LARGE_NODES
    if large_probes == 0 or buffer is not None or default is not None or option is not ZERO:
        return False
    large_probes -= 1
    if is_large(<PyObject*>payload, &nodes):
        large_probes = LARGE_PROBES
        return True
    return False


cdef bytes write_call(bint is_request, id, method, params, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    cdef bytes text
    cdef char first
    if option is not ZERO:
        check_option(option)
    if large_probes and isinstance(params, (dict, list)) and may_be_large(params, default, option, buffer):
        if is_request:
            check_id(id)
        check_method(method)
        if is_request:
            text = write_large({"jsonrpc": VERSION, "id": id, "method": method, "params": params}, delimited)
        else:
            text = write_large({"jsonrpc": VERSION, "method": method, "params": params}, delimited)
        if text is not None:
            return text
    writer.count = 0
    held_id = None
    if is_request:
        put(&writer, b'{"jsonrpc":"2.0","id":', 22)
        held_id = put_id(&writer, id)
        put(&writer, b',"method":', 10)
    else:
        put(&writer, b'{"jsonrpc":"2.0","method":', 26)
    check_method(method)
    held_method = put_string(&writer, method)
    if params is not None:
        put(&writer, b',"params":', 10)
        payload = put_payload(&writer, params, default, option)
        first = writer.pieces[writer.count - 1].text[0] if writer.pieces[writer.count - 1].size else 0
        if first != c"{" and first != c"[":
            raise TypeError(
                f"params must be written as a JSON object or array, which {type(params).__name__} is not"
            )
    put(&writer, b"}\n", 2 if delimited else 1)
    return join(&writer, buffer)


cdef bytes write_result(id, result, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    cdef bytes text
    if option is not ZERO:
        check_option(option)
    if may_be_large(result, default, option, buffer):
        check_id(id)
        text = write_large({"jsonrpc": VERSION, "id": id, "result": result}, delimited)
        if text is not None:
            return text
    writer.count = 0
    put(&writer, b'{"jsonrpc":"2.0","id":', 22)
    held_id = put_id(&writer, id)
    put(&writer, b',"result":', 10)
    payload = put_payload(&writer, result, default, option)
    put(&writer, b"}\n", 2 if delimited else 1)
    return join(&writer, buffer)


cdef bytes write_error(id, code, message, data, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    if option is not ZERO:
        check_option(option)
    writer.count = 0
    put(&writer, b'{"jsonrpc":"2.0","id":', 22)
    held_id = put_id(&writer, id)
    code = check_error(code, message)
    put(&writer, b',"error":{"code":', 17)
    held_code = put_integer(&writer, writer.digits[1], code)
    put(&writer, b',"message":', 11)
    held_message = put_string(&writer, message)
    if data is not UNSET:
        put(&writer, b',"data":', 8)
        payload = put_payload(&writer, data, default, option)
    put(&writer, b"}}\n", 3 if delimited else 2)
    return join(&writer, buffer)


def answer(received, handler, *, delimited=True, default=None, option=0):
    """Return the reply to a decoded message or batch, as bytes; b"" if no reply is due (sections 4.1 and 6).

    A batch gets a batch in the same order, a ParseError an error response if `reply_expected`, a response no reply.

    An RpcError from the handler becomes the error response. Any other exception, a return value other than a Response
    to a request, and a response that cannot be written become -32603 and are logged; the other items of a batch are
    unaffected. KeyboardInterrupt and cancellations pass on. `jsonrpc_fast.handlers` dispatches by method name and
    supports async functions.

    Args:
        received: what `decode` returned.
        handler: called with each request, to which it returns a Response, and with each notification.
        delimited: end in `\\n`.
        default: as in `encode`.
        option: as in `encode`.

    Raises:
        TypeError: `received` is not a value that `decode` returns.
        ValueError: the option breaks lines.
    """
    check_option(option)
    if isinstance(received, list):
        replies = [answer_one(item, handler, False, default, option) for item in received]
        text = b",".join([reply for reply in replies if reply])
        if not text:
            return b""
        return b"[" + text + (b"]\n" if delimited else b"]")
    return answer_one(received, handler, delimited, default, option)


cdef object answer_one(received, handler, bint delimited, default, option):
    """The reply to one message or fault."""
    if type(received) is Request:
        try:
            response = handler(received)
            if type(response) is not Response:
                raise TypeError(f"the handler must return a Response to a request, not {type(response).__name__}")
            return encode_message(response, default, option, delimited)
        except HANDLER_FAILURES as failure:
            error = error_for(failure, received.method, received.id)
        try:
            return encode_error(
                received.id, error.code, error.message, error.data, delimited=delimited, default=default, option=option
            )
        except HANDLER_FAILURES as failure:
            error = internal_error(failure, received.method, received.id)
        return encode_error(received.id, error.code, error.message, delimited=delimited)
    if type(received) is Notification:
        try:
            handler(received)
        except RpcError:
            pass
        except HANDLER_FAILURES as failure:
            internal_error(failure, received.method)
    elif isinstance(received, ParseError):
        return encode_message(received.to_response(), None, 0, delimited) if received.reply_expected else b""
    elif type(received) is not Response:
        raise TypeError(f"received must be what decode returned, not {type(received).__name__}")
    return b""
