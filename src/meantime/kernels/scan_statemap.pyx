"""Statemap JSON to columns.

Two ways read a payload. `_parse` is the law: it takes any JSON, checks all of it, and says what the
payload is. Since a tracer prints every payload with one of a few formats, it also learns, as a trie
of the text between the values; `_match` walks that trie and reads most payloads without looking at
their structure again. Whatever does not fit, or would add a name, or is an error, goes to `_parse`.
"""

from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

import os

import numpy as np

cdef extern from "math.h" nogil:
    double NAN
    bint isfinite(double value)

cdef extern from "json_text.h" nogil:
    enum:
        JSON_AHEAD
        JSON_CUT
        JSON_WANTS_RECORD
        JSON_WANTS_KEY
        JSON_WANTS_KEY_OR_END
        JSON_WANTS_COLON
        JSON_WANTS_COMMA_IN_OBJECT
        JSON_WANTS_COMMA_IN_ARRAY
    ctypedef struct json_fault:
        const char *at
        int kind
    bint LIKELY(bint condition)
    bint UNLIKELY(bint condition)
    uint64_t json_load8(const char *at)
    int json_lowest_byte(uint64_t mask)
    uint64_t json_bytes_equal(uint64_t word, unsigned char byte)
    bint json_is_blank(char c)
    bint json_is_digit(char c)
    const char *json_skip_blanks(const char *at, const char *end)
    const char *json_fail(json_fault *fault, int kind, const char *at)
    const char *json_string(const char *at, const char *end, bint *escaped, json_fault *fault)
    size_t json_unescape(const char *at, size_t size, char *out)
    const char *json_value(const char *at, const char *end, int depth, json_fault *fault)
    const char *json_number(const char *at, const char *end, json_fault *fault)
    int json_digits_ahead(const char *at, uint64_t *number)
    uint64_t json_count_lines(const char *at, const char *end)
    const char *json_fault_text(int kind)

cdef extern from "intern.h" nogil:
    ctypedef struct intern_text:
        const char *at
        uint32_t size
        uint64_t first
        uint64_t second
    ctypedef struct intern_table:
        int32_t count
        uint64_t seed
        uint64_t *offsets
        uint32_t *contexts
        char *bytes
    intern_text intern_text_of(const char *at, size_t size)
    uint64_t intern_mix(uint64_t second, const char *at, size_t size)
    int32_t intern_find(const intern_table *table, const intern_text *text, uint32_t context)
    int32_t intern_add(intern_table *table, const intern_text *text, uint32_t context)
    bint intern_grow(intern_table *table)
    void intern_free(intern_table *table)


# What `scan` stops for. The .pyi gives these their documentation.
cpdef enum Stop:
    DRAINED = 0
    FULL
    CUT
    INVALID
    OTHER
    BAD_STATE
    BAD_ORDER
    BAD_TIME
    NEW_ENTITY
    NO_STATES
    NO_MEMORY

cdef enum:
    TIME
    ENTITY
    STATE
    TAG
    VALUE
    DESCRIPTION
    EVENT
    TARGET
    FIELDS

cdef enum:
    SHAPE_OTHER
    SHAPE_CHANGE
    SHAPE_POINT
    SHAPE_DESCRIPTION
    SHAPE_DEFINITION

# How the value after a literal is to be read.
cdef enum:
    READ_QUOTED_TIME
    READ_TIME
    READ_ENTITY
    READ_STATE
    READ_STATE_NAME
    READ_TAG
    READ_VALUE
    READ_EVENT
    READ_TARGET
    READ_NOTHING
    READ_END

cdef enum:
    LITERAL_BYTES = 32
    MAX_CHILDREN = 8
    MAX_NODES = 512
    MAX_STEPS = 24

cdef enum:
    DEFINITION_KIND
    DESCRIPTION_KIND

DEFINITION = <int> DEFINITION_KIND
_SEED = int.from_bytes(os.urandom(8), "little")


cdef struct Token:
    const char *at  # inside the quotes of a string
    const char *end
    char kind  # the first byte of the value
    bint escaped
    int count


cdef struct Record:
    int shape
    bint named  # whether the state was given by name
    bint tagged
    bint weighed
    bint targeted
    bint timed
    bint late  # whether the time is beyond 63 bits
    bint twofold
    uint64_t time_ns
    uint32_t state
    double value
    intern_text entity
    intern_text state_name
    intern_text tag
    intern_text event
    intern_text target


cdef struct Node:
    uint64_t literal[4]
    uint64_t mask[4]
    int size
    int reads
    int shape
    int children
    int child[MAX_CHILDREN]


cdef struct Step:
    const char *at
    int size
    int reads


cdef struct Note:
    int kind
    int32_t code
    int64_t start
    int64_t end


cdef struct Scan:
    # where it stopped
    const char *at
    const char *end
    json_fault fault
    intern_text asked
    # what holds for the whole trace
    int64_t until_ns
    uint32_t states
    bint any_state
    bint asks
    # tables
    intern_table entities
    intern_table tags
    intern_table events
    intern_table state_names
    int64_t *prior_ns
    bint *dropped
    int64_t prior_room
    # columns of the batch
    int64_t room
    int64_t rows
    int64_t *time_ns
    int32_t *entity
    int32_t *state
    int32_t *tag
    double *value
    bint weighed
    int64_t points
    int64_t *point_ns
    int32_t *point_entity
    int32_t *point_event
    int32_t *point_target
    Note *notes
    int64_t note_count
    int64_t note_room
    # totals
    int64_t last_ns
    int64_t records
    int64_t repeats
    int64_t untimed
    int64_t twofold
    # shapes learned
    Node *nodes
    int node_count
    Token tokens[FIELDS]
    int strangers
    Step steps[MAX_STEPS]
    int step_count
    char *scratch
    size_t scratch_room
    size_t scratch_used


cdef double _POWERS[23]
for _exponent in range(23):
    _POWERS[_exponent] = float(10**_exponent)


# ---- the shapes learned

cdef inline bint _literal_fits(const char *at, const Node *node) noexcept nogil:
    cdef uint64_t differs = (
        ((json_load8(at) ^ node.literal[0]) & node.mask[0])
        | ((json_load8(at + 8) ^ node.literal[1]) & node.mask[1])
    )
    if node.size > 16:
        differs |= (
            ((json_load8(at + 16) ^ node.literal[2]) & node.mask[2])
            | ((json_load8(at + 24) ^ node.literal[3]) & node.mask[3])
        )
    return differs == 0


cdef int _new_node(Scan *scan, int parent, const Step *step, int shape) noexcept nogil:
    """Add a node below `parent`, longer literals first: one may begin like another."""
    cdef Node *above = &scan.nodes[parent]
    cdef Node *node
    cdef char literal[LITERAL_BYTES]
    cdef char mask[LITERAL_BYTES]
    cdef int i, index = scan.node_count
    if above.children == MAX_CHILDREN or index == MAX_NODES:
        return -1
    node = &scan.nodes[index]
    memset(node, 0, sizeof(Node))
    memset(literal, 0, LITERAL_BYTES)
    memset(mask, 0, LITERAL_BYTES)
    memcpy(literal, step.at, step.size)
    memset(mask, 0xFF, step.size)
    for i in range(4):
        node.literal[i] = json_load8(literal + 8 * i)
        node.mask[i] = json_load8(mask + 8 * i)
    node.size = step.size
    node.reads = step.reads
    node.shape = shape
    i = above.children
    while i and scan.nodes[above.child[i - 1]].size < step.size:
        above.child[i] = above.child[i - 1]
        i -= 1
    above.child[i] = index
    above.children += 1
    scan.node_count += 1
    return index


cdef void _learn(Scan *scan, int shape) noexcept nogil:
    cdef int i, j, found, parent = 0
    cdef Node *node
    cdef char start[LITERAL_BYTES]
    cdef Step *step
    for i in range(scan.step_count):
        step = &scan.steps[i]
        found = -1
        for j in range(scan.nodes[parent].children):
            node = &scan.nodes[scan.nodes[parent].child[j]]
            memset(start, 0, LITERAL_BYTES)
            memcpy(start, step.at, step.size)
            if node.size == step.size and node.reads == step.reads and node.shape == shape:
                if _literal_fits(start, node):
                    found = scan.nodes[parent].child[j]
                    break
        if found < 0:
            found = _new_node(scan, parent, step, shape)
            if found < 0:
                return
        parent = found


cdef inline void _add_step(Scan *scan, const char *at, const char *end, int reads) noexcept nogil:
    """Note the literal [at, end) and what is read after it; too long ones become several."""
    cdef Step *step
    while True:
        if scan.step_count < 0 or scan.step_count == MAX_STEPS or at == end:
            scan.step_count = -1  # not to be learned
            return
        step = &scan.steps[scan.step_count]
        scan.step_count += 1
        step.at = at
        if end - at <= LITERAL_BYTES:
            step.size = <int>(end - at)
            step.reads = reads
            return
        step.size = LITERAL_BYTES
        step.reads = READ_NOTHING
        at += LITERAL_BYTES


cdef inline const char *_text_ahead(
    const char *at, const char *end, intern_text *text
) noexcept nogil:
    """Read a string without escapes up to its closing quote; NULL if it is not so easy."""
    cdef uint64_t first, second, quote, escape
    cdef int size
    cdef const char *start = at
    text.at = at
    first = json_load8(at)
    quote = json_bytes_equal(first, c'"')
    escape = json_bytes_equal(first, c'\\')
    if quote:
        if escape & (quote ^ (quote - 1)):
            return NULL
        size = json_lowest_byte(quote)
        text.size = size
        text.first = first & ((<uint64_t> 1 << (8 * size)) - 1)
        text.second = 0
        return at + size
    if escape:
        return NULL
    second = json_load8(at + 8)
    quote = json_bytes_equal(second, c'"')
    escape = json_bytes_equal(second, c'\\')
    text.first = first
    if quote:
        if escape & (quote ^ (quote - 1)):
            return NULL
        size = json_lowest_byte(quote)
        text.size = 8 + size
        text.second = second & ((<uint64_t> 1 << (8 * size)) - 1)
        return at + 8 + size
    at += 8
    while escape == 0:
        at += 8
        if at + 8 > end:
            return NULL
        first = json_load8(at)
        quote = json_bytes_equal(first, c'"')
        escape = json_bytes_equal(first, c'\\')
        if quote:
            if escape & (quote ^ (quote - 1)):
                return NULL
            at += json_lowest_byte(quote)
            text.size = <uint32_t> (at - start)
            text.second = second
            if text.size > 16:
                text.second = intern_mix(second, start + 16, text.size - 16)
            return at
    return NULL


cdef inline const char *_match(
    Scan *scan, const char *at, const char *end, Record *record
) noexcept nogil:
    """Read a payload of a known shape at its first byte; NULL if it has none."""
    cdef const char *safe = end - JSON_AHEAD
    cdef Node *nodes = scan.nodes
    cdef Node *node = nodes
    cdef Node *child
    cdef json_fault fault
    cdef const char *start
    cdef int i, count, reads
    cdef uint32_t state
    record.tagged = False
    record.weighed = False
    record.targeted = False
    record.named = False
    while True:
        if UNLIKELY(at > safe):
            return NULL
        i = 0
        child = NULL
        while i < node.children:
            child = &nodes[node.child[i]]
            if _literal_fits(at, child):
                break
            i += 1
        if UNLIKELY(i == node.children):
            return NULL
        node = child
        at += node.size
        reads = node.reads
        if reads == READ_ENTITY:
            at = _text_ahead(at, end, &record.entity)
            if UNLIKELY(at == NULL):
                return NULL
        elif reads == READ_TAG:
            at = _text_ahead(at, end, &record.tag)
            if UNLIKELY(at == NULL):
                return NULL
            record.tagged = True
        elif reads == READ_END:
            record.shape = node.shape
            return at
        elif reads == READ_STATE:
            state = <uint32_t> (at[0] - 48)
            if UNLIKELY(state > 9):
                return NULL
            at += 1
            if json_is_digit(at[0]):
                if UNLIKELY(state == 0):
                    return NULL
                count = 1
                while json_is_digit(at[0]):
                    state = state * 10 + (at[0] - 48)
                    at += 1
                    count += 1
                    if UNLIKELY(count > 9):
                        return NULL
            record.state = state
        elif reads == READ_QUOTED_TIME or reads == READ_TIME:
            count = json_digits_ahead(at, &record.time_ns)
            if UNLIKELY(count == 0 or count > 19 or record.time_ns >= <uint64_t> INT64_MAX):
                return NULL
            if reads == READ_TIME and at[0] == c'0' and count > 1:
                return NULL
            at += count
        elif reads == READ_EVENT:
            at = _text_ahead(at, end, &record.event)
            if UNLIKELY(at == NULL):
                return NULL
        elif reads == READ_TARGET:
            at = _text_ahead(at, end, &record.target)
            if UNLIKELY(at == NULL):
                return NULL
            record.targeted = True
        elif reads == READ_STATE_NAME:
            at = _text_ahead(at, end, &record.state_name)
            if UNLIKELY(at == NULL):
                return NULL
            record.named = True
        elif reads == READ_VALUE:
            start = at
            at = json_number(start, end, &fault)
            if UNLIKELY(at == NULL or not _plain_number(start, at, &record.value)):
                return NULL
            record.weighed = True


# ---- any payload

cdef bint _plain_number(const char *at, const char *end, double *value) noexcept nogil:
    """Convert a checked number whose digits and power of ten a double holds exactly."""
    cdef uint64_t digits = 0
    cdef int shift = 0
    cdef int exponent = 0
    cdef bint negative = at[0] == c'-', down = False, fraction = False
    if negative:
        at += 1
    while at < end and at[0] | 0x20 != c'e':
        if at[0] == c'.':
            fraction = True
        else:
            digits = digits * 10 + <uint64_t> (at[0] - 48)
            shift -= fraction
            if digits > <uint64_t> 1 << 53:
                return False
        at += 1
    if at < end:
        at += 1
        down = at[0] == c'-'
        if at[0] == c'-' or at[0] == c'+':
            at += 1
        while at < end:
            exponent = exponent * 10 + (at[0] - 48)
            if exponent > 1000:
                return False
            at += 1
        shift += -exponent if down else exponent
    if shift < -22 or shift > 22:
        return False
    value[0] = <double> digits
    if shift < 0:
        value[0] /= _POWERS[-shift]
    else:
        value[0] *= _POWERS[shift]
    if negative:
        value[0] = -value[0]
    return True


cdef double _number(const char *at, const char *end) noexcept with gil:
    """Convert any checked number, to the nearest double; infinite if it is out of range."""
    return float(at[:end - at])


cdef bint _to_value(const Token *token, double *value) noexcept nogil:
    if not _plain_number(token.at, token.end, value):
        value[0] = _number(token.at, token.end)
    return isfinite(value[0])


cdef int _field(const char *at, size_t size) noexcept nogil:
    if size == 4 and memcmp(at, b"time", 4) == 0:
        return TIME
    if size == 6 and memcmp(at, b"entity", 6) == 0:
        return ENTITY
    if size == 5 and memcmp(at, b"state", 5) == 0:
        return STATE
    if size == 3 and memcmp(at, b"tag", 3) == 0:
        return TAG
    if size == 5 and memcmp(at, b"value", 5) == 0:
        return VALUE
    if size == 11 and memcmp(at, b"description", 11) == 0:
        return DESCRIPTION
    if size == 5 and memcmp(at, b"event", 5) == 0:
        return EVENT
    if size == 6 and memcmp(at, b"target", 6) == 0:
        return TARGET
    return FIELDS


cdef const char *_token(
    const char *at, const char *end, Token *token, json_fault *fault
) noexcept nogil:
    """Check the value at its first byte and note what it is; returns what follows."""
    token.kind = at[0]
    token.at = at
    token.escaped = False
    if at[0] == c'"':
        token.at = at + 1
        token.end = json_string(at + 1, end, &token.escaped, fault)
        return token.end + 1 if token.end != NULL else NULL
    token.end = json_value(at, end, 1, fault)
    return token.end


cdef int _reads(int field, const Token *token) noexcept nogil:
    if field == TIME:
        return READ_QUOTED_TIME if token.kind == c'"' else READ_TIME
    if field == STATE:
        return READ_STATE_NAME if token.kind == c'"' else READ_STATE
    if field == ENTITY:
        return READ_ENTITY
    if field == TAG:
        return READ_TAG
    if field == VALUE:
        return READ_VALUE
    if field == EVENT:
        return READ_EVENT
    return READ_TARGET


cdef const char *_members(Scan *scan, const char *at, const char *end) noexcept nogil:
    """Check an object, at its brace, and note the tokens of the keys that mean something."""
    cdef json_fault *fault = &scan.fault
    cdef const char *literal = at
    cdef const char *key
    cdef const char *close
    cdef bint escaped
    cdef int field
    cdef Token token
    at = json_skip_blanks(at + 1, end)
    if at >= end:
        return json_fail(fault, JSON_CUT, end)
    if at[0] == c'}':
        return at + 1
    if at[0] != c'"':
        return json_fail(fault, JSON_WANTS_KEY_OR_END, at)
    while True:
        if at[0] != c'"':
            return json_fail(fault, JSON_WANTS_KEY, at)
        key = at + 1
        close = json_string(key, end, &escaped, fault)
        if close == NULL:
            return NULL
        if not escaped:
            field = _field(key, close - key)
        elif close - key <= 6 * 11:  # no longer text can mean one of the known keys
            field = _escaped_field(key, close - key)
        else:
            field = FIELDS
        at = json_skip_blanks(close + 1, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
        if at[0] != c':':
            return json_fail(fault, JSON_WANTS_COLON, at)
        at = json_skip_blanks(at + 1, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
        at = _token(at, end, &token, fault)
        if at == NULL:
            return NULL
        if field == FIELDS:
            scan.strangers += 1
        else:
            token.count = scan.tokens[field].count + 1
            scan.tokens[field] = token
            if token.kind != c'n':
                _add_step(scan, literal, token.at, _reads(field, &token))
                literal = token.end
        at = json_skip_blanks(at, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
        if at[0] == c'}':
            break
        if at[0] != c',':
            return json_fail(fault, JSON_WANTS_COMMA_IN_OBJECT, at)
        at = json_skip_blanks(at + 1, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
    at += 1
    key = at
    while key < end and json_is_blank(key[0]):
        key += 1
    _add_step(scan, literal, key, READ_END)
    return at


cdef int _escaped_field(const char *at, size_t size) noexcept nogil:
    cdef char decoded[6 * 11]
    return _field(decoded, json_unescape(at, size, decoded))


cdef const char *_elements(Scan *scan, const char *at, const char *end) noexcept nogil:
    """Check an array, at its bracket: [time, entity, state, tag], or an event, or a description.

    The first statemap program takes these, as its JSON library reads any record from an array too.
    """
    cdef json_fault *fault = &scan.fault
    cdef Token tokens[4]
    cdef Token extra
    cdef int count = 0
    scan.step_count = -1
    at = json_skip_blanks(at + 1, end)
    if at >= end:
        return json_fail(fault, JSON_CUT, end)
    if at[0] == c']':
        scan.strangers = 1
        return at + 1
    while True:
        at = _token(at, end, &tokens[count] if count < 4 else &extra, fault)
        if at == NULL:
            return NULL
        count += 1 if count < 5 else 0
        at = json_skip_blanks(at, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
        if at[0] == c']':
            break
        if at[0] != c',':
            return json_fail(fault, JSON_WANTS_COMMA_IN_ARRAY, at)
        at = json_skip_blanks(at + 1, end)
        if at >= end:
            return json_fail(fault, JSON_CUT, end)
    if count == 2:
        _place(scan, ENTITY, &tokens[0])
        _place(scan, DESCRIPTION, &tokens[1])
    elif count == 4:
        _place(scan, TIME, &tokens[0])
        _place(scan, ENTITY, &tokens[1])
        _place(scan, EVENT if tokens[2].kind == c'"' else STATE, &tokens[2])
        _place(scan, TARGET if tokens[2].kind == c'"' else TAG, &tokens[3])
    else:
        scan.strangers = 1
    return at + 1


cdef inline void _place(Scan *scan, int field, const Token *token) noexcept nogil:
    scan.tokens[field] = token[0]
    scan.tokens[field].count = 1


cdef const char *_parse(Scan *scan, const char *at, const char *end) noexcept nogil:
    """Check any payload at its first byte; returns what follows, or NULL with `fault` set."""
    memset(scan.tokens, 0, sizeof(scan.tokens))
    scan.strangers = 0
    scan.step_count = 0
    scan.scratch_used = 0
    if at[0] == c'{':
        return _members(scan, at, end)
    if at[0] == c'[':
        return _elements(scan, at, end)
    return json_fail(&scan.fault, JSON_WANTS_RECORD, at)


# ---- what a payload is

cdef bint _reserve_scratch(Scan *scan, size_t size) noexcept nogil:
    cdef char *larger
    if size > scan.scratch_room:
        larger = <char *> realloc(scan.scratch, size)
        if larger == NULL:
            return False
        scan.scratch = larger
        scan.scratch_room = size
    return True


cdef intern_text _text(Scan *scan, int field) noexcept nogil:
    """Return what the string means; one with escapes is decoded to where there is room for it."""
    cdef Token *token = &scan.tokens[field]
    cdef char *decoded
    cdef size_t size = token.end - token.at
    if not token.escaped:
        return intern_text_of(token.at, size)
    decoded = scan.scratch + scan.scratch_used
    size = json_unescape(token.at, size, decoded)
    scan.scratch_used += size
    return intern_text_of(decoded, size)


cdef bint _unsigned(const char *at, const char *end, uint64_t *number) noexcept nogil:
    """Read decimal digits and nothing else, up to 64 bits."""
    cdef uint64_t digit
    if at == end:
        return False
    number[0] = 0
    while at < end:
        if not json_is_digit(at[0]):
            return False
        digit = <uint64_t> (at[0] - 48)
        if number[0] > (UINT64_MAX - digit) // 10:
            return False
        number[0] = number[0] * 10 + digit
        at += 1
    return True


cdef bint _is_number(const Token *token) noexcept nogil:
    return token.count == 1 and (token.kind == c'-' or json_is_digit(token.kind))


cdef bint _is_text(const Token *token) noexcept nogil:
    return token.count == 1 and token.kind == c'"'


cdef bint _is_text_or_null(const Token *token) noexcept nogil:
    return token.count == 0 or token.count == 1 and (token.kind == c'"' or token.kind == c'n')


cdef bint _is_time(Scan *scan, uint64_t *time_ns) noexcept nogil:
    cdef Token *token = &scan.tokens[TIME]
    cdef intern_text text
    if _is_number(token):
        return _unsigned(token.at, token.end, time_ns)
    if not _is_text(token):
        return False
    text = _text(scan, TIME)
    if text.size and text.at[0] == c'+':
        return _unsigned(text.at + 1, text.at + text.size, time_ns)
    return _unsigned(text.at, text.at + text.size, time_ns)


cdef bint _is_state(Scan *scan, uint32_t *state) noexcept nogil:
    cdef uint64_t number = 0
    cdef Token *token = &scan.tokens[STATE]
    if not _is_number(token) or not _unsigned(token.at, token.end, &number):
        return False
    state[0] = <uint32_t> number
    return number <= UINT32_MAX


cdef void _classify(Scan *scan, Record *record) noexcept nogil:
    """Say what the payload just parsed is: the first of four shapes that fits."""
    cdef Token *tokens = scan.tokens
    cdef int field
    cdef bint known = scan.strangers == 0
    cdef bint timed
    record.shape = SHAPE_OTHER
    record.tagged = _is_text(&tokens[TAG])
    record.targeted = _is_text(&tokens[TARGET])
    record.named = _is_text(&tokens[STATE])
    record.weighed = _is_number(&tokens[VALUE])
    record.twofold = False
    for field in range(FIELDS):
        if tokens[field].count > 1:
            known = False
    if known and _is_text(&tokens[ENTITY]):
        timed = _is_time(scan, &record.time_ns)
        if (
            timed
            and tokens[DESCRIPTION].count + tokens[EVENT].count + tokens[TARGET].count == 0
            and (record.named or _is_state(scan, &record.state))
            and _is_text_or_null(&tokens[TAG])
            and (
                tokens[VALUE].count == 0
                or tokens[VALUE].kind == c'n'
                or record.weighed and _to_value(&tokens[VALUE], &record.value)
            )
        ):
            record.shape = SHAPE_CHANGE
        elif (
            _is_text(&tokens[DESCRIPTION])
            and tokens[TIME].count + tokens[STATE].count + tokens[TAG].count == 0
            and tokens[VALUE].count + tokens[EVENT].count + tokens[TARGET].count == 0
        ):
            record.shape = SHAPE_DESCRIPTION
        elif (
            (timed or _is_text(&tokens[TIME]))
            and _is_text(&tokens[EVENT])
            and _is_text_or_null(&tokens[TARGET])
            and tokens[STATE].count + tokens[TAG].count == 0
            and tokens[VALUE].count + tokens[DESCRIPTION].count == 0
        ):
            record.shape = SHAPE_POINT
            record.timed = timed and record.time_ns < <uint64_t> INT64_MAX
            record.event = _text(scan, EVENT)
        if record.shape != SHAPE_OTHER:
            record.entity = _text(scan, ENTITY)
            if record.targeted:
                record.target = _text(scan, TARGET)
    if record.shape == SHAPE_OTHER and record.tagged and _is_state(scan, &record.state):
        record.shape = SHAPE_DEFINITION
        record.twofold = tokens[TIME].count > 0 and tokens[ENTITY].count > 0
    if record.tagged:
        record.tag = _text(scan, TAG)
    if record.shape == SHAPE_CHANGE and record.named:
        record.state_name = _text(scan, STATE)


cdef bint _has_escapes(const Scan *scan) noexcept nogil:
    cdef int field
    for field in range(FIELDS):
        if scan.tokens[field].escaped:
            return True
    return False


# ---- what a payload does

cdef bint _grow_entities(Scan *scan) noexcept nogil:
    cdef int64_t room = scan.prior_room * 2 if scan.prior_room else 256
    cdef int64_t *prior_ns = <int64_t *> realloc(scan.prior_ns, room * sizeof(int64_t))
    cdef bint *dropped
    if prior_ns == NULL:
        return False
    scan.prior_ns = prior_ns
    dropped = <bint *> realloc(scan.dropped, room * sizeof(bint))
    if dropped == NULL:
        return False
    scan.dropped = dropped
    scan.prior_room = room
    return True


cdef int32_t _add_entity(Scan *scan, const intern_text *text, bint dropped) noexcept nogil:
    """Return the new entity's code, or -1 if there is no memory."""
    cdef int32_t code
    if scan.entities.count == scan.prior_room and not _grow_entities(scan):
        return -1
    code = intern_add(&scan.entities, text, 0)
    if code >= 0:
        # No time is above a dropped entity's, so its data take the way of the unusual ones.
        scan.prior_ns[code] = INT64_MAX if dropped else -1
        scan.dropped[code] = dropped
    return code


cdef int _entity(Scan *scan, const intern_text *text, int32_t *code) noexcept nogil:
    """Find or add an entity; gives -1 for one that is not kept."""
    code[0] = intern_find(&scan.entities, text, 0)
    if code[0] < 0:
        if scan.asks:
            scan.asked = text[0]
            return NEW_ENTITY
        code[0] = _add_entity(scan, text, False)
        if code[0] < 0:
            return NO_MEMORY
    elif scan.dropped[code[0]]:
        code[0] = -1
    return DRAINED


cdef int32_t _find_or_add(
    intern_table *table, const intern_text *text, uint32_t context
) noexcept nogil:
    cdef int32_t code = intern_find(table, text, context)
    return code if code >= 0 else intern_add(table, text, context)


cdef inline void _put_value(Scan *scan, const Record *record) noexcept nogil:
    cdef int64_t row
    if not scan.weighed:
        if not record.weighed:
            return
        scan.weighed = True
        for row in range(scan.rows):
            scan.value[row] = NAN
    scan.value[scan.rows] = record.value if record.weighed else NAN


cdef inline void _put_change(
    Scan *scan, const Record *record, int32_t entity, int32_t tag
) noexcept nogil:
    scan.time_ns[scan.rows] = <int64_t> record.time_ns
    scan.entity[scan.rows] = entity
    scan.state[scan.rows] = <int32_t> record.state
    scan.tag[scan.rows] = tag
    if UNLIKELY(scan.weighed or record.weighed):
        _put_value(scan, record)
    scan.rows += 1


cdef int _change(Scan *scan, Record *record) noexcept nogil:
    cdef int32_t entity, state, tag = -1
    cdef int64_t time_ns = <int64_t> record.time_ns
    cdef int stop
    if record.time_ns >= <uint64_t> INT64_MAX:
        return BAD_TIME
    if time_ns > scan.until_ns:
        scan.last_ns = time_ns
        return DRAINED
    entity = intern_find(&scan.entities, &record.entity, 0)
    if entity >= 0 and scan.dropped[entity]:
        scan.last_ns = time_ns
        return DRAINED
    scan.asked = record.entity
    if not scan.any_state:
        if scan.states == 0:
            return NO_STATES
        if record.named:
            state = intern_find(&scan.state_names, &record.state_name, 0)
            if state < 0:
                return BAD_STATE
            record.state = <uint32_t> state
        elif record.state >= scan.states:
            return BAD_STATE
    elif record.named:
        record.state = 0
    if entity < 0:
        stop = _entity(scan, &record.entity, &entity)
        if stop:
            return stop
    elif time_ns < scan.prior_ns[entity]:
        return BAD_ORDER
    if record.tagged:
        tag = _find_or_add(&scan.tags, &record.tag, record.state)
        if tag < 0:
            return NO_MEMORY
    scan.repeats += time_ns == scan.prior_ns[entity]
    scan.prior_ns[entity] = time_ns
    scan.last_ns = time_ns
    _put_change(scan, record, entity, tag)
    return DRAINED


cdef int _point(Scan *scan, const Record *record) noexcept nogil:
    cdef int32_t entity, event, target = -1
    cdef int stop
    if not record.timed:
        scan.untimed += 1
        return DRAINED
    if <int64_t> record.time_ns > scan.until_ns:
        return DRAINED
    if scan.states == 0:  # events are named after the states
        return NO_STATES
    stop = _entity(scan, &record.entity, &entity)
    if stop or entity < 0:
        return stop
    if record.targeted:
        stop = _entity(scan, &record.target, &target)
        if stop:
            return stop
    event = _find_or_add(&scan.events, &record.event, 0)
    if event < 0:
        return NO_MEMORY
    scan.point_ns[scan.points] = <int64_t> record.time_ns
    scan.point_entity[scan.points] = entity
    scan.point_event[scan.points] = event
    scan.point_target[scan.points] = target
    scan.points += 1
    return DRAINED


cdef int _note(Scan *scan, int kind, int32_t code, int64_t start, int64_t end) noexcept nogil:
    cdef int64_t room
    cdef Note *notes
    if scan.note_count == scan.note_room:
        room = scan.note_room * 2 + 64
        notes = <Note *> realloc(scan.notes, room * sizeof(Note))
        if notes == NULL:
            return NO_MEMORY
        scan.notes = notes
        scan.note_room = room
    scan.notes[scan.note_count] = Note(kind, code, start, end)
    scan.note_count += 1
    return DRAINED


cdef int _commit(Scan *scan, Record *record, int64_t start, int64_t end) noexcept nogil:
    """Do what a payload that was parsed says; [start, end) is where it stands."""
    cdef int32_t code
    cdef int stop
    if record.shape == SHAPE_CHANGE:
        return _change(scan, record)
    if record.shape == SHAPE_POINT:
        return _point(scan, record)
    if record.shape == SHAPE_DESCRIPTION:
        stop = _entity(scan, &record.entity, &code)
        if stop or code < 0:
            return stop
        return _note(scan, DESCRIPTION_KIND, code, start, end)
    if record.shape == SHAPE_DEFINITION:
        scan.twofold += record.twofold
        code = _find_or_add(&scan.tags, &record.tag, record.state)
        if code < 0:
            return NO_MEMORY
        return _note(scan, DEFINITION_KIND, code, start, end)
    return OTHER


cdef inline bint _commit_usual(Scan *scan, Record *record) noexcept nogil:
    """Do what a payload that was matched says, if that is a change without anything new in it."""
    cdef int64_t time_ns = <int64_t> record.time_ns
    cdef int64_t prior_ns
    cdef int32_t entity, state, tag = -1
    if UNLIKELY(record.shape != SHAPE_CHANGE):
        return _point_usual(scan, record)
    if UNLIKELY(time_ns > scan.until_ns):
        scan.last_ns = time_ns
        return True
    if UNLIKELY(record.named):
        state = intern_find(&scan.state_names, &record.state_name, 0)
        if state < 0:
            return False
        record.state = <uint32_t> state
    elif UNLIKELY(record.state >= scan.states):
        return False
    entity = intern_find(&scan.entities, &record.entity, 0)
    if UNLIKELY(entity < 0):
        return False
    prior_ns = scan.prior_ns[entity]
    if UNLIKELY(time_ns <= prior_ns):
        if scan.dropped[entity]:
            scan.last_ns = time_ns
            return True
        if time_ns < prior_ns:
            return False
    if record.tagged:
        tag = intern_find(&scan.tags, &record.tag, record.state)
        if UNLIKELY(tag < 0):
            return False
    scan.repeats += time_ns == prior_ns
    scan.prior_ns[entity] = time_ns
    scan.last_ns = time_ns
    _put_change(scan, record, entity, tag)
    return True


cdef bint _point_usual(Scan *scan, Record *record) noexcept nogil:
    if intern_find(&scan.entities, &record.entity, 0) < 0:
        return False
    if record.targeted and intern_find(&scan.entities, &record.target, 0) < 0:
        return False
    if intern_find(&scan.events, &record.event, 0) < 0:
        return False
    record.timed = True
    return _point(scan, record) == DRAINED


cdef int _scan(
    Scan *scan, const char *base, const char *at, const char *end
) noexcept nogil:
    """Read payloads from [at, end); stops at the first byte of what it could not do."""
    cdef Record record
    cdef const char *next
    cdef int stop
    memset(&record, 0, sizeof(record))
    while True:
        scan.at = at
        if scan.rows == scan.room or scan.points == scan.room:
            return FULL
        next = _match(scan, at, end, &record)
        if LIKELY(next != NULL) and LIKELY(_commit_usual(scan, &record)):
            scan.records += 1
            at = next
            continue
        at = json_skip_blanks(at, end)
        scan.at = at
        if at >= end:
            return DRAINED
        next = _parse(scan, at, end)
        if next == NULL:
            return CUT if scan.fault.kind == JSON_CUT else INVALID
        if _has_escapes(scan) and not _reserve_scratch(scan, next - at):
            return NO_MEMORY
        _classify(scan, &record)
        stop = _commit(scan, &record, at - base, next - base)
        if stop:
            scan.end = next
            return stop
        scan.records += 1
        if scan.step_count > 0 and (
            record.shape == SHAPE_CHANGE or record.shape == SHAPE_POINT
        ):
            _learn(scan, record.shape)
        at = json_skip_blanks(next, end)


cdef class Scanner:
    """Reads statemap payloads from blocks of bytes; keeps the names, and a batch of columns."""

    cdef Scan scan_
    cdef readonly int64_t start
    cdef readonly int64_t end
    cdef object _changes
    cdef object _points

    def __cinit__(self, *, room, until_ns=None, asks=False):
        memset(&self.scan_, 0, sizeof(Scan))
        self.scan_.nodes = <Node *> malloc(MAX_NODES * sizeof(Node))
        if self.scan_.nodes == NULL:
            raise MemoryError
        memset(&self.scan_.nodes[0], 0, sizeof(Node))
        self.scan_.node_count = 1
        _start(&self.scan_.entities)
        _start(&self.scan_.tags)
        _start(&self.scan_.events)
        _start(&self.scan_.state_names)
        self.scan_.until_ns = INT64_MAX if until_ns is None else min(until_ns, INT64_MAX)
        self.scan_.asks = asks
        self.scan_.last_ns = -1
        self.scan_.room = room
        self._new_changes()
        self._new_points()

    def __dealloc__(self):
        intern_free(&self.scan_.entities)
        intern_free(&self.scan_.tags)
        intern_free(&self.scan_.events)
        intern_free(&self.scan_.state_names)
        free(self.scan_.nodes)
        free(self.scan_.prior_ns)
        free(self.scan_.dropped)
        free(self.scan_.notes)
        free(self.scan_.scratch)

    def _new_changes(self):
        room = self.scan_.room
        self._changes = (
            np.empty(room, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.float64),
        )
        self.scan_.time_ns = <int64_t *> _address(self._changes[0])
        self.scan_.entity = <int32_t *> _address(self._changes[1])
        self.scan_.state = <int32_t *> _address(self._changes[2])
        self.scan_.tag = <int32_t *> _address(self._changes[3])
        self.scan_.value = <double *> _address(self._changes[4])
        self.scan_.rows = 0
        self.scan_.weighed = False

    def _new_points(self):
        room = self.scan_.room
        self._points = (
            np.empty(room, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
        )
        self.scan_.point_ns = <int64_t *> _address(self._points[0])
        self.scan_.point_entity = <int32_t *> _address(self._points[1])
        self.scan_.point_event = <int32_t *> _address(self._points[2])
        self.scan_.point_target = <int32_t *> _address(self._points[3])
        self.scan_.points = 0

    def define_states(self, names):
        self.scan_.any_state = names is None
        self.scan_.states = UINT32_MAX if names is None else len(names)
        for name in names or ():
            text = name.encode()
            key = intern_text_of(text, len(text))
            if intern_add(&self.scan_.state_names, &key, 0) < 0:
                raise MemoryError

    def admit(self, *, bint keep):
        if _add_entity(&self.scan_, &self.scan_.asked, not keep) < 0:
            raise MemoryError

    def scan(self, const uint8_t[::1] block, int64_t start, int64_t end):
        cdef const char *base = <const char *> &block[0]
        cdef int stop
        assert 0 <= start <= end <= block.shape[0]
        with nogil:
            stop = _scan(&self.scan_, base, base + start, base + end)
        if stop == NO_MEMORY:
            raise MemoryError
        self.start = self.scan_.at - base
        self.end = self.scan_.end - base
        if stop == INVALID:
            self.end = self.scan_.fault.at - base
        return stop

    def take_changes(self):
        rows = self.scan_.rows
        columns = [column[:rows] for column in self._changes]
        if not self.scan_.weighed:
            columns[4] = None
        self._new_changes()
        return tuple(columns)

    def take_points(self):
        points = self.scan_.points
        columns = tuple(column[:points] for column in self._points)
        self._new_points()
        return columns

    def take_notes(self):
        notes = [
            (note.kind, note.code, note.start, note.end)
            for note in self.scan_.notes[: self.scan_.note_count]
        ]
        self.scan_.note_count = 0
        return notes

    @property
    def fault(self):
        return json_fault_text(self.scan_.fault.kind).decode()

    @property
    def asked(self):
        return self.scan_.asked.at[: self.scan_.asked.size].decode()

    @property
    def rows(self):
        return self.scan_.rows

    @property
    def points(self):
        return self.scan_.points

    @property
    def last_ns(self):
        return self.scan_.last_ns if self.scan_.last_ns >= 0 else None

    @property
    def records(self):
        return self.scan_.records

    @property
    def repeats(self):
        return self.scan_.repeats

    @property
    def untimed(self):
        return self.scan_.untimed

    @property
    def twofold(self):
        return self.scan_.twofold

    def prior_ns(self, entity):
        text = entity.encode()
        key = intern_text_of(text, len(text))
        code = intern_find(&self.scan_.entities, &key, 0)
        return self.scan_.prior_ns[code] if code >= 0 else None

    def beyond(self):
        """The entities, by code, whose last datum is after the last one of the input, and its time."""
        cdef int32_t code
        return {
            code: self.scan_.prior_ns[code]
            for code in range(self.scan_.entities.count)
            if self.scan_.prior_ns[code] > self.scan_.last_ns and not self.scan_.dropped[code]
        }

    def entities(self, int first):
        names = _strings(&self.scan_.entities, first)
        return [(name, not self.scan_.dropped[first + i]) for i, name in enumerate(names)]

    def tags(self, int first):
        names = _strings(&self.scan_.tags, first)
        return [(self.scan_.tags.contexts[first + i], name) for i, name in enumerate(names)]

    def events(self, int first):
        return _strings(&self.scan_.events, first)


cdef char *_address(column):
    cdef uint8_t[::1] bytes_ = column.view(np.uint8)
    return <char *> &bytes_[0]


cdef list _strings(const intern_table *table, int first):
    cdef uint64_t *offsets = table.offsets
    return [
        table.bytes[offsets[code] : offsets[code + 1]].decode()
        for code in range(first, table.count)
    ]


cdef int _start(intern_table *table) except -1:
    table.seed = _SEED
    if not intern_grow(table):
        raise MemoryError
    return 0


def count_lines(const uint8_t[::1] block, int64_t start, int64_t end):
    """Return how many lines end in the bytes [start, end) of a block."""
    assert 0 <= start <= end <= block.shape[0]
    if start == end:
        return 0
    cdef const char *base = <const char *> &block[0]
    cdef uint64_t lines
    with nogil:
        lines = json_count_lines(base + start, base + end)
    return lines
