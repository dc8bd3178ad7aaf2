"""Statemap JSON to columns.

Payloads are read in two ways. `parse` is the reference: it accepts any JSON and checks all of it.
Since a tracer prints its payloads with one of a few formats, those are learned; `_match` reads a
payload that has one of them without looking at its structure again. A payload that fits no format,
has a new name, or is wrong, goes to `parse`.
"""

from libc.math cimport NAN
from libc.stdint cimport INT64_MAX, UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

import os

import numpy as np

from meantime.kernels.intern cimport (
    intern_add,
    intern_find,
    intern_free,
    intern_grow,
    intern_table,
    intern_text,
    intern_text_ahead,
    intern_text_of,
)
from meantime.kernels.json_text cimport (
    JSON_AHEAD,
    JSON_CUT,
    LIKELY,
    UNLIKELY,
    json_count_lines,
    json_digit_count,
    json_eight_digits,
    json_exact_double,
    json_fault,
    json_fault_text,
    json_load8,
    json_number,
    json_skip_blanks,
    json_small_ahead,
    json_string,
    json_time_ahead,
)
from meantime.kernels.shapes cimport (
    shape_guess,
    shape_guess_fits,
    shape_guess_learn,
    shape_learn,
    shape_next,
    shape_node,
)

include "statemap_payload.pxi"


cpdef enum Stop:
    """Why `Scanner.scan` returned."""
    DRAINED = 0  # the block was read
    FULL  # the columns are full
    CUT  # the block ends inside a payload
    INVALID  # not JSON
    OTHER  # JSON, but not a payload that the scanner reads
    BAD_STATE
    BAD_ORDER
    BAD_TIME
    NEW_ENTITY  # call `admit` for this entity first
    NO_STATES  # call `define_states` first
    RANGE_BEGINS  # call `release` first: the payload is the first in the range
    NO_MEMORY


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)


cdef enum:
    LAST_EIGHT = 100_000_000  # what the last eight digits of a number can be
    MAX_USED = 4  # batches whose columns may be reused
    DEFINITION_NOTE = 0
    DESCRIPTION_NOTE

DEFINITION = <int> DEFINITION_NOTE
_SEED = int.from_bytes(os.urandom(8), "little")


cdef struct Note:
    int kind
    int32_t code
    int64_t start
    int64_t end


cdef struct Change:
    int64_t time_ns
    int32_t state
    int32_t tag


cdef struct Now:
    # The latest changes of an entity, with a range: outside of it, a change waits here for the next
    # one, and only the last one becomes a row.
    Change latest
    Change before  # the one before, if the latest waits
    Change put  # the last row
    int64_t left_before  # how many states before the range, and after it, are in no row
    int64_t left_after
    bint known
    bint waits
    bint has_put


cdef struct Scan:
    const char *at  # where it stopped, and the end of the payload there
    const char *end
    Parser parser
    intern_text asked
    # of the whole trace
    int64_t until_ns
    int64_t from_ns  # the range
    int64_t to_ns
    bint ranged
    bint begun  # a payload in the range was read
    uint32_t states
    bint any_state
    bint asks
    # names, and columns by entity
    intern_table entities
    intern_table tags
    intern_table events
    intern_table state_names
    int64_t *prior_ns
    bint *dropped
    Now *now
    int64_t prior_room
    # how the last change was written: up to its entity, and from there on
    shape_guess beginning
    shape_guess ending
    uint64_t begin_ns  # its time, but for the last eight digits
    const shape_node *begin_node  # what follows its entity is below this one
    bint takes_late  # whether data of an entity may be out of order
    int64_t late
    int64_t most_late_ns
    int64_t replaced  # how many states of no length became no row
    int32_t released  # the entities whose waiting changes became rows
    # the batch
    int64_t room
    int64_t full  # with this many rows a payload might not fit any more
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
    int64_t untimed
    int64_t twofold


cdef inline const char *_match(
    Scan *scan, const char *at, const char *end, Record *record
) noexcept nogil:
    """Read a payload in a layout that occurred before; NULL if it has none."""
    cdef const shape_node *node = scan.parser.shapes.nodes
    cdef json_fault fault
    cdef const char *start
    cdef int reads
    record.tagged = False
    record.weighed = False
    record.targeted = False
    record.named = False
    while True:
        # A node and what follows it read ahead without a check; near the end of the block, `parse`
        # reads instead.
        if UNLIKELY(end - at < JSON_AHEAD):
            return NULL
        node = shape_next(node, at)
        if UNLIKELY(node == NULL):
            return NULL
        at += node.size
        reads = node.reads
        if reads == READ_ENTITY:
            at = intern_text_ahead(at, end, &record.entity)
        elif reads == READ_TAG:
            at = intern_text_ahead(at, end, &record.tag)
            record.tagged = True
        elif reads == READ_END:
            record.shape = node.meaning
            return at
        elif reads == READ_STATE:
            at = json_small_ahead(at, &record.state)
        elif reads == READ_QUOTED_TIME or reads == READ_TIME:
            at = json_time_ahead(at, reads == READ_QUOTED_TIME, &record.time_ns)
        elif reads == READ_EVENT:
            at = intern_text_ahead(at, end, &record.event)
        elif reads == READ_TARGET:
            at = intern_text_ahead(at, end, &record.target)
            record.targeted = True
        elif reads == READ_STATE_NAME:
            at = intern_text_ahead(at, end, &record.state_name)
            record.named = True
        elif reads == READ_VALUE:
            start = at
            at = json_number(start, end, &fault)
            if UNLIKELY(at == NULL or not json_exact_double(start, at, &record.value)):
                return NULL
            record.weighed = True
        if UNLIKELY(at == NULL):
            return NULL


cdef bint _grow_entities(Scan *scan) noexcept nogil:
    cdef int64_t room = scan.prior_room * 2 if scan.prior_room else 256
    cdef int64_t *prior_ns = <int64_t *> realloc(scan.prior_ns, room * sizeof(int64_t))
    cdef bint *dropped
    cdef Now *now
    if prior_ns == NULL:
        return False
    scan.prior_ns = prior_ns
    dropped = <bint *> realloc(scan.dropped, room * sizeof(bint))
    if dropped == NULL:
        return False
    scan.dropped = dropped
    if scan.ranged:
        now = <Now *> realloc(scan.now, room * sizeof(Now))
        if now == NULL:
            return False
        scan.now = now
    scan.prior_room = room
    return True


cdef int32_t _add_entity(Scan *scan, const intern_text *text, bint dropped) noexcept nogil:
    """Return the new entity's code, or -1 if there is no memory."""
    cdef int32_t code
    if scan.entities.count == scan.prior_room and not _grow_entities(scan):
        return -1
    code = intern_add(&scan.entities, text, 0)
    if code >= 0:
        # No time exceeds that of a dropped entity, so one comparison on the fast path finds both
        # dropped entities and times that descend.
        scan.prior_ns[code] = INT64_MAX if dropped else -1
        scan.dropped[code] = dropped
        if scan.ranged:
            memset(&scan.now[code], 0, sizeof(Now))
    return code


cdef int _entity(Scan *scan, const intern_text *text, int32_t *code) noexcept nogil:
    """Find or add an entity; -1 for one that is not kept."""
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


cdef void _put_value(Scan *scan, double value) noexcept nogil:
    cdef int64_t row
    if not scan.weighed:
        scan.weighed = True
        for row in range(scan.rows):
            scan.value[row] = NAN
    scan.value[scan.rows] = value


cdef inline void _put_change(
    Scan *scan, Change change, int32_t entity, double value
) noexcept nogil:
    scan.time_ns[scan.rows] = change.time_ns
    scan.entity[scan.rows] = entity
    scan.state[scan.rows] = change.state
    scan.tag[scan.rows] = change.tag
    if UNLIKELY(scan.weighed or value == value):
        _put_value(scan, value)
    scan.rows += 1


cdef inline bint _is_same(const Change *change, const Change *other) noexcept nogil:
    return change.state == other.state and change.tag == other.tag


cdef void _release(Scan *scan, int32_t entity) noexcept nogil:
    """Make a row of the change that waits."""
    cdef Now *now = &scan.now[entity]
    if now.has_put and _is_same(&now.put, &now.latest):
        # A history would take this row for a repetition: the change between is a row too.
        _put_change(scan, now.before, entity, NAN)
        if now.before.time_ns == now.latest.time_ns:
            scan.replaced -= 1
        elif now.before.time_ns < scan.from_ns:
            now.left_before -= 1
        else:
            now.left_after -= 1
    _put_change(scan, now.latest, entity, NAN)
    now.put = now.latest
    now.has_put = True
    now.waits = False


cdef void _put_in_range(Scan *scan, Change change, int32_t entity, double value) noexcept nogil:
    """Put a change, unless no state that overlaps the range begins or ends with it."""
    cdef bint weighed = value == value
    cdef Now *now = &scan.now[entity]
    # as in a history, in which equal states are one, and the last change of a time replaces others
    cdef bint same = now.known and _is_same(&now.latest, &change)
    cdef bint waits = False
    if same and not weighed:
        return
    if now.waits and change.time_ns == now.latest.time_ns and not weighed:
        now.before = now.latest
        now.latest = change
        scan.replaced += 1
        return
    # numbers are attributes of their own, so all rows that have one are put
    if not weighed:
        if change.time_ns < scan.from_ns:
            waits = not now.known or change.time_ns > now.latest.time_ns
            if now.waits:
                now.left_before += 1
                now.before = now.latest
                now.waits = False
        elif change.time_ns >= scan.to_ns and now.known and now.latest.time_ns >= scan.to_ns:
            # the first change after the range is a row: it ends the state in the range
            waits = change.time_ns > now.latest.time_ns
            if now.waits:
                now.left_after += 1
                now.before = now.latest
                now.waits = False
    if now.waits:
        _release(scan, entity)
    if not same:
        now.latest = change
        now.known = True
    if waits:
        now.waits = True
    else:
        _put_change(scan, change, entity, value)
        now.put = now.latest
        now.has_put = True


cdef inline void _put(Scan *scan, Change change, int32_t entity, double value) noexcept nogil:
    """Add a change; `value` is NAN if it has none."""
    if UNLIKELY(scan.ranged):
        _put_in_range(scan, change, entity, value)
    else:
        _put_change(scan, change, entity, value)


cdef inline bint _begins(const Scan *scan, int64_t time_ns) noexcept nogil:
    """Whether the changes that wait have to be put before one of this time."""
    # They become rows together, since rows in order of time cost a history least.
    return scan.ranged and not scan.begun and time_ns >= scan.from_ns


cdef int _change(Scan *scan, Record *record) noexcept nogil:
    cdef Change change
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
        if not scan.takes_late:
            return BAD_ORDER
        scan.late += 1
        scan.most_late_ns = max(scan.most_late_ns, scan.prior_ns[entity] - time_ns)
    if _begins(scan, time_ns):
        return RANGE_BEGINS
    if record.tagged:
        tag = _find_or_add(&scan.tags, &record.tag, record.state)
        if tag < 0:
            return NO_MEMORY
    if time_ns >= scan.prior_ns[entity]:
        scan.prior_ns[entity] = scan.last_ns = time_ns
    change = Change(<int64_t> record.time_ns, <int32_t> record.state, tag)
    _put(scan, change, entity, record.value if record.weighed else NAN)
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
    """Apply a parsed payload, which is at [start, end)."""
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
        return _note(scan, DESCRIPTION_NOTE, code, start, end)
    if record.shape == SHAPE_DEFINITION:
        scan.twofold += record.twofold
        code = _find_or_add(&scan.tags, &record.tag, record.state)
        if code < 0:
            return NO_MEMORY
        return _note(scan, DEFINITION_NOTE, code, start, end)
    return OTHER


cdef bint _is_string(const intern_text *text) noexcept nogil:
    """Check the text of a new string: known ones were checked before."""
    cdef bint escaped
    cdef json_fault fault
    cdef const char *end = text.at + text.size
    return json_string(text.at, end + 1, &escaped, &fault) == end


cdef bint _ignore(Scan *scan, const Record *record) noexcept nogil:
    """Skip a change that is left out, after checking that it is JSON."""
    if (
        not _is_string(&record.entity)
        or record.tagged and not _is_string(&record.tag)
        or record.named and not _is_string(&record.state_name)
    ):
        return False
    scan.last_ns = <int64_t> record.time_ns
    return True


cdef inline bint _commit_usual(Scan *scan, Record *record) noexcept nogil:
    """Apply a matched payload if all its names are known; otherwise change nothing.

    Names that are known were checked when they were new, so this does not check them again.
    """
    cdef int64_t time_ns = <int64_t> record.time_ns
    cdef int64_t prior_ns
    cdef int32_t entity, state, tag = -1
    cdef Change change
    if UNLIKELY(record.shape != SHAPE_CHANGE):
        return _point_usual(scan, record)
    if UNLIKELY(time_ns > scan.until_ns):
        return _ignore(scan, record)
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
            return _ignore(scan, record)
        if time_ns < prior_ns:
            return False
    if UNLIKELY(_begins(scan, time_ns)):
        return False
    if record.tagged:
        tag = intern_find(&scan.tags, &record.tag, record.state)
        if UNLIKELY(tag < 0):
            return False
    scan.prior_ns[entity] = time_ns
    scan.last_ns = time_ns
    change = Change(<int64_t> record.time_ns, <int32_t> record.state, tag)
    _put(scan, change, entity, record.value if record.weighed else NAN)
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


cdef inline void _expect_like(
    Scan *scan, const char *at, const char *digits, const char *digits_end, const char *entity,
    uint64_t time_ns, const shape_node *node
) noexcept nogil:
    """Expect changes written like this one up to the entity, but for the time's last eight digits."""
    shape_guess_learn(&scan.beginning, at, digits_end - 8, 8, entity)
    scan.begin_ns = time_ns - time_ns % LAST_EIGHT
    scan.begin_node = node


cdef const char *_usual_changes(Scan *scan, const char *at, const char *end) noexcept nogil:
    """Read changes with a time, an entity, a state and maybe a tag in this order, all known names.

    Returns where the first payload is that is another, or has to be looked at again. What is here
    could also be left to `_match`, which takes three times as long.
    """
    cdef const shape_node *root = scan.parser.shapes.nodes
    cdef const shape_node *node
    cdef const char *after
    cdef const char *digits
    cdef const char *literal
    cdef intern_text text
    cdef uint64_t time_ns, word
    cdef uint32_t state
    cdef int32_t entity, tag
    cdef bint guessed
    # copies, which the compiler can keep in registers
    cdef int64_t rows = scan.rows, last_ns = scan.last_ns
    cdef int64_t records = 0
    cdef int64_t full = scan.full, until_ns = scan.until_ns
    cdef int64_t *prior_ns = scan.prior_ns
    cdef bint ranged = scan.ranged or scan.weighed
    # Up to the tag at most 128 bytes are looked at, but for a long name; and so after it.
    while end - at >= 2 * JSON_AHEAD and rows < full:
        guessed = shape_guess_fits(&scan.beginning, at)
        if LIKELY(guessed):
            word = json_load8(at + scan.beginning.digits)
            guessed = json_digit_count(word) == 8
            time_ns = scan.begin_ns + json_eight_digits(word)
            node = scan.begin_node
            after = at + scan.beginning.size
        if UNLIKELY(not guessed):
            node = shape_next(root, at)
            if UNLIKELY(node == NULL or node.reads > READ_TIME):
                break
            digits = at + node.size
            literal = json_time_ahead(digits, node.reads == READ_QUOTED_TIME, &time_ns)
            if UNLIKELY(literal == NULL):
                break
            node = shape_next(node, literal)
            if UNLIKELY(node == NULL or node.reads != READ_ENTITY):
                break
            after = literal + node.size
            # an ending of another format could make a payload of what is none
            scan.beginning.size = scan.ending.size = 0
            # not in sparse data, whose times begin with other digits, nor where a time can be too large
            if (
                literal - digits > 8
                and <int64_t> time_ns - last_ns < LAST_EIGHT
                and time_ns < INT64_MAX - LAST_EIGHT
            ):
                _expect_like(scan, at, digits, literal, after, time_ns, node)
        if UNLIKELY(<int64_t> time_ns > until_ns):
            break
        after = intern_text_ahead(after, end, &text)
        if UNLIKELY(after == NULL or end - after < 2 * JSON_AHEAD):
            break
        entity = intern_find(&scan.entities, &text, 0)
        # the time of a dropped entity is greater than any
        if UNLIKELY(entity < 0 or <int64_t> time_ns < prior_ns[entity]):
            break
        tag = -1
        if LIKELY(shape_guess_fits(&scan.ending, after)):
            state = <uint32_t> (after[scan.ending.digits] - c'0')
            after += scan.ending.size
            if UNLIKELY(state > 9 or state >= scan.states):
                break
        else:
            literal = after
            node = shape_next(node, literal)
            if UNLIKELY(node == NULL or node.reads != READ_STATE):
                break
            digits = literal + node.size
            after = json_small_ahead(digits, &state)
            if UNLIKELY(after == NULL or state >= scan.states):
                break
            node = shape_next(node, after)
            if UNLIKELY(node == NULL):
                break
            after += node.size
            if node.reads == READ_TAG:
                after = intern_text_ahead(after, end, &text)
                if UNLIKELY(after == NULL or end - after < JSON_AHEAD):
                    break
                tag = intern_find(&scan.tags, &text, state)
                node = shape_next(node, after)
                if UNLIKELY(tag < 0 or node == NULL):
                    break
                after += node.size
            if UNLIKELY(node.reads != READ_END):
                break
            if scan.beginning.size and tag < 0 and state <= 9:
                shape_guess_learn(&scan.ending, literal, digits, 1, after)
        if UNLIKELY(ranged):
            if _begins(scan, <int64_t> time_ns):
                break
            scan.rows = rows
            _put(scan, Change(<int64_t> time_ns, <int32_t> state, tag), entity, NAN)
            rows = scan.rows
        else:
            scan.time_ns[rows] = <int64_t> time_ns
            scan.entity[rows] = entity
            scan.state[rows] = <int32_t> state
            scan.tag[rows] = tag
            rows += 1
        last_ns = prior_ns[entity] = <int64_t> time_ns
        records += 1
        at = after
    scan.rows = rows
    scan.last_ns = last_ns
    scan.records += records
    return at


cdef int _scan(
    Scan *scan, const char *base, const char *at, const char *end
) noexcept nogil:
    """Read payloads from [at, end); stop at the first one that it cannot handle."""
    cdef Record record
    cdef const char *next
    cdef int stop
    memset(&record, 0, sizeof(record))
    while True:
        at = _usual_changes(scan, at, end)
        scan.at = at
        if scan.rows >= scan.full or scan.points == scan.room:
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
        next = parse(&scan.parser, at, end)
        if next == NULL:
            return CUT if scan.parser.fault.kind == JSON_CUT else INVALID
        if not make_room(&scan.parser, next - at):
            return NO_MEMORY
        classify(&scan.parser, &record)
        stop = _commit(scan, &record, at - base, next - base)
        if stop:
            scan.end = next
            return stop
        scan.records += 1
        if record.shape == SHAPE_CHANGE or record.shape == SHAPE_POINT:
            shape_learn(&scan.parser.shapes, record.shape)
        at = json_skip_blanks(next, end)


cdef class Scanner:
    """Reads statemap payloads from blocks of bytes; keeps the names, and a batch of columns.

    Args:
        room: How many changes, and how many points, a batch has room for.
        until_ns: Data and events after this time are left out, unchecked.
        asks: Whether to stop at each new entity until `admit` is called.
        late: Whether data may be out of order; their rows are, too. Not together with a range.
        range_ns: Of changes outside this range, only those become rows that begin or end a state
            in it, and the last one of each entity; `left_out` counts the others.

    Attributes:
        start: Where the last `scan` stopped: the first byte of a payload, or the block's end.
        end: Where that payload ends or, if it is not JSON, where that shows.
    """

    cdef Scan scan_
    cdef readonly int64_t start
    cdef readonly int64_t end
    cdef tuple _changes
    cdef tuple _points
    cdef list _used

    def __cinit__(
        self, *, room: int, until_ns: int | None = None, asks: bool = False, late: bool = False,
        range_ns: tuple[int, int] | None = None
    ):
        memset(&self.scan_, 0, sizeof(Scan))
        self.scan_.parser.shapes.count = 1
        _begin(&self.scan_.entities)
        _begin(&self.scan_.tags)
        _begin(&self.scan_.events)
        _begin(&self.scan_.state_names)
        self.scan_.until_ns = INT64_MAX if until_ns is None else max(-1, min(until_ns, INT64_MAX))
        self.scan_.asks = asks
        self.scan_.takes_late = late
        assert not (late and range_ns)
        self.scan_.ranged = range_ns is not None
        if range_ns is not None:
            self.scan_.from_ns, self.scan_.to_ns = range_ns
        self.scan_.room = room
        assert room > 2 * self.scan_.ranged
        # a change in the range, and those that waited before it, are three rows
        self.scan_.full = room - 2 * self.scan_.ranged
        self.scan_.last_ns = -1
        self._used = []
        self._new_changes()
        self._new_points()

    def __dealloc__(self):
        intern_free(&self.scan_.entities)
        intern_free(&self.scan_.tags)
        intern_free(&self.scan_.events)
        intern_free(&self.scan_.state_names)
        free(self.scan_.parser.scratch)
        free(self.scan_.prior_ns)
        free(self.scan_.dropped)
        free(self.scan_.now)
        free(self.scan_.notes)

    cdef int _new_changes(self) except -1:
        self._changes = _columns(self._used, self.scan_.room, CHANGE_COLUMNS)
        self.scan_.time_ns = <int64_t *> _address(self._changes[0])
        self.scan_.entity = <int32_t *> _address(self._changes[1])
        self.scan_.state = <int32_t *> _address(self._changes[2])
        self.scan_.tag = <int32_t *> _address(self._changes[3])
        self.scan_.value = <double *> _address(self._changes[4])
        self.scan_.rows = 0
        self.scan_.weighed = False
        return 0

    cdef int _new_points(self) except -1:
        self._points = _columns([], self.scan_.room, POINT_COLUMNS)
        self.scan_.point_ns = <int64_t *> _address(self._points[0])
        self.scan_.point_entity = <int32_t *> _address(self._points[1])
        self.scan_.point_event = <int32_t *> _address(self._points[2])
        self.scan_.point_target = <int32_t *> _address(self._points[3])
        self.scan_.points = 0
        return 0

    def define_states(self, names: list[str] | None):
        """Set the names of states in order of their values; None accepts any state."""
        self.scan_.any_state = names is None
        self.scan_.states = UINT32_MAX if names is None else len(names)
        for name in names or ():
            text = name.encode()
            key = intern_text_of(text, len(text))
            if intern_add(&self.scan_.state_names, &key, 0) < 0:
                raise MemoryError

    def admit(self, *, bint keep):
        """Decide whether the data of the entity named by `asked` are read or left out."""
        if _add_entity(&self.scan_, &self.scan_.asked, not keep) < 0:
            raise MemoryError

    def scan(
        self, const uint8_t[::1] block: bytes | bytearray | memoryview, int64_t start, int64_t end
    ) -> int:
        """Read the payloads in [start, end) of a block as far as possible; return a `Stop`.

        After any but `DRAINED`, scanning can continue at `start`, or at `end` to skip a payload.
        Strings become Python objects only when their names are requested.
        """
        cdef const char *base = <const char *> &block[0]
        cdef int stop
        assert 0 <= start <= end <= block.shape[0]
        with nogil:
            stop = _scan(&self.scan_, base, base + start, base + end)
        if stop == NO_MEMORY:
            raise MemoryError
        self.start = self.scan_.at - base
        self.end = (self.scan_.parser.fault.at if stop == INVALID else self.scan_.end) - base
        return stop

    def release(self) -> bool:
        """Make rows of the changes that wait; return False if the batch has to be taken first.

        Needed after `RANGE_BEGINS`, and after the last `scan`.
        """
        cdef Scan *scan = &self.scan_
        while scan.ranged and scan.released < scan.entities.count:
            if scan.rows >= scan.full:
                return False
            if scan.now[scan.released].waits:
                _release(scan, scan.released)
            scan.released += 1
        scan.released = 0
        scan.begun = True
        return True

    def left_out(self) -> dict[int, tuple[int, int]]:
        """Return, by entity, how many states before the range and after it became no row."""
        cdef int32_t code
        cdef Now *now = self.scan_.now
        if not self.scan_.ranged:
            return {}
        return {
            code: (now[code].left_before, now[code].left_after)
            for code in range(self.scan_.entities.count)
            if now[code].left_before or now[code].left_after
        }

    @property
    def replaced(self) -> int:
        """How many states of no length, which another one of their time replaced, became no row."""
        return self.scan_.replaced

    def take_changes(self) -> tuple[Int64s, Int32s, Int32s, Int32s, npt.NDArray[np.float64] | None]:
        """Return the batch's changes, and begin a new one: time, entity, state, tag, value.

        The last is None if no change has a value, and NaN where a change has none.
        """
        columns = [column[: self.scan_.rows] for column in self._changes]
        if not self.scan_.weighed:
            columns[4] = None
        self._new_changes()
        return tuple(columns)

    def take_points(self) -> tuple[Int64s, Int32s, Int32s, Int32s]:
        """Return the batch's points, and begin a new one: time, entity, event, target or -1."""
        columns = tuple([column[: self.scan_.points] for column in self._points])
        self._new_points()
        return columns

    def take_notes(self) -> list[tuple[int, int, int, int]]:
        """Return new definitions as (kind, code, start, end), with indices in the last block.

        A kind of `DEFINITION` defines the tag with this code; another describes an entity.
        """
        notes = [
            (note.kind, note.code, note.start, note.end)
            for note in self.scan_.notes[: self.scan_.note_count]
        ]
        self.scan_.note_count = 0
        return notes

    @property
    def fault(self) -> str:
        """The error in the JSON, after `INVALID`."""
        return json_fault_text(self.scan_.parser.fault.kind).decode()

    @property
    def asked(self) -> str:
        """The entity in question, after `NEW_ENTITY` and `BAD_STATE`."""
        return self.scan_.asked.at[: self.scan_.asked.size].decode()

    @property
    def rows(self) -> int:
        """How many changes the batch has."""
        return self.scan_.rows

    @property
    def points(self) -> int:
        """How many points the batch has."""
        return self.scan_.points

    @property
    def last_ns(self) -> int | None:
        """The time of the last datum, whether it was left out or not; None if there was none."""
        return self.scan_.last_ns if self.scan_.last_ns >= 0 else None

    @property
    def records(self) -> int:
        """How many payloads were read."""
        return self.scan_.records

    def refuse_late(self) -> None:
        """Stop at data that come after later ones of their entity from now on."""
        self.scan_.takes_late = False

    @property
    def late(self) -> tuple[int, int]:
        """How many data came after later ones of their entity, and how late they were at most."""
        return self.scan_.late, self.scan_.most_late_ns

    @property
    def untimed(self) -> int:
        """How many events had no time that is a number of 63 bits."""
        return self.scan_.untimed

    @property
    def twofold(self) -> int:
        """How many tag definitions had a time and an entity."""
        return self.scan_.twofold

    def prior_ns(self, entity: str) -> int | None:
        """Return the time of an entity's last datum, -1 before the first; None if unknown."""
        text = entity.encode()
        key = intern_text_of(text, len(text))
        code = intern_find(&self.scan_.entities, &key, 0)
        return self.scan_.prior_ns[code] if code >= 0 else None

    def beyond(self) -> dict[int, int]:
        """Return, by entity, the time of its last datum if that is after the input's last one."""
        cdef int32_t code
        return {
            code: self.scan_.prior_ns[code]
            for code in range(self.scan_.entities.count)
            if self.scan_.prior_ns[code] > self.scan_.last_ns and not self.scan_.dropped[code]
        }

    def entities(self, int first) -> list[str]:
        """Return the names of the entities from this code on."""
        return _strings(&self.scan_.entities, first)

    def keeps(self, int entity) -> bool:
        """Return whether the entity with this code is kept."""
        assert 0 <= entity < self.scan_.entities.count
        return not self.scan_.dropped[entity]

    def tags(self, int first) -> list[tuple[int, str]]:
        """Return the state and the text of the tags from this code on."""
        names = _strings(&self.scan_.tags, first)
        contexts = self.scan_.tags.contexts
        return [(contexts[first + i], name) for i, name in enumerate(names)]

    def events(self, int first) -> list[str]:
        """Return the names of the events from this code on."""
        return _strings(&self.scan_.events, first)


CHANGE_COLUMNS = (np.int64, np.int32, np.int32, np.int32, np.float64)
POINT_COLUMNS = (np.int64, np.int32, np.int32, np.int32)


cdef tuple _columns(list used, room, dtypes):
    """Return empty columns: those of a batch that is not referenced any more, or new ones.

    New memory comes in pages that the kernel clears first, which takes a fifth of the scanning.
    """
    for columns in used:
        # Views keep a reference to their base, so no array of such a batch is in use anywhere.
        if all([Py_REFCNT(column) == 2 for column in columns]):  # the tuple's, and the loop's own
            return columns
    columns = tuple([np.empty(room, dtype) for dtype in dtypes])
    used.append(columns)
    del used[:-MAX_USED]
    return columns


cdef char *_address(column):
    cdef uint8_t[::1] memory = column.view(np.uint8)
    return <char *> &memory[0]


cdef list _strings(const intern_table *table, int first):
    cdef uint64_t *offsets = table.offsets
    return [
        table.bytes[offsets[code] : offsets[code + 1]].decode()
        for code in range(first, table.count)
    ]


cdef int _begin(intern_table *table) except -1:
    table.seed = _SEED
    if not intern_grow(table):
        raise MemoryError
    return 0


def count_lines(
    const uint8_t[::1] block: bytes | bytearray | memoryview, int64_t start, int64_t end
) -> int:
    """Return how many lines end in the bytes [start, end) of a block."""
    cdef const char *base = <const char *> &block[0]
    cdef uint64_t lines
    assert 0 <= start <= end <= block.shape[0]
    with nogil:
        lines = json_count_lines(base + start, base + end)
    return lines
