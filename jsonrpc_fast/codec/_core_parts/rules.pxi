"""From kinds to verdicts, and from the members of a dict to their kinds. All rules are in `rules.py`.

Each profile has a table of bytes, which is filled on demand: for kinds that it does not hold yet, `rules.verdict`, a
Python function, is called. Its result depends on the kinds and the profile only, so it may be called again at any time,
also by code that the garbage collector runs meanwhile. An exception leaves the table as it was.
"""

cdef enum:
    # The kinds of nearly all messages differ in these bits only, so that a profile has one or two pages.
    PAGE_BITS = 13
    PAGE_BYTES = 1 << PAGE_BITS


cdef enum MessageKind:
    # In the order of `rules.MessageKind`.
    A_REQUEST
    A_NOTIFICATION
    A_RESULT
    AN_ERROR


cdef struct Verdict:
    PyObject* rule  # the broken one, held by `RULES`; NULL: the message is valid
    MessageKind kind
    bint is_id_certain
    bint reply_expected


cdef Verdict[256] verdicts  # one past the places in `VERDICTS`; 0 in a table means unknown
cdef Py_ssize_t PAGES = 1 << (KIND_BITS - PAGE_BITS)


cdef uint32_t kind_bits(str field, object value) except? 0:
    """A kind as a number. The calls below are those of a C function, a tenth of the code of Python calls."""
    return bits_of(field, value)


cdef uint32_t VERSION_KIND = kind_bits("jsonrpc", "2.0")
cdef uint32_t OTHER_VERSION = kind_bits("jsonrpc", "other")
cdef uint32_t NULL_ID = kind_bits("id", "null")
cdef uint32_t INTEGER_ID = kind_bits("id", "integer")
cdef uint32_t STRING_ID = kind_bits("id", "string")
cdef uint32_t FLOAT_ID = kind_bits("id", "float")
cdef uint32_t LONG_ID = kind_bits("id", "too long")
cdef uint32_t OTHER_ID = kind_bits("id", "other")
cdef uint32_t METHOD = kind_bits("method", "string")
cdef uint32_t EMPTY_METHOD = kind_bits("method", "empty")
cdef uint32_t LONG_METHOD = kind_bits("method", "too long")
cdef uint32_t OTHER_METHOD = kind_bits("method", "other")
cdef uint32_t NULL_PARAMS = kind_bits("params", "null")
cdef uint32_t OBJECT_PARAMS = kind_bits("params", "object")
cdef uint32_t ARRAY_PARAMS = kind_bits("params", "array")
cdef uint32_t OTHER_PARAMS = kind_bits("params", "other")
cdef uint32_t PARAMS_MASK = NULL_PARAMS | OBJECT_PARAMS | ARRAY_PARAMS | OTHER_PARAMS
cdef uint32_t NULL_RESULT = kind_bits("result", "null")
cdef uint32_t OBJECT_RESULT = kind_bits("result", "object")
cdef uint32_t OTHER_RESULT = kind_bits("result", "other")
cdef uint32_t NULL_ERROR = kind_bits("error", "null")
cdef uint32_t OBJECT_ERROR = kind_bits("error", "object")
cdef uint32_t OTHER_ERROR = kind_bits("error", "other")
cdef uint32_t HAS_ERROR_CODE = kind_bits("has_error_code", True)
cdef uint32_t HAS_ERROR_MESSAGE = kind_bits("has_error_message", True)
cdef uint32_t HAS_EXTRA_IN_ERROR = kind_bits("has_extra_in_error", True)
cdef uint32_t HAS_EXTRA = kind_bits("has_extra", True)
cdef uint32_t IS_TOO_DEEP = kind_bits("is_too_deep", True)
cdef uint32_t HAS_WIDE_INTEGER = kind_bits("has_wide_integer", True)
cdef uint32_t HAS_DUPLICATE = kind_bits("has_duplicate", True)
cdef uint32_t IS_NO_OBJECT = kind_bits("is_no_object", True)


cdef int set_verdicts() except -1:
    cdef Verdict* verdict
    for place, found in enumerate(VERDICTS):
        verdict = &verdicts[<int>place + 1]
        verdict.rule = NULL if found.fault is None else <PyObject*><Rule>RULES[found.fault]
        verdict.kind = MESSAGE_KINDS.index(found.kind)
        verdict.is_id_certain = found.is_id_certain
        verdict.reply_expected = found.reply_expected
    return 0


set_verdicts()


@cython.final
@cython.auto_pickle(False)
cdef class Rules:
    """A profile in C types, and the verdicts in it so far."""

    cdef object owner  # the profile, kept alive so that no other profile gets its address
    cdef object profile  # the same, without code of a subclass
    cdef uint8_t** pages  # the table; NULL for a page without verdicts
    cdef Rule fault_of_batches  # of each batch, or None
    cdef Rule fault_of_large_batch
    cdef Rule fault_of_empty_batch
    cdef bint needs_version
    cdef bint takes_arrays  # as params
    cdef bint takes_any_result
    cdef bint keeps_extra
    cdef bint ignores_extra
    cdef int numbers  # how they are read, as `numbers_of` says
    cdef int form  # of what is written
    cdef object writes_decimals  # the `default` of payloads where the caller has none; None: Decimals are not written
    cdef Py_ssize_t message_bytes
    cdef Py_ssize_t depth
    cdef Py_ssize_t batch_items
    cdef Py_ssize_t method_bytes
    cdef Py_ssize_t id_bytes

    def __init__(self, profile):
        if self.pages != NULL:  # the table of another profile
            refuse_again(self)
        self.owner = profile
        self.profile = profile = plain_profile(profile)
        limits = profile.limits
        self.fault_of_batches = RULES.get(find_batch_fault("allowed", profile))
        self.fault_of_large_batch = RULES[find_batch_fault("too large", profile)]
        self.fault_of_empty_batch = RULES[find_batch_fault("empty", profile)]
        self.keeps_extra = profile.extra_members == "keep"
        self.ignores_extra = bool(profile.extra_members) and not self.keeps_extra
        self.numbers = numbers_of(profile)
        self.form = get_args(WrittenForm).index(profile.writes)
        if self.numbers & DECIMALS:
            from ._forms import default_of  # loaded only for such profiles

            self.writes_decimals = default_of(profile, None)
        load_decimals(self.numbers)
        self.message_bytes = limits.message_bytes
        self.depth = limits.depth
        self.batch_items = limits.batch_items
        self.method_bytes = limits.method_bytes
        self.id_bytes = limits.id_bytes
        self.pages = <uint8_t**>calloc(PAGES, sizeof(uint8_t*))
        if self.pages == NULL:
            raise MemoryError
        self.needs_version = verdict_on(self, INTEGER_ID | METHOD).rule != NULL
        self.takes_arrays = verdict_on(self, VERSION_KIND | INTEGER_ID | METHOD | ARRAY_PARAMS).rule == NULL
        self.takes_any_result = (
            verdict_on(self, VERSION_KIND | INTEGER_ID | OTHER_RESULT).rule == NULL
            and verdict_on(self, VERSION_KIND | INTEGER_ID | NULL_RESULT).rule == NULL
        )

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.pages != NULL:
            for i in range(PAGES):
                free(self.pages[i])
            free(self.pages)


cdef object default_in(Rules rules, default):
    """The `default` for payloads, which writes a Decimal as a number if the profile has decimals."""
    if rules.writes_decimals is None:
        return default
    if default is None:
        return rules.writes_decimals
    from ._forms import default_of

    return default_of(rules.profile, default)


cdef inline Verdict* verdict_on(Rules rules, uint32_t kinds) except NULL:
    """The verdict on a message with these kinds."""
    cdef uint8_t* page = page_at(&rules.pages[kinds >> PAGE_BITS])
    cdef uint8_t place = 0 if page == NULL else byte_at(&page[kinds & (PAGE_BYTES - 1)])
    return &verdicts[place] if place != 0 else ask_verdict(rules, kinds)


cdef Verdict* ask_verdict(Rules rules, uint32_t kinds) except NULL:
    cdef uint8_t** page_place = &rules.pages[kinds >> PAGE_BITS]
    cdef uint8_t place = find_verdict(kinds, rules.profile) + 1
    cdef uint8_t* page = page_at(page_place)
    if page == NULL:
        page = <uint8_t*>calloc(PAGE_BYTES, 1)
        if page == NULL:
            raise MemoryError
        page = set_page(page_place, page)
    set_byte(&page[kinds & (PAGE_BYTES - 1)], place)
    return &verdicts[place]


cdef enum:
    RULE_PLACES = 32


cdef struct RulePlace:
    PyObject* profile  # NULL: the place is free
    PyObject* rules  # owned; owns the profile


cdef RulePlace[RULE_PLACES] rule_places  # the profiles in use, by their address
cdef dict known_rules = {}  # all profiles, by their address


cdef inline RulePlace* place_of(profile) noexcept:
    cdef size_t address = <size_t><PyObject*>profile
    return &rule_places[(address >> 4 ^ address >> 9) % RULE_PLACES]


cdef inline Rules rules_of(profile):
    cdef RulePlace* place = place_of(profile)
    if place.profile == <PyObject*>profile:
        return <Rules>place.rules
    return find_rules(profile, NULL if FREE_THREADED else place)


cdef Rules find_rules(profile, RulePlace* place):
    cdef PyObject* old
    cdef object address = <size_t><PyObject*>profile  # an object: C would take the number for a pointer
    # Not `get` of Cython: it borrows, and another thread may clear the dict meanwhile.
    cdef PyObject* known = value_in(<PyObject*>known_rules, <PyObject*>address)
    if known != NULL:
        found = owned(known)
    else:
        check_profile(profile)
        found = Rules(profile)
        if len(known_rules) >= MAX_PROFILES:
            known_rules.clear()
        known_rules[address] = found
    if place == NULL:
        return <Rules>found
    old = place.rules
    place.profile = <PyObject*>profile
    place.rules = held(found)
    if old != NULL:
        drop(old)
    return <Rules>found


cdef Rules DEFAULT_RULES = rules_of(JSONRPC)


def parse(obj, profile=JSONRPC):
    """`_pure.parse`"""
    cdef Rules rules = rules_of(profile)
    cdef Py_ssize_t index
    cdef Rule rule
    cdef list messages
    cdef list settles
    if type(obj) is tuple:
        obj = list(<tuple>obj)
    if not isinstance(obj, list):
        return check_dict(obj, rules, None, True)
    rule = rule_of_batch(len(<list>obj), rules)
    if rule is not None:
        settles = []
        for item in (<list>obj)[:rules.batch_items]:
            settles.extend(settled_by(check_dict(item, rules, None, True)))
        return refused_batch(rule, settles)
    messages = []
    for index, item in enumerate(<list>obj):
        messages.append(check_dict(item, rules, index, True))
    return messages


cdef object fault_in(obj, Rules rules):
    """The first fault of a message or a batch in dicts; None if there is none."""
    cdef Py_ssize_t index
    cdef Rule rule
    if not isinstance(obj, list):
        return check_dict(obj, rules, None, False)
    rule = rule_of_batch(len(<list>obj), rules)
    if rule is not None:
        return make_fault(rule)
    for index, item in enumerate(<list>obj):
        fault = check_dict(item, rules, index, False)
        if fault is not None:
            return fault
    return None


cdef Rule rule_of_batch(Py_ssize_t items, Rules rules):
    """The rule that a batch as a whole breaks, or None."""
    if items > rules.batch_items:
        return rules.fault_of_large_batch
    return rules.fault_of_batches if items else rules.fault_of_empty_batch


cdef inline object member_of(dict obj, name):
    cdef PyObject* value = value_in(<PyObject*>obj, <PyObject*>name)
    return ABSENT if value == NULL else owned(value)


cdef inline object given(PyObject* value):
    return ABSENT if value == NULL else <object>value


cdef Py_ssize_t find_members(PyObject* members, PyObject** found) noexcept:
    """Find the members of a message in one pass over a dict, which is cheaper than a look-up of each; return how many
    there are, or -1 if the names have to be looked up.

    found: gets the values, borrowed, by `Member`; NULL for an absent one.
    """
    cdef PyObject* name
    cdef PyObject* value
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t known = 0
    cdef Member member
    # Without the GIL, another thread may change the dict. In a large one nearly all members are others.
    if FREE_THREADED or dict_size(members) > 8:
        return -1
    for i in range(<int>MEMBER_UNKNOWN):
        found[i] = NULL
    while member_after(members, &place, &name, &value):
        if class_of(name) != STR_TYPE:
            return -1  # its `__eq__` may say that it is one of the names
        if PyUnicode_IS_ASCII(<object>name):
            member = name_of(<const uint8_t*>string_data(name), string_size(name), False)
            if member != MEMBER_UNKNOWN:
                found[<int>member] = value
                known += 1
    return known


cdef object check_dict(obj, Rules rules, index, bint wanted):
    """The message in a dict, or its fault. wanted: False for None in place of the message.

    Each member is owned: the `__eq__` of a key, or the garbage collector in any allocation, may run code that clears the
    dict.
    """
    cdef uint32_t kinds = 0
    cdef Py_ssize_t known
    cdef Verdict* verdict
    cdef dict members
    cdef PyObject* found[6]
    if not isinstance(obj, dict):
        return fault_of(verdict_on(rules, IS_NO_OBJECT), None, index)
    members = <dict>obj
    known = find_members(<PyObject*>members, found)
    if known >= 0:
        jsonrpc = given(found[<int>MEMBER_JSONRPC])
        id = given(found[<int>MEMBER_ID])
        method = given(found[<int>MEMBER_METHOD])
        params = given(found[<int>MEMBER_PARAMS])
        result = given(found[<int>MEMBER_RESULT])
        error = given(found[<int>MEMBER_ERROR])
    else:
        jsonrpc = member_of(members, "jsonrpc")
        id = member_of(members, "id")
        method = member_of(members, "method")
        params = member_of(members, "params")
        result = member_of(members, "result")
        error = member_of(members, "error")
        known = (jsonrpc is not ABSENT) + (id is not ABSENT) + (method is not ABSENT)
        known += (params is not ABSENT) + (result is not ABSENT) + (error is not ABSENT)
    if known < PyDict_Size(members):
        kinds = HAS_EXTRA
    if jsonrpc is not ABSENT:
        kinds |= VERSION_KIND if is_version(jsonrpc) else OTHER_VERSION
    kinds |= kind_of_id(id, rules.id_bytes) | kind_of_method(method, rules.method_bytes)
    if params is not ABSENT:
        if is_object_or_array(params, True):
            kinds |= OBJECT_PARAMS if is_object_or_array(params, False) else ARRAY_PARAMS
        else:
            kinds |= NULL_PARAMS if is_null(params) else OTHER_PARAMS
    if kinds & HAS_EXTRA or result is not ABSENT or error is not ABSENT:
        return check_outcome(members, rules, index, kinds, id, method, params, result, error, wanted)
    verdict = verdict_on(rules, kinds)
    if verdict.rule != NULL:
        return fault_of(verdict, id, index)
    return message_of(verdict, id, method, params, None) if wanted else None


cdef object check_outcome(
    dict members, Rules rules, index, uint32_t kinds, id, method, params, result, error, bint wanted
):
    """The message in a dict that has more members than those of a call, or its fault."""
    cdef Verdict* verdict
    code = message = data = ABSENT
    if result is not ABSENT:
        kinds |= OBJECT_RESULT if is_object_or_array(result, False) else NULL_RESULT if is_null(result) else OTHER_RESULT
    if isinstance(error, dict):
        code = member_of(<dict>error, "code")
        message = member_of(<dict>error, "message")
        data = member_of(<dict>error, "data")
        kinds |= kinds_of_error(<dict>error, code, message, data)
    elif error is not ABSENT:
        kinds |= NULL_ERROR if is_null(error) else OTHER_ERROR
    verdict = verdict_on(rules, kinds)
    if verdict.rule != NULL:
        return fault_of(verdict, id, index)
    if not wanted:
        return None
    extra = extra_of(members, ENVELOPE_MEMBERS) if rules.keeps_extra else None
    if verdict.kind == A_REQUEST or verdict.kind == A_NOTIFICATION:
        return message_of(verdict, id, method, params, extra)
    if rules.keeps_extra and params is not ABSENT:
        extra = {**(extra or {}), "params": (<Raw>params).decode() if type(params) is Raw else params}
    if verdict.kind == AN_ERROR:
        if is_error_object(kinds):
            result = error_of_parts(code, message, data, extra_of(error, ERROR_MEMBERS) if rules.keeps_extra else None)
        else:
            result = error_of_value((<Raw>error).decode() if type(error) is Raw else error, error)
    return message_of(verdict, id, None, result, extra)


cdef inline object message_of(Verdict* verdict, id, method, payload, extra):
    """The valid message with these members. payload: params, a result or an `Error`."""
    if verdict.kind == A_REQUEST or verdict.kind == A_NOTIFICATION:
        if payload is ABSENT or is_null(payload):
            payload = None
        elif type(payload) is tuple:
            payload = list(<tuple>payload)
        if verdict.kind == A_REQUEST:
            return make_object(REQUESTS, id, method, with_extra(payload, extra))
        return make_object(NOTIFICATIONS, method, with_extra(payload, extra), None)
    if id is ABSENT:
        id = None
    if verdict.kind == A_RESULT:
        return make_object(RESPONSES, id, with_extra(payload, extra), None)
    return make_object(RESPONSES, id, with_extra(None, extra), payload)


cdef object fault_of(Verdict* verdict, id, index):
    """The fault of a message with this id."""
    return make_fault(<Rule>verdict.rule, id if verdict.is_id_certain else None, None, index, verdict.reply_expected)


cdef object check_dict_or_none(obj, Rules rules):
    """As `check_dict`; None if the comparison of a key raises."""
    try:
        return check_dict(obj, rules, None, True)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        pass
    return None


cdef inline uint32_t kind_of_token(
    uint8_t first, uint32_t null, uint32_t object_, uint32_t array, uint32_t other
) noexcept:
    """The kind of a value by its first byte."""
    if first == c"{":
        return object_
    if first == c"[":
        return array
    return null if first == c"n" else other


cdef inline bint is_version(value) except -1:
    if PyUnicode_CheckExact(value) and PyUnicode_IS_ASCII(value):
        return PyUnicode_GET_LENGTH(value) == 3 and memcmp(PyUnicode_DATA(value), b"2.0", 3) == 0
    return isinstance(value, str) and value == VERSION


cdef inline uint32_t kind_of_method(method, Py_ssize_t limit) except? 0xFFFFFFFF:
    if method is ABSENT:
        return 0
    if not isinstance(method, str):
        return OTHER_METHOD
    if is_string_longer(method, limit):
        return LONG_METHOD
    return METHOD if PyUnicode_GET_LENGTH(method) else EMPTY_METHOD


cdef inline uint32_t kind_of_id(id, Py_ssize_t limit) except? 0xFFFFFFFF:
    cdef int overflow = 0
    if id is ABSENT:
        return 0
    if PyLong_CheckExact(id):
        PyLong_AsLongLongAndOverflow(id, &overflow)
        if not overflow:
            return INTEGER_ID
    if is_id_too_long(id, limit):
        return LONG_ID
    if isinstance(id, str):
        return STRING_ID if PyUnicode_IS_ASCII(id) or not has_surrogates(id) else OTHER_ID
    if isinstance(id, int):
        return OTHER_ID if isinstance(id, bool) else INTEGER_ID
    if isinstance(id, float):
        return FLOAT_ID if isfinite(<double>id) else OTHER_ID
    return NULL_ID if id is None else OTHER_ID


cdef inline uint32_t kinds_of_error(dict error, code, message, data) except? 0xFFFFFFFF:
    """The kinds of a decoded error object with these members."""
    cdef uint32_t kinds = OBJECT_ERROR
    cdef int overflow = 0
    if PyLong_CheckExact(code):
        PyLong_AsLongLongAndOverflow(code, &overflow)
    if (PyLong_CheckExact(code) and not overflow) or is_error_code(code):
        kinds |= HAS_ERROR_CODE
    if isinstance(message, str):
        kinds |= HAS_ERROR_MESSAGE
    if PyDict_Size(error) > (code is not ABSENT) + (message is not ABSENT) + (data is not ABSENT):
        kinds |= HAS_EXTRA_IN_ERROR
    return kinds


cdef object error_of_parts(code, message, data, extra):
    """The Error with valid members. data: ABSENT if absent."""
    if not PyLong_CheckExact(code):
        code = int.__int__(code)
    return make_object(ERRORS, code, message, with_extra(UNSET if data is ABSENT else data, extra))


cdef inline bint is_error_object(uint32_t kinds) noexcept:
    """Whether an error is an object with a code and a message, as section 5.1 requires."""
    return kinds & HAS_ERROR_CODE != 0 and kinds & HAS_ERROR_MESSAGE != 0


cdef object error_of_value(value, data):
    """The Error of another shape, which is all of its data."""
    code, message = code_and_message(value)
    return make_object(ERRORS, code, message, data)


cdef object error_or_none(obj, Rules rules):
    """The Error in an object; None if it is invalid."""
    cdef uint32_t kinds
    code = message = data = ABSENT
    if isinstance(obj, dict):
        code = member_of(<dict>obj, "code")
        message = member_of(<dict>obj, "message")
        data = member_of(<dict>obj, "data")
        kinds = kinds_of_error(<dict>obj, code, message, data) & ~HAS_EXTRA_IN_ERROR
    else:
        kinds = NULL_ERROR if is_null(obj) else OTHER_ERROR
    if verdict_on(rules, VERSION_KIND | INTEGER_ID | kinds).rule != NULL:
        return None
    if not is_error_object(kinds):
        return error_of_value((<Raw>obj).decode() if type(obj) is Raw else obj, obj)
    return error_of_parts(code, message, data, extra_of(obj, ERROR_MEMBERS) if rules.keeps_extra else None)


cdef inline bint is_object_or_array(value, bint array_allowed) except -1:
    cdef uint8_t first
    if isinstance(value, dict):
        return True
    if isinstance(value, list) or type(value) is tuple:
        return array_allowed
    if type(value) is not Raw:
        return False
    first = (<Raw>value).start[0]
    return first == c"{" or (first == c"[" and array_allowed)


cdef inline bint is_null(value):
    return value is None or (type(value) is Raw and (<Raw>value).start[0] == c"n")


cdef inline bint is_string_longer(text, Py_ssize_t limit) except -1:
    if PyUnicode_IS_ASCII(text):
        return PyUnicode_GET_LENGTH(text) > limit
    return is_longer(text, limit)


cdef inline bint is_id_too_long(id, Py_ssize_t limit) except -1:
    cdef int overflow = 0
    if isinstance(id, str):
        return is_string_longer(id, limit)
    if not isinstance(id, int):
        return False
    PyLong_AsLongLongAndOverflow(id, &overflow)
    return overflow != 0 and is_integer_longer(id, limit)
