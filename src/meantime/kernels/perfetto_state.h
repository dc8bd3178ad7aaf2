/* What a scan of a Perfetto trace holds: tables, numbers and their codes, clocks; and how a message is
 * read. See `perfetto_scan.h`. */
#ifndef MEANTIME_PERFETTO_STATE_H
#define MEANTIME_PERFETTO_STATE_H

#include <Python.h>

#include "decimal.h"
#include "growing.h"
#include "tracepoint_text.h"
#include "varint.h"

enum { PF_MORE, PF_STOP, PF_TRUNCATED, PF_BAD, PF_NO_MEMORY, PF_FULL };
enum { PF_TRACK_UUID, PF_TRACK_THREAD, PF_TRACK_DEFAULT };
/* The spaces of numbers in the map; those before PF_SEQUENCE belong to a sequence. */
enum {
    PF_CATEGORY, PF_NAME, PF_KEY, PF_STRING, PF_SOURCE, PF_BODY, PF_CLOCK,
    PF_SEQUENCE, PF_TRACK, PF_THREAD, PF_TID, PF_CPU,
};
enum {
    PF_WITHOUT_STATE, /* packets that need a state which was not sent, or was lost */
    PF_LOST_PACKETS,
    PF_UNKNOWN_NAME, /* numbers of strings that were not defined */
    PF_NO_TIME,      /* times that do not fit into 64 bits */
    PF_TOO_DEEP,
    PF_LOST_FTRACE,
    PF_OTHER_FIELD, /* of the file itself: no packet */
    PF_NO_COUNTER_TRACK,
    PF_ODDITIES,
};
enum { PF_DEEPEST = 24, PF_KINDS = 1024, PF_CHAIN = 8 };
enum { PF_BEGIN = 1, PF_END = 2, PF_INSTANT = 3, PF_COUNTER = 4, PF_NEITHER = 0 };
/* Half of the range, so that the sum of two times fits. */
#define PF_MOST_NS ((int64_t)1 << 62)
enum { PF_BOOTTIME = 6, PF_MONOTONIC_RAW = 5, PF_FIRST_OF_SEQUENCE = 64 };

/* `end` is the end of a begin, or while it is open -2 less the row of the begin around it; of an end,
 * it is the row of its begin, -1 for none. `level` is how many spans are open on the track. */
typedef struct {
    int64_t time_ns, end;
    int32_t track, name, category, args, level, kind;
} pf_event;

/* An end without anything of its own, kept as what it ended and the row of the next event. */
typedef struct {
    int32_t begin, before;
} pf_end;

/* The values of counters, in columns: of a double its bits; `group` is the state of a sequence. */
typedef struct {
    int64_t *time_ns, *value;
    int32_t *track, *group;
    uint8_t *is_double;
    int64_t count, room;
} pf_counts;

/* A row of the events, or of the values of counters, that has the time of an unrelated clock. */
typedef struct {
    int64_t row;
    int32_t clock, is_count;
} pf_waiting;

typedef struct {
    int64_t event;
    uint64_t id;
    int32_t is_last, unused;
} pf_flow;

typedef struct {
    int64_t event, duration_ns;
    uint64_t id, bind_id;
    int32_t phase, id_kind, scope, direction, bind_enclosing, instant_scope, pid, unused;
} pf_legacy;

/* A packet that Python reads; its offset is that in the block. */
typedef struct {
    int64_t time_ns, offset, length;
    int32_t number, sequence, generation, clock;
} pf_other;

/* A value of a frequency or of an idle state, as the kernel reports it. */
typedef struct {
    int64_t time_ns, value;
    int32_t kind, cpu;
} pf_kernel_count;

/* Another event of the kernel: a point. */
typedef struct {
    int64_t time_ns;
    int32_t tid, kind;
} pf_kernel_point;

/* A track, and what is open on it; `is_odd` if its events are not matched here: they go back in
 * time, have a clock that is not known yet, or say in another way what they are. */
typedef struct {
    uint64_t key;
    int64_t last_ns;
    int32_t kind, is_odd, top, depth, unmatched;
    int32_t first; /* its first event; -1 for none */
} pf_track;

typedef struct {
    uint64_t key;
    uint32_t space, generation;
    int32_t code; /* negative: empty */
} pf_slot;

typedef struct {
    pf_slot *slots;
    uint64_t mask, seed;
    int64_t count;
} pf_map;

typedef struct {
    uint64_t *items;
    int64_t count, room;
} pf_list;

typedef struct {
    uint64_t default_track, default_clock;
    pf_list extra, extra_doubles; /* the tracks of counters in events that do not name them */
    int64_t event_ns;             /* of the old times that are relative to the event before */
    uint32_t id, generation;
    uint64_t last_uuid, last_clock_id;
    int32_t pid, tid, thread, last_track, last_clock; /* those of the event before; -1 for none */
    uint8_t is_valid, has_default_track, has_event_ns;
} pf_sequence;

typedef struct {
    int64_t *times, *offsets; /* from which of its times on what is added gives the parent's time */
    int64_t count, room;
    int64_t unit_ns, last_ns;
    int32_t parent, is_incremental;
} pf_clock;

typedef struct {
    int64_t first_ns; /* when its first bundle begins, -1 if it does not say */
    int64_t irq_row, softirq_row;
    int32_t last, last_prio; /* what ran last, of compact switches */
    int32_t cpu, seen;
    trace_presence here;
} pf_cpu;

typedef struct {
    char *data;
    size_t used, room;
} pf_text;

typedef struct {
    uint32_t number, wire;
    uint64_t value; /* or the length */
    const uint8_t *data;
} pf_field;

/* A table of rows of one size. */
typedef struct {
    void *rows;
    int64_t count, room;
} pf_table;

typedef struct {
    pf_table events, ends, waiting, flows, legacy, others, records, kernel_counts, kernel_points;
    pf_table sequences, tracks, clocks, cpus, tids;
    pf_counts counts;
    intern_table names, texts;
    pf_map map;
    pf_list values, doubles, tracks_of, doubles_of, ids, last_ids, categories;
    pf_text text;
    const uint8_t *wanted; /* by number of a packet's field, whether Python reads it */
    int64_t kinds[PF_KINDS], fields[PF_KINDS];
    int64_t odd[PF_ODDITIES];
    int64_t packets, bad, position, stop_offset, stop_length, fault_offset, latest_ns;
    int64_t first_ns, last_ns; /* of events and counters whose time is converted */
    int32_t stop_number, stop_sequence, root_clock, no_memory, lenient, last_sequence;
    int32_t last_counter_track; /* that of the last value, -1 for none */
    uint64_t last_counter;
    uint32_t generations;
} pf_scan;

/* Messages */

/* A number and what follows it, NULL if it is malformed; both are returned in registers. */
typedef struct {
    const uint8_t *at;
    uint64_t value;
} pf_got;

static __attribute__((noinline)) pf_got pf_long_varint(const uint8_t *at, const uint8_t *end)
{
    pf_got got = {NULL, 0};
    got.at = get_varint(at, end, &got.value);
    return got;
}

static inline __attribute__((always_inline)) pf_got pf_get(const uint8_t *at, const uint8_t *end)
{
    if (LIKELY(at < end && *at < 128)) {
        const pf_got got = {at + 1, *at};
        return got;
    }
    if (LIKELY(end - at >= 2 && at[1] < 128)) {
        const pf_got got = {at + 2, (at[0] & 127u) | (uint32_t)at[1] << 7};
        return got;
    }
    return pf_long_varint(at, end);
}

static inline const uint8_t *pf_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    const pf_got got = pf_get(at, end);
    *value = got.value;
    return got.at;
}

/* Reads the next field: 1, 0 at the end, -1 if it is malformed or leaves the message. The members of
 * the field are assigned one by one: copies of the whole wait until all of them are stored. */
static inline __attribute__((always_inline)) int pf_next(const uint8_t **from, const uint8_t *end, pf_field *field)
{
    const uint8_t *at = *from;
    if (at >= end)
        return 0;
    pf_got got = pf_get(at, end);
    const uint64_t tag = got.value;
    at = got.at;
    if (!at || tag < 8 || tag >> 32)
        return -1;
    field->number = (uint32_t)(tag >> 3);
    field->wire = tag & 7;
    field->data = NULL;
    if (LIKELY(!(tag & 5))) { /* a number, or bytes after their length */
        got = pf_get(at, end);
        at = got.at;
        if (!at)
            return -1;
        field->value = got.value;
        if (tag & 2) {
            if (got.value > (uint64_t)(end - at))
                return -1;
            field->data = at;
            at += got.value;
        }
    } else if ((tag & 7) == 1) {
        if (end - at < 8)
            return -1;
        memcpy(&field->value, at, 8);
        at += 8;
    } else if ((tag & 7) == 5) {
        uint32_t word;
        if (end - at < 4)
            return -1;
        memcpy(&word, at, 4);
        field->value = word;
        at += 4;
    } else {
        return -1;
    }
    *from = at;
    return 1;
}

/* Keeps a message for later: of several the last. */
static inline void pf_part(pf_field *parts, uint32_t *has, int part, const pf_field *field)
{
    if (field->wire != 2)
        return;
    parts[part].number = field->number;
    parts[part].value = field->value;
    parts[part].data = field->data;
    *has |= 1u << part;
}

static inline int pf_is(const pf_field *field, uint32_t number, uint32_t wire)
{
    return field->number == number && field->wire == wire;
}

/* Tables, lists and text */

static inline int64_t pf_more_rows(int64_t room, size_t width)
{
    const int64_t more = capacity_ahead(room, width);
    return room < MOST_ROWS && more > MOST_ROWS ? MOST_ROWS : more;
}

static inline void *pf_row(pf_scan *s, pf_table *table, size_t width)
{
    if (UNLIKELY(table->count == table->room)) {
        int64_t room = pf_more_rows(table->room, width);
        if (room > MOST_ROWS || !column_grow(&table->rows, room, width)) {
            s->no_memory = 1;
            return NULL;
        }
        table->room = room;
    }
    return (char *)table->rows + width * (size_t)table->count++;
}

#define PF_ADD(s, table, type) ((type *)pf_row(s, table, sizeof(type)))
#define PF_AT(table, type, i) ((type *)(table)->rows + (i))

static inline void pf_push(pf_scan *s, pf_list *list, uint64_t item)
{
    if (UNLIKELY(list->count == list->room)) {
        int64_t room = list->room ? 2 * list->room : 8;
        if (!column_grow((void **)&list->items, room, sizeof item)) {
            s->no_memory = 1;
            return;
        }
        list->room = room;
    }
    list->items[list->count++] = item;
}

/* Adds the numbers of a packed field; 0 if it is malformed. */
static __attribute__((noinline)) int pf_push_packed(pf_scan *s, pf_list *list, const uint8_t *at, uint64_t size, int is_fixed)
{
    for (const uint8_t *end = at + size; at < end;) {
        uint64_t value;
        if (is_fixed) {
            if (end - at < 8)
                return 0;
            memcpy(&value, at, 8);
            at += 8;
        } else if (!(at = pf_varint(at, end, &value))) {
            return 0;
        }
        pf_push(s, list, value);
    }
    return 1;
}

/* Adds a repeated number, which may be packed; 0 if it is malformed. */
static inline int pf_push_all(pf_scan *s, pf_list *list, const pf_field *field, int is_fixed)
{
    if (field->wire == (is_fixed ? 1 : 0))
        pf_push(s, list, field->value);
    else if (field->wire == 2)
        return pf_push_packed(s, list, field->data, field->value, is_fixed);
    return 1;
}

static inline void pf_write(pf_scan *s, const char *data, size_t size)
{
    pf_text *text = &s->text;
    if (UNLIKELY(text->room - text->used <= size)) { /* also for nothing, if there is no text yet */
        size_t room = 2 * (text->used + size) + 256;
        char *grown = realloc(text->data, room);
        if (!grown) {
            s->no_memory = 1;
            return;
        }
        text->data = grown;
        text->room = room;
    }
    memcpy(text->data + text->used, data, size);
    text->used += size;
}

static inline void pf_put(pf_scan *s, const char *text) { pf_write(s, text, strlen(text)); }

/* Writes a string of JSON. */
static void pf_string(pf_scan *s, const char *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t from = 0;
    pf_write(s, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 32 && c != '"' && c != '\\')
            continue;
        pf_write(s, data + from, i - from);
        if (c < 32) {
            char escape[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
            pf_write(s, escape, 6);
        } else {
            char escape[2] = {'\\', (char)c};
            pf_write(s, escape, 2);
        }
        from = i + 1;
    }
    pf_write(s, data + from, size - from);
    pf_write(s, "\"", 1);
}

static void pf_number(pf_scan *s, uint64_t value, int is_signed)
{
    char digits[24];
    char *end = digits + sizeof digits;
    char *begin = is_signed ? signed_decimal_before(end, (int64_t)value) : decimal_before(end, value);
    pf_write(s, begin, (size_t)(end - begin));
}

static void pf_double(pf_scan *s, uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    if (value != value || value - value != 0) { /* JSON has neither NaN nor infinity */
        pf_put(s, value != value ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (text) {
        pf_put(s, text);
        PyMem_Free(text);
    } else {
        PyErr_Clear();
        s->no_memory = 1;
    }
    PyGILState_Release(state);
}

/* Reads ahead of nothing: blocks of a compressed packet have no bytes behind them. */
static inline int32_t pf_intern(pf_scan *s, intern_table *table, const void *data, size_t size)
{
    int32_t code = intern(table, data, (uint32_t)size, (const char *)data + size);
    if (code < 0)
        s->no_memory = 1;
    return code;
}

/* Numbers to codes */

static inline uint64_t pf_slot_of(const pf_map *map, uint32_t space, uint64_t key)
{
    return intern_fold(key ^ map->seed, (space + 1) * 0xD6E8FEB86659FD93ULL ^ 0xA0761D6478BD642FULL)
        & map->mask;
}

static inline pf_slot *pf_find(const pf_map *map, uint32_t space, uint64_t key)
{
    for (uint64_t i = pf_slot_of(map, space, key);; i = (i + 1) & map->mask) {
        pf_slot *slot = &map->slots[i];
        if (slot->code < 0 || (slot->key == key && slot->space == space))
            return slot;
    }
}

static int pf_map_grow(pf_map *map)
{
    uint64_t size = map->slots ? 2 * (map->mask + 1) : 1024;
    pf_map larger = *map;
    larger.slots = malloc(size * sizeof *larger.slots);
    if (!larger.slots)
        return 0;
    larger.mask = size - 1;
    for (uint64_t i = 0; i < size; i++)
        larger.slots[i].code = -1;
    if (map->slots)
        for (uint64_t i = 0; i <= map->mask; i++)
            if (map->slots[i].code >= 0)
                *pf_find(&larger, map->slots[i].space, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = larger;
    return 1;
}

static inline void pf_set(pf_scan *s, uint32_t space, uint64_t key, int32_t code, uint32_t generation)
{
    pf_map *map = &s->map;
    if (code < 0)
        return;
    if (2 * (uint64_t)map->count > map->mask && !pf_map_grow(map)) {
        s->no_memory = 1;
        return;
    }
    pf_slot *slot = pf_find(map, space, key);
    map->count += slot->code < 0;
    pf_slot full = {key, space, generation, code};
    *slot = full;
}

static inline uint32_t pf_space(int32_t sequence, int kind)
{
    return ((uint32_t)(sequence + 1) << 4) | (uint32_t)kind;
}

/* The code of a number that is the same in all sequences, -1 if it is new. */
static inline int32_t pf_code(const pf_scan *s, int kind, uint64_t key)
{
    return pf_find(&s->map, pf_space(-1, kind), key)->code;
}

/* The code of an interned string; -1, and counted, if it is not defined. */
static inline int32_t pf_interned(pf_scan *s, int32_t sequence, int kind, uint64_t iid)
{
    const pf_slot *slot = pf_find(&s->map, pf_space(sequence, kind), iid);
    if (slot->code >= 0 && slot->generation == PF_AT(&s->sequences, pf_sequence, sequence)->generation)
        return slot->code;
    s->odd[PF_UNKNOWN_NAME]++;
    return -1;
}

static inline int32_t pf_sequence_of(pf_scan *s, uint32_t id)
{
    if (LIKELY(s->sequences.count
               && PF_AT(&s->sequences, pf_sequence, s->last_sequence)->id == id))
        return s->last_sequence;
    int32_t code = pf_code(s, PF_SEQUENCE, id);
    if (LIKELY(code >= 0))
        return s->last_sequence = code;
    code = (int32_t)s->sequences.count;
    pf_sequence *row = code < 1 << 26 ? PF_ADD(s, &s->sequences, pf_sequence) : NULL;
    if (!row) {
        s->no_memory = 1;
        return -1;
    }
    memset(row, 0, sizeof *row);
    row->id = id;
    row->thread = row->last_track = row->last_clock = -1;
    row->generation = ++s->generations;
    pf_set(s, pf_space(-1, PF_SEQUENCE), id, code, 0);
    return code;
}

static inline int32_t pf_track_of(pf_scan *s, int kind, uint64_t key)
{
    int space = kind == PF_TRACK_THREAD ? PF_THREAD : PF_TRACK;
    int32_t code = pf_code(s, space, key);
    if (LIKELY(code >= 0))
        return code;
    code = (int32_t)s->tracks.count;
    pf_track *row = PF_ADD(s, &s->tracks, pf_track);
    if (!row)
        return -1;
    pf_track fresh = {key, 0, kind, 0, -1, 0, 0, -1};
    *row = fresh;
    pf_set(s, pf_space(-1, space), key, code, 0);
    return code;
}

static inline int32_t pf_thread_track(pf_scan *s, int32_t pid, int32_t tid)
{
    return pf_track_of(s, PF_TRACK_THREAD, (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid);
}

static inline int32_t pf_tid(pf_scan *s, int64_t tid)
{
    int32_t code = pf_code(s, PF_TID, (uint64_t)tid);
    if (LIKELY(code >= 0))
        return code;
    code = (int32_t)s->tids.count;
    int64_t *row = PF_ADD(s, &s->tids, int64_t);
    if (!row)
        return -1;
    *row = tid;
    pf_set(s, pf_space(-1, PF_TID), (uint64_t)tid, code, 0);
    return code;
}

static inline int32_t pf_cpu_of(pf_scan *s, uint64_t number)
{
    int32_t code;
    if (number > INT32_MAX)
        return -1;
    code = pf_code(s, PF_CPU, number);
    if (LIKELY(code >= 0))
        return code;
    code = (int32_t)s->cpus.count;
    pf_cpu *row = PF_ADD(s, &s->cpus, pf_cpu);
    if (!row)
        return -1;
    pf_cpu fresh = {-1, -1, -1, -1, 0, (int32_t)number, 0, trace_nobody};
    *row = fresh;
    pf_set(s, pf_space(-1, PF_CPU), number, code, 0);
    return code;
}

/* Clocks */

static inline int32_t pf_clock_of(pf_scan *s, int32_t sequence, uint64_t id)
{
    uint32_t space = pf_space(id >= PF_FIRST_OF_SEQUENCE && id < 128 ? sequence : -1, PF_CLOCK);
    int32_t code = pf_find(&s->map, space, id)->code;
    if (LIKELY(code >= 0))
        return code;
    code = (int32_t)s->clocks.count;
    pf_clock *row = PF_ADD(s, &s->clocks, pf_clock);
    if (!row)
        return -1;
    memset(row, 0, sizeof *row);
    row->unit_ns = 1;
    row->parent = -1;
    pf_set(s, space, id, code, 0);
    return code;
}

/* Adds what is the same from a time of a clock on; times ascend. 0 if it is out of order. */
static int pf_clock_segment(pf_scan *s, int32_t clock, int64_t from_ns, int64_t offset_ns)
{
    pf_clock *row = PF_AT(&s->clocks, pf_clock, clock);
    if (row->count && row->times[row->count - 1] >= from_ns) {
        if (row->times[row->count - 1] == from_ns)
            row->offsets[row->count - 1] = offset_ns;
        return row->times[row->count - 1] == from_ns;
    }
    if (row->count == row->room) {
        int64_t room = row->room ? 2 * row->room : 4;
        if (!column_grow((void **)&row->times, room, 8) || !column_grow((void **)&row->offsets, room, 8)) {
            s->no_memory = 1;
            return 0;
        }
        row->room = room;
    }
    row->times[row->count] = from_ns;
    row->offsets[row->count++] = offset_ns;
    return 1;
}

/* Converts a time to the trace's clock: 1, 0 if there is no way yet, -1 if it does not fit. */
static int pf_to_root(const pf_scan *s, int32_t clock, int64_t *time_ns)
{
    int64_t time = *time_ns;
    for (int step = 0; clock != s->root_clock; step++) {
        const pf_clock *row = PF_AT(&s->clocks, pf_clock, clock);
        if (row->parent < 0 || !row->count || step == PF_CHAIN)
            return 0;
        int64_t low = row->count - 1;
        if (row->times[low] > time) {
            int64_t high = low;
            for (low = 0; high - low > 1;) {
                int64_t middle = (low + high) / 2;
                if (row->times[middle] <= time)
                    low = middle;
                else
                    high = middle;
            }
        }
        if (__builtin_add_overflow(time, row->offsets[low], &time))
            return -1;
        clock = row->parent;
    }
    *time_ns = time;
    return time >= 0 && time <= PF_MOST_NS ? 1 : -1;
}

/* The time of a packet: 1; 0 if it does not fit. `clock` is -1, or the clock that it still counts. */
static inline int pf_time(pf_scan *s, int32_t sequence, uint64_t id, uint64_t stamp, int64_t *time_ns, int32_t *clock)
{
    *clock = -1;
    if (id == 0 && stamp <= PF_MOST_NS) {
        *time_ns = (int64_t)stamp;
        return 1;
    }
    pf_sequence *q = PF_AT(&s->sequences, pf_sequence, sequence);
    int32_t code = q->last_clock;
    if (UNLIKELY(code < 0 || q->last_clock_id != id)) {
        code = pf_clock_of(s, sequence, id);
        q->last_clock_id = id;
        q->last_clock = code;
    }
    if (code < 0)
        return 0;
    pf_clock *row = PF_AT(&s->clocks, pf_clock, code);
    int64_t scaled;
    if (stamp > PF_MOST_NS || __builtin_mul_overflow((int64_t)stamp, row->unit_ns, &scaled)
        || (row->is_incremental && __builtin_add_overflow(scaled, row->last_ns, &scaled))
        || scaled > PF_MOST_NS) {
        s->odd[PF_NO_TIME]++;
        return 0;
    }
    if (row->is_incremental)
        row->last_ns = scaled;
    *time_ns = scaled;
    /* most clocks are related to the trace's one, and their times are later than the last snapshot */
    const int64_t last = row->count - 1;
    if (LIKELY(row->parent == s->root_clock && last >= 0 && row->times[last] <= scaled && code != s->root_clock
               && !__builtin_add_overflow(scaled, row->offsets[last], time_ns) && *time_ns >= 0
               && *time_ns <= PF_MOST_NS))
        return 1;
    *time_ns = scaled;
    int found = pf_to_root(s, code, time_ns);
    if (found < 0) {
        s->odd[PF_NO_TIME]++;
        return 0;
    }
    if (!found)
        *clock = code;
    return 1;
}

static int pf_init(pf_scan *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->map.seed = seed;
    s->root_clock = s->last_counter_track = -1;
    s->first_ns = INT64_MAX;
    s->last_ns = -1;
    if (!strings_init(&s->names, seed) || !strings_init(&s->texts, seed) || !pf_map_grow(&s->map))
        return 0;
    s->root_clock = pf_clock_of(s, 0, PF_BOOTTIME);
    return !s->no_memory;
}

static void pf_free(pf_scan *s)
{
    pf_table *tables[] = {&s->events, &s->ends, &s->waiting, &s->flows, &s->legacy, &s->others, &s->records,
                          &s->kernel_counts, &s->kernel_points, &s->tracks, &s->cpus, &s->tids};
    void *columns[] = {s->counts.time_ns, s->counts.value, s->counts.track, s->counts.group, s->counts.is_double};
    pf_list *lists[] = {&s->values, &s->doubles, &s->tracks_of, &s->doubles_of, &s->ids, &s->last_ids,
                        &s->categories};
    for (int64_t i = 0; i < s->sequences.count; i++) {
        free(PF_AT(&s->sequences, pf_sequence, i)->extra.items);
        free(PF_AT(&s->sequences, pf_sequence, i)->extra_doubles.items);
    }
    for (int64_t i = 0; i < s->clocks.count; i++) {
        free(PF_AT(&s->clocks, pf_clock, i)->times);
        free(PF_AT(&s->clocks, pf_clock, i)->offsets);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]->rows);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]->items);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        free(columns[i]);
    free(s->sequences.rows);
    free(s->clocks.rows);
    free(s->map.slots);
    free(s->text.data);
    intern_free(&s->names);
    intern_free(&s->texts);
}

#endif
