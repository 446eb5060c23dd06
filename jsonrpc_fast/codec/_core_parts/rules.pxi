"""The rules, in the order of `_pure._check_message`, which gives the reasons."""


@cython.final
@cython.auto_pickle(False)
cdef class Rules:
    """A profile in C types."""

    cdef object profile  # kept alive, so that no other profile gets its address
    cdef bint null_request_ids
    cdef bint null_result_ids
    cdef bint float_ids
    cdef bint errors_without_id
    cdef bint optional_jsonrpc
    cdef bint empty_methods
    cdef bint array_params
    cdef bint null_params
    cdef bint null_companions
    cdef bint object_results
    cdef bint batches
    cdef bint extra_members
    cdef bint keeps_extra
    cdef bint ignores_extra
    cdef bint big_ints_as_float
    cdef bint big_ints_exact
    cdef Py_ssize_t message_bytes
    cdef Py_ssize_t depth
    cdef Py_ssize_t batch_items
    cdef Py_ssize_t method_bytes
    cdef Py_ssize_t id_bytes

    def __init__(self, profile):
        limits = profile.limits
        self.profile = profile
        self.null_request_ids = profile.null_request_ids
        self.null_result_ids = profile.null_result_ids
        self.float_ids = profile.float_ids
        self.errors_without_id = profile.errors_without_id
        self.optional_jsonrpc = profile.optional_jsonrpc
        self.empty_methods = profile.empty_methods
        self.array_params = profile.array_params
        self.null_params = profile.null_params
        self.null_companions = profile.null_companions
        self.object_results = profile.object_results
        self.batches = profile.batches
        self.extra_members = bool(profile.extra_members)
        self.keeps_extra = profile.extra_members == "keep"
        self.ignores_extra = self.extra_members and not self.keeps_extra
        self.big_ints_as_float = profile.big_ints == "float"
        self.big_ints_exact = profile.big_ints == "exact"
        self.message_bytes = limits.message_bytes
        self.depth = limits.depth
        self.batch_items = limits.batch_items
        self.method_bytes = limits.method_bytes
        self.id_bytes = limits.id_bytes


cdef enum:
    RULE_PLACES = 32


cdef struct RulePlace:
    PyObject* profile  # NULL: the place is free
    PyObject* rules  # owned; owns the profile


cdef RulePlace[RULE_PLACES] rule_places  # the profiles in use, by their address
cdef dict known_rules = {}  # all profiles, by their address


cdef inline Rules rules_of(profile):
    cdef size_t address = <size_t><PyObject*>profile
    cdef RulePlace* place = &rule_places[(address >> 4 ^ address >> 9) % RULE_PLACES]
    if place.profile == <PyObject*>profile:
        return <Rules>place.rules
    return find_rules(profile, place)


cdef Rules find_rules(profile, RulePlace* place):
    cdef PyObject* old
    found = known_rules.get(<size_t><PyObject*>profile)
    if found is None:
        if not issubclass(type(profile), Profile):
            raise TypeError(f"profile must be a Profile, not {type(profile).__name__}")
        found = Rules(profile)
        if len(known_rules) >= 64:
            known_rules.clear()
        known_rules[<size_t><PyObject*>profile] = found
    old = place.rules
    place.profile = <PyObject*>profile
    place.rules = held(found)
    if old != NULL:
        drop(old)
    return <Rules>found


def parse(obj, profile=JSONRPC):
    """Validate a message or a batch that is decoded from JSON already.

    What only the text shows is not checked: duplicate members, the size and the depth.

    Args:
        obj: a dict, or a list of them.
        profile: the rules.

    Returns:
        What `decode` returns.

    Raises:
        TypeError: `profile` is not a Profile.
    """
    cdef Rules rules = rules_of(profile)
    cdef Py_ssize_t index
    cdef list messages
    if not isinstance(obj, list):
        return check_dict(obj, rules, None)
    fault = batch_fault(len(<list>obj), rules)
    if fault is not None:
        return fault
    messages = []
    for index, item in enumerate(<list>obj):
        messages.append(check_dict(item, rules, index))
    return messages


cdef object batch_fault(Py_ssize_t items, Rules rules):
    if not rules.batches:
        return make_fault(BATCH_NOT_ALLOWED)
    if items > rules.batch_items:
        return make_fault(BATCH_TOO_LARGE)
    return None if items else make_fault(EMPTY_BATCH)


cdef inline object member_of(dict obj, name):
    cdef PyObject* value = PyDict_GetItemWithError(obj, name)
    return ABSENT if value == NULL else <object>value


cdef inline bint is_version(text) noexcept:
    """Whether an exact str is "2.0"."""
    return (
        PyUnicode_IS_ASCII(text) and PyUnicode_GET_LENGTH(text) == 3 and memcmp(PyUnicode_DATA(text), b"2.0", 3) == 0
    )


cdef object check_call_fast(dict members, Rules rules):
    """Fast path: the call in a dict with the standard members only; None for any other dict.

    Each member is owned: the `__eq__` of a key, or the garbage collector in any allocation, may run code that clears the
    dict.
    """
    cdef int overflow = 0
    jsonrpc = member_of(members, "jsonrpc")
    method = member_of(members, "method")
    if not PyUnicode_CheckExact(jsonrpc) or not is_version(jsonrpc):
        return None
    if not PyUnicode_CheckExact(method) or not PyUnicode_IS_ASCII(method):
        return None
    if not 0 < PyUnicode_GET_LENGTH(method) <= rules.method_bytes:
        return None
    id = params = ABSENT
    if PyDict_Size(members) > 2:
        id = member_of(members, "id")
        # With no other member left, there is no params to look for.
        if PyDict_Size(members) > 2 + (id is not ABSENT):
            params = member_of(members, "params")
    if PyDict_Size(members) != 2 + (id is not ABSENT) + (params is not ABSENT):
        return None
    if params is ABSENT:
        params = None
    elif not is_object_or_array(params, rules.array_params):
        return None
    if id is ABSENT:
        return make_notification(method, params)
    if PyLong_CheckExact(id):
        PyLong_AsLongLongAndOverflow(id, &overflow)
        if overflow:
            return None
    elif not PyUnicode_CheckExact(id) or not PyUnicode_IS_ASCII(id):
        return None
    elif PyUnicode_GET_LENGTH(id) > rules.id_bytes:
        return None
    return make_request(id, method, params)


cdef object check_dict(obj, Rules rules, index):
    cdef bint unexpected = False
    cdef dict members
    if not isinstance(obj, dict):
        return make_fault(NOT_AN_OBJECT, None, None, index)
    members = <dict>obj
    if rules.extra_members:
        message = check_call_fast(members, rules)
        if message is not None:
            return message
    jsonrpc = member_of(members, "jsonrpc")
    id = member_of(members, "id")
    method = member_of(members, "method")
    params = member_of(members, "params")
    result = member_of(members, "result")
    error = member_of(members, "error")
    extra = None
    if not rules.extra_members:
        unexpected = len(members) > (
            (jsonrpc is not ABSENT)
            + (id is not ABSENT)
            + (method is not ABSENT)
            + (params is not ABSENT)
            + (result is not ABSENT)
            + (error is not ABSENT)
        )
    elif rules.keeps_extra:
        extra = extra_of(members, ENVELOPE_MEMBERS)
    return check_message(
        rules, index, jsonrpc, id, method, params, result, error, extra, unexpected, False, False, False
    )


cdef object check_dict_or_none(obj, Rules rules):
    """As `check_dict`; None if the comparison of a key raises."""
    try:
        return check_dict(obj, rules, None)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        return None


cdef object check_message(
    Rules rules,
    index,
    jsonrpc,
    id,
    method,
    params,
    result,
    error,
    extra,
    bint unexpected,
    bint too_deep,
    bint integer_too_large,
    bint duplicates,
):
    """The message with these members, or its fault. Each member may be ABSENT."""
    broken = None
    if too_deep:
        broken = TOO_DEEP
    elif isinstance(method, str) and is_string_longer(method, rules.method_bytes):
        broken = METHOD_TOO_LONG
    elif is_id_too_long(id, rules.id_bytes):
        broken = ID_TOO_LONG
    elif integer_too_large:
        broken = INTEGER_TOO_LARGE
    elif duplicates:
        broken = DUPLICATE_MEMBER
    elif jsonrpc is ABSENT and not rules.optional_jsonrpc:
        broken = MISSING_JSONRPC
    elif jsonrpc is not VERSION and jsonrpc is not ABSENT and not (isinstance(jsonrpc, str) and jsonrpc == VERSION):
        broken = INVALID_JSONRPC_VERSION
    elif method is ABSENT:
        message = check_response(rules, id, params, result, error, extra, unexpected)
        if type(message) is Response:
            return message
        broken = message
    elif id is not ABSENT and not is_valid_id(id, rules.null_request_ids, rules):
        broken = INVALID_ID_TYPE
    elif result is not ABSENT or error is not ABSENT:
        broken = AMBIGUOUS_MESSAGE
    elif not isinstance(method, str):
        broken = INVALID_METHOD_TYPE
    elif not rules.empty_methods and not method:
        broken = EMPTY_METHOD
    else:
        if params is ABSENT or (rules.null_params and is_null(params)):
            params = None
        elif not is_object_or_array(params, rules.array_params):
            broken = INVALID_PARAMS_TYPE
        if broken is None:
            if unexpected and not rules.extra_members:
                broken = UNEXPECTED_MEMBER
            elif id is ABSENT or (id is None and jsonrpc is ABSENT):
                return make_notification(method, with_extra(params, extra))
            else:
                return make_request(id, method, with_extra(params, extra))

    id, reply_expected = known_of(rules, id, method, result is not ABSENT or error is not ABSENT, duplicates)
    return make_fault(<Rule?>broken, id, None, index, reply_expected)


cdef tuple known_of(Rules rules, id, method, bint looks_like_response, bint duplicates):
    """The id of an invalid message, if it is certain, and whether its sender expects a reply."""
    looks_like_notification = id is ABSENT and isinstance(method, str)
    if duplicates or is_id_too_long(id, rules.id_bytes) or not is_valid_id(id, False, rules):
        id = None
    return id, not (looks_like_response or looks_like_notification)


cdef object check_response(Rules rules, id, params, result, error, extra, bint unexpected):
    """The response with these members, or the rule that it breaks."""
    cdef bint is_response
    cdef bint is_error
    if rules.null_companions and result is not ABSENT and error is not ABSENT:
        if is_null(error):
            error = ABSENT
        elif is_null(result):
            result = ABSENT
    is_response = result is not ABSENT or error is not ABSENT
    is_error = error is not ABSENT and result is ABSENT

    if id is ABSENT:
        if is_response and not (is_error and rules.errors_without_id):
            return MISSING_ID
        id = None
    elif not is_valid_id(
        id, (is_error or rules.null_result_ids) if is_response else rules.null_request_ids, rules
    ):
        return INVALID_ID_TYPE
    if not is_response:
        return MISSING_METHOD
    if result is not ABSENT and error is not ABSENT:
        return RESULT_AND_ERROR
    if is_error:
        if not rules.extra_members and isinstance(error, dict) and not ERROR_MEMBERS.issuperset(error):
            unexpected = True
        error = check_error_object(error, rules)
        if type(error) is not Error:
            return error
        result = None
    else:
        if rules.object_results and not is_object_or_array(result, False):
            return INVALID_RESULT_TYPE
        error = None
    if not rules.extra_members and (unexpected or params is not ABSENT):
        return UNEXPECTED_MEMBER
    if rules.keeps_extra and params is not ABSENT:
        extra = {**(extra or {}), "params": (<Raw>params).decode() if type(params) is Raw else params}
    return make_response(id, with_extra(result, extra), error)


cdef object check_error_object(obj, Rules rules):
    """The Error in an object, or the rule that it breaks."""
    cdef Error error
    cdef int overflow = 0
    if not isinstance(obj, dict):
        return INVALID_ERROR_TYPE
    code = member_of(<dict>obj, "code")
    if PyLong_CheckExact(code):
        PyLong_AsLongLongAndOverflow(code, &overflow)
    if (overflow or not PyLong_CheckExact(code)) and not is_error_code(code):
        return INVALID_ERROR_CODE
    message = member_of(<dict>obj, "message")
    if not isinstance(message, str):
        return INVALID_ERROR_MESSAGE
    data = member_of(<dict>obj, "data")
    if data is ABSENT:
        data = UNSET
    return make_error(
        code if PyLong_CheckExact(code) else int.__int__(code),
        message,
        with_extra(data, extra_of(obj, ERROR_MEMBERS)) if rules.keeps_extra else data,
    )


cdef inline bint is_object_or_array(value, bint array_allowed) except -1:
    cdef uint8_t first
    if isinstance(value, dict):
        return True
    if isinstance(value, list):
        return array_allowed
    if type(value) is not Raw:
        return False
    first = (<Raw>value).start[0]
    return first == c"{" or (first == c"[" and array_allowed)


cdef inline bint is_null(value):
    return value is None or (type(value) is Raw and (<Raw>value).start[0] == c"n")


cdef inline bint is_valid_id(id, bint null_allowed, Rules rules) except -1:
    if isinstance(id, str):
        return PyUnicode_IS_ASCII(id) or not has_surrogates(id)
    if isinstance(id, int):
        return not isinstance(id, bool)
    if isinstance(id, float):
        return rules.float_ids and isfinite(<double>id)
    return id is None and null_allowed


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
