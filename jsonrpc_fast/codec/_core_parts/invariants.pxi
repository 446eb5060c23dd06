"""What the core relies on in CPython beyond its documented API, and a check of each at import.

If one does not hold, the import fails and the pure backend takes over. docs/core.md says what each trick gains.

  - Free lists: an object whose `tp_dealloc` kept its memory may be given out again with one reference, with its type and
    untracked; `tp_dealloc` and `tp_vectorcall` of an extension type may be set before its first object is made.
  - Payloads that wait: what has one reference is used by its owner alone; the digit of an int, and the items, the room
    and the size of a list, are in the fields that the header files declare; the room of a new list is its size.
  - Calls: a function of Cython is called through the pointer at `tp_vectorcall_offset`.
  - Slots: the `offset` in the descriptor of a slot is where the value is.
  - Exceptions: `tp_new` of an exception class keeps `args` and runs no `__init__`.
  - Records: `tp_alloc` of a tuple class gives a tuple whose items may be set.
  - Dicts: a key table that has had keys other than str has entries of a hash, a key and a value.
  - Strings: the characters of an ASCII str follow its header in the same memory, and its hash equals that of a str
    made by CPython. The headers of new ASCII strs differ only in their length.
  - Integers: before Python 3.12 an int of one digit has it in `ob_digit`, and its sign in its size. New positive ints of
    one digit differ only in the digit.
"""


cdef check_invariants():
    """Raise ImportError unless this Python keeps what the core relies on."""
    cdef list broken = []
    try:
        find_broken(broken)
    except Exception as error:  # a broken trick may show as any of them
        broken.append(f"{type(error).__name__}: {error}")
    if broken:
        raise ImportError(f"this Python does not keep what the core relies on: {', '.join(broken)}")


cdef int find_broken(list broken) except -1:
    """Append the names of the facts that do not hold."""
    cdef PyObject* first
    cdef PyObject* second
    request = make_object(REQUESTS, 1, "m", None)
    first = <PyObject*>request
    request = None
    request = make_object(REQUESTS, 2, "m", None)
    if uses_free_lists and <PyObject*>request != first or type(request) is not Request or _is_tracked(request):
        broken.append("free lists")
    if type(decode(b"{}")) is not ParseError or encode_result(1, 2) != b'{"jsonrpc":"2.0","id":1,"result":2}\n':
        broken.append("calls")
    decoder = Decoder()
    first = at_offset(<PyObject*>decoder, FAST_OFFSET)
    if first != NULL and <object>first is not decoder._fast:
        broken.append("slots")
    drop_if_any(first)
    fault = make_fault(MALFORMED_JSON, 1, 2, 3, False, (4,))
    if fault != ParseError(MALFORMED_JSON.code, id=1, offset=2, index=3, reply_expected=False, settles=(4,)):
        broken.append("exceptions")
    if new_classification(REQUEST, "m", 1) != Classification(REQUEST, "m", 1):
        broken.append("records")
    first = name_at(caches_of_thread(), <const uint8_t*>b"params", 6)
    second = name_at(caches_of_thread(), <const uint8_t*>b"params", 6)
    text = owned(first)
    if (text, hash(text), text.__sizeof__()) != ("params", hash("params"), "params".__sizeof__()):
        broken.append("strings")
    elif text + "é" != "paramsé" or <char*>string_data(second) - <char*>second < 8:
        broken.append("strings")
    drop(second)
    members = {1: 2, "a": 3}
    del members[1]
    if encode_result(1, members) != b'{"jsonrpc":"2.0","id":1,"result":{"a":3}}\n':
        broken.append("dicts")
    for number in (0, -1, 255, 1 << 30, -(1 << 30), 1 << 62, -(1 << 63), (1 << 64) - 1):
        if encode_result(number, None) != b'{"jsonrpc":"2.0","id":%d,"result":null}\n' % number:
            broken.append("integers")
            break
    for number in (SMALL_INTEGERS, 1000, (1 << 30) - 1, 1 << 30):
        found = made(integer_of(number))
        if (found, found - 1, found.__sizeof__()) != (number, number - 1, number.__sizeof__()):
            broken.append("integers")
            break
    for number in (1000, 1 << 20):  # the second request gets the id and the list of the first one
        request = None
        request = decode(b'{"jsonrpc":"2.0","id":%d,"method":"m","params":[%d,1]}' % (number, number))
        found = [number, 1]
    if (request.params, request.params.__sizeof__(), request.id) != (found, found.__sizeof__(), number):
        broken.append("payloads that wait")
    if (DECIMALS, NO_WIDE_INTEGERS) != (_DECIMALS, _NO_WIDE_INTEGERS):
        broken.append("the bits of numbers")
    return 0
