"""Parse the payloads of statemap data: read any JSON, check all of it, and recognise the shapes.

`parse` is the law about what JSON is, and `classify` about which of four shapes a payload has.
"""

from libc.math cimport isfinite
from libc.stdint cimport INT64_MAX, UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memset

from meantime.kernels.intern cimport intern_text, intern_text_of
from meantime.kernels.json_text cimport (
    JSON_CUT,
    JSON_WANTS_COLON,
    JSON_WANTS_COMMA_IN_ARRAY,
    JSON_WANTS_COMMA_IN_OBJECT,
    JSON_WANTS_KEY,
    JSON_WANTS_KEY_OR_END,
    JSON_WANTS_RECORD,
    json_exact_double,
    json_fail,
    json_fault,
    json_is_digit,
    json_skip_blanks,
    json_string,
    json_unescape,
    json_unsigned,
    json_value,
)
from meantime.kernels.shapes cimport shape_add_step, shape_trie


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


cdef struct Parser:
    json_fault fault
    Token tokens[FIELDS]  # of the keys that mean something
    int strangers  # how many keys do not
    shape_trie shapes
    char *scratch  # for strings that had escapes
    size_t scratch_room
    size_t scratch_used


cdef double _number(const char *at, const char *end) noexcept with gil:
    """Convert any checked number, to the nearest double; infinite if it is out of range."""
    return float(at[:end - at])


cdef bint _to_value(const Token *token, double *value) noexcept nogil:
    if not json_exact_double(token.at, token.end, value):
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


cdef const char *_members(Parser *parser, const char *at, const char *end) noexcept nogil:
    """Check an object, at its brace, and note the tokens of the keys that mean something."""
    cdef json_fault *fault = &parser.fault
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
            parser.strangers += 1
        else:
            token.count = parser.tokens[field].count + 1
            parser.tokens[field] = token
            if token.kind != c'n':
                shape_add_step(
                    &parser.shapes, literal, token.at, _reads(field, &token), READ_NOTHING
                )
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
    shape_add_step(
        &parser.shapes, literal, json_skip_blanks(at, end), READ_END, READ_NOTHING
    )
    return at


cdef int _escaped_field(const char *at, size_t size) noexcept nogil:
    cdef char decoded[6 * 11]
    return _field(decoded, json_unescape(at, size, decoded))


cdef const char *_elements(Parser *parser, const char *at, const char *end) noexcept nogil:
    """Check an array, at its bracket: [time, entity, state, tag], or an event, or a description.

    The first statemap program takes these, as its JSON library reads any record from an array too.
    """
    cdef json_fault *fault = &parser.fault
    cdef Token tokens[4]
    cdef Token extra
    cdef int count = 0
    parser.shapes.step_count = -1
    at = json_skip_blanks(at + 1, end)
    if at >= end:
        return json_fail(fault, JSON_CUT, end)
    if at[0] == c']':
        parser.strangers = 1
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
        _place(parser, ENTITY, &tokens[0])
        _place(parser, DESCRIPTION, &tokens[1])
    elif count == 4:
        _place(parser, TIME, &tokens[0])
        _place(parser, ENTITY, &tokens[1])
        _place(parser, EVENT if tokens[2].kind == c'"' else STATE, &tokens[2])
        _place(parser, TARGET if tokens[2].kind == c'"' else TAG, &tokens[3])
    else:
        parser.strangers = 1
    return at + 1


cdef inline void _place(Parser *parser, int field, const Token *token) noexcept nogil:
    parser.tokens[field] = token[0]
    parser.tokens[field].count = 1


cdef const char *parse(Parser *parser, const char *at, const char *end) noexcept nogil:
    """Check any payload at its first byte; returns what follows, or NULL with `fault` set."""
    memset(parser.tokens, 0, sizeof(parser.tokens))
    parser.strangers = 0
    parser.shapes.step_count = 0
    parser.scratch_used = 0
    if at[0] == c'{':
        return _members(parser, at, end)
    if at[0] == c'[':
        return _elements(parser, at, end)
    return json_fail(&parser.fault, JSON_WANTS_RECORD, at)


cdef intern_text _text(Parser *parser, int field) noexcept nogil:
    """Return what the string means; one with escapes is decoded to where there is room for it."""
    cdef Token *token = &parser.tokens[field]
    cdef char *decoded
    cdef size_t size = token.end - token.at
    if not token.escaped:
        return intern_text_of(token.at, size)
    decoded = parser.scratch + parser.scratch_used
    size = json_unescape(token.at, size, decoded)
    parser.scratch_used += size
    return intern_text_of(decoded, size)


cdef bint _is_number(const Token *token) noexcept nogil:
    return token.count == 1 and (token.kind == c'-' or json_is_digit(token.kind))


cdef bint _is_text(const Token *token) noexcept nogil:
    return token.count == 1 and token.kind == c'"'


cdef bint _is_text_or_null(const Token *token) noexcept nogil:
    return token.count == 0 or token.count == 1 and (token.kind == c'"' or token.kind == c'n')


cdef bint _is_time(Parser *parser, uint64_t *time_ns) noexcept nogil:
    cdef Token *token = &parser.tokens[TIME]
    cdef intern_text text
    if _is_number(token):
        return json_unsigned(token.at, token.end, time_ns)
    if not _is_text(token):
        return False
    text = _text(parser, TIME)
    if text.size and text.at[0] == c'+':
        return json_unsigned(text.at + 1, text.at + text.size, time_ns)
    return json_unsigned(text.at, text.at + text.size, time_ns)


cdef bint _is_state(Parser *parser, uint32_t *state) noexcept nogil:
    cdef uint64_t number = 0
    cdef Token *token = &parser.tokens[STATE]
    if not _is_number(token) or not json_unsigned(token.at, token.end, &number):
        return False
    state[0] = <uint32_t> number
    return number <= UINT32_MAX


cdef void classify(Parser *parser, Record *record) noexcept nogil:
    """Say what the payload just parsed is: the first of four shapes that fits."""
    cdef Token *tokens = parser.tokens
    cdef int field
    cdef bint known = parser.strangers == 0
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
        timed = _is_time(parser, &record.time_ns)
        if (
            timed
            and tokens[DESCRIPTION].count + tokens[EVENT].count + tokens[TARGET].count == 0
            and (record.named or _is_state(parser, &record.state))
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
            record.event = _text(parser, EVENT)
        if record.shape != SHAPE_OTHER:
            record.entity = _text(parser, ENTITY)
            if record.targeted:
                record.target = _text(parser, TARGET)
    if record.shape == SHAPE_OTHER and record.tagged and _is_state(parser, &record.state):
        record.shape = SHAPE_DEFINITION
        record.twofold = tokens[TIME].count > 0 and tokens[ENTITY].count > 0
    if record.tagged:
        record.tag = _text(parser, TAG)
    if record.shape == SHAPE_CHANGE and record.named:
        record.state_name = _text(parser, STATE)


cdef bint make_room(Parser *parser, size_t size) noexcept nogil:
    """Make room for what the strings with escapes mean, at most `size` bytes; before `classify`."""
    cdef char *larger
    cdef int field
    for field in range(FIELDS):
        if parser.tokens[field].escaped and size > parser.scratch_room:
            larger = <char *> realloc(parser.scratch, size)
            if larger == NULL:
                return False
            parser.scratch = larger
            parser.scratch_room = size
    return True
