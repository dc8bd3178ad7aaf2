/* Perfetto traces in protobuf into tables: one pass over a block of packets.
 *
 * Track events with their interned data, and the events of ftrace, become rows here. Packets that
 * change the clocks, and compressed ones, stop the scan, so that Python reads them in order; other
 * packets that Python reads are listed. Every length is checked against the message that it is in.
 *
 * The numbers of fields are those of https://github.com/google/perfetto/tree/main/protos */
#ifndef MEANTIME_PERFETTO_SCAN_H
#define MEANTIME_PERFETTO_SCAN_H

#include <Python.h>
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
    int at = sizeof digits;
    int is_negative = is_signed && (int64_t)value < 0;
    if (is_negative)
        value = 0 - value;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    if (is_negative)
        digits[--at] = '-';
    pf_write(s, digits + at, sizeof digits - (size_t)at);
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
    pf_cpu fresh = {-1, -1, -1, -1, 0, (int32_t)number, 0};
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

/* Interned data, defaults, and threads of sequences */

static int pf_interned_entry(pf_scan *s, int32_t sequence, int kind, const uint8_t *at, const uint8_t *end)
{
    uint64_t iid = 0, line = 0;
    const uint8_t *text = (const uint8_t *)"", *more = text;
    size_t size = 0, more_size = 0;
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (pf_is(&field, 1, 0))
            iid = field.value;
        else if (pf_is(&field, 2, 2)) {
            text = field.data;
            size = field.value;
        } else if (kind == PF_SOURCE && pf_is(&field, 3, 2)) {
            more = field.data;
            more_size = field.value;
        } else if (kind == PF_SOURCE && pf_is(&field, 4, 0))
            line = field.value;
    }
    if (got < 0)
        return 0;
    int32_t code;
    if (kind == PF_SOURCE) { /* function (file:line) */
        s->text.used = 0;
        pf_write(s, (const char *)more, more_size);
        if (size) {
            pf_put(s, more_size ? " (" : "");
            pf_write(s, (const char *)text, size);
            if (line) {
                pf_put(s, ":");
                pf_number(s, line, 0);
            }
            pf_put(s, more_size ? ")" : "");
        }
        if (s->no_memory)
            return 1;
        code = pf_intern(s, &s->names, s->text.data ? s->text.data : "", s->text.used);
    } else {
        code = pf_intern(s, &s->names, text, size);
    }
    pf_set(s, pf_space(sequence, kind), iid, code, PF_AT(&s->sequences, pf_sequence, sequence)->generation);
    return 1;
}

/* Reads interned data; `is_wanted` becomes whether Python reads some of it. */
static int pf_interned_data(pf_scan *s, int32_t sequence, const uint8_t *at, const uint8_t *end, int *is_wanted)
{
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        int kind;
        if (field.wire != 2)
            continue;
        switch (field.number) {
        case 1: kind = PF_CATEGORY; break;
        case 2: kind = PF_NAME; break;
        case 3: kind = PF_KEY; break;
        case 29: kind = PF_STRING; break;
        case 4: kind = PF_SOURCE; break;
        case 20: kind = PF_BODY; break;
        case 5: case 6: case 7: case 17: case 19:
            *is_wanted = 1;
            continue;
        default:
            continue;
        }
        if (!pf_interned_entry(s, sequence, kind, field.data, field.data + field.value))
            return 0;
    }
    return got == 0;
}

static int pf_defaults(pf_scan *s, pf_sequence *q, const uint8_t *at, const uint8_t *end, int *is_wanted)
{
    pf_field field, inner;
    int got, more;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (pf_is(&field, 58, 0)) {
            q->default_clock = field.value & UINT32_MAX;
        } else if (pf_is(&field, 12, 2)) {
            *is_wanted = 1;
        } else if (pf_is(&field, 11, 2)) {
            const uint8_t *in = field.data, *last = in + field.value;
            while ((more = pf_next(&in, last, &inner)) > 0) {
                if (pf_is(&inner, 11, 0)) {
                    q->default_track = inner.value;
                    q->has_default_track = 1;
                } else if (inner.number == 31) {
                    if (!pf_push_all(s, &q->extra, &inner, 0))
                        return 0;
                } else if (inner.number == 45) {
                    if (!pf_push_all(s, &q->extra_doubles, &inner, 0))
                        return 0;
                }
            }
            if (more < 0)
                return 0;
        }
    }
    return got == 0;
}

static int pf_thread_descriptor(pf_scan *s, pf_sequence *q, const uint8_t *at, const uint8_t *end)
{
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (pf_is(&field, 1, 0))
            q->pid = (int32_t)field.value;
        else if (pf_is(&field, 2, 0))
            q->tid = (int32_t)field.value;
        else if (pf_is(&field, 6, 0)) {
            q->has_event_ns = !__builtin_mul_overflow((int64_t)field.value, 1000, &q->event_ns);
        }
    }
    if (got < 0)
        return 0;
    q->thread = pf_thread_track(s, q->pid, q->tid);
    return 1;
}

/* Arguments, as JSON */

static int pf_annotation(pf_scan *s, int32_t sequence, const uint8_t *at, const uint8_t *end, int depth, int with_name);

/* The values of a message, of which each is a list's item or has a name. */
static int pf_nested_value(pf_scan *s, const uint8_t *at, const uint8_t *end, int depth)
{
    pf_field field;
    const uint8_t *all = at, *keys = at;
    int got, first = 1, type = 0, is_written = 0;
    if (depth > PF_DEEPEST) {
        s->odd[PF_TOO_DEEP]++;
        pf_put(s, "null");
        return 1;
    }
    while ((got = pf_next(&at, end, &field)) > 0)
        if (pf_is(&field, 1, 0))
            type = field.value == 1 ? 1 : field.value == 2 ? 2 : 0;
    if (got < 0)
        return 0;
    if (type)
        pf_put(s, type == 1 ? "{" : "[");
    for (at = all; pf_next(&at, end, &field) > 0;) {
        if (type == 1 && pf_is(&field, 3, 2)) {
            pf_field key;
            int some;
            while ((some = pf_next(&keys, end, &key)) > 0 && !pf_is(&key, 2, 2))
                ;
            if (some <= 0)
                break;
            if (!first)
                pf_put(s, ",");
            pf_string(s, (const char *)key.data, key.value);
            pf_put(s, ":");
        } else if (type == 2 && pf_is(&field, 4, 2)) {
            if (!first)
                pf_put(s, ",");
        } else {
            if (type || is_written)
                continue;
            is_written = 1;
            if (pf_is(&field, 5, 0))
                pf_number(s, field.value, 1);
            else if (pf_is(&field, 6, 1))
                pf_double(s, field.value);
            else if (pf_is(&field, 7, 0))
                pf_put(s, field.value ? "true" : "false");
            else if (pf_is(&field, 8, 2))
                pf_string(s, (const char *)field.data, field.value);
            else
                is_written = 0;
            continue;
        }
        first = 0;
        if (!pf_nested_value(s, field.data, field.data + field.value, depth + 1))
            return 0;
    }
    if (type)
        pf_put(s, type == 1 ? "}" : "]");
    else if (!is_written)
        pf_put(s, "null");
    return 1;
}

static void pf_name_of(pf_scan *s, int32_t code)
{
    if (code < 0)
        pf_put(s, "\"\"");
    else
        pf_string(s, s->names.bytes + s->names.offsets[code],
                  s->names.offsets[code + 1] - s->names.offsets[code]);
}

/* Writes an annotation: "name":value, or the value alone. */
static int pf_annotation(pf_scan *s, int32_t sequence, const uint8_t *at, const uint8_t *end, int depth, int with_name)
{
    pf_field field, value = {0, 0, 0, NULL};
    const uint8_t *all = at, *name = NULL;
    size_t name_size = 0;
    int32_t name_code = -1;
    int got, first = 1;
    while ((got = pf_next(&at, end, &field)) > 0) {
        switch (field.number) {
        case 1:
            if (field.wire == 0 && with_name)
                name_code = pf_interned(s, sequence, PF_KEY, field.value);
            break;
        case 10:
            if (field.wire == 2) {
                name = field.data;
                name_size = field.value;
            }
            break;
        case 2: case 3: case 4: case 7: case 17:
            if (field.wire == 0)
                value = field;
            break;
        case 5:
            if (field.wire == 1)
                value = field;
            break;
        case 6: case 8: case 9: case 11: case 12: case 14:
            if (field.wire == 2)
                value = field;
            break;
        default:
            break;
        }
    }
    if (got < 0)
        return 0;
    if (with_name) {
        if (name)
            pf_string(s, (const char *)name, name_size);
        else
            pf_name_of(s, name_code);
        pf_put(s, ":");
    }
    switch (value.number) {
    case 2: pf_put(s, value.value ? "true" : "false"); break;
    case 3: pf_number(s, value.value, 0); break;
    case 4: pf_number(s, value.value, 1); break;
    case 7: {
        char digits[24];
        pf_write(s, digits, (size_t)snprintf(digits, sizeof digits, "\"0x%llx\"", (unsigned long long)value.value));
        break;
    }
    case 17: pf_name_of(s, pf_interned(s, sequence, PF_STRING, value.value)); break;
    case 5: pf_double(s, value.value); break;
    case 6: case 9: pf_string(s, (const char *)value.data, value.value); break;
    case 8: return pf_nested_value(s, value.data, value.data + value.value, depth + 1);
    case 11: case 12:
        if (depth >= PF_DEEPEST) {
            s->odd[PF_TOO_DEEP]++;
            pf_put(s, "null");
            break;
        }
        pf_put(s, value.number == 11 ? "{" : "[");
        for (at = all; pf_next(&at, end, &field) > 0;) {
            if (!pf_is(&field, value.number, 2))
                continue;
            if (!first)
                pf_put(s, ",");
            first = 0;
            if (!pf_annotation(s, sequence, field.data, field.data + field.value, depth + 1, value.number == 11))
                return 0;
        }
        pf_put(s, value.number == 11 ? "}" : "]");
        break;
    case 14: s->fields[14]++; /* fall through: a message of a type that is not known here */
    default: pf_put(s, "null"); break;
    }
    return 1;
}

/* Begins an argument of its own. */
static void pf_argument(pf_scan *s, const char *name)
{
    pf_put(s, s->text.used ? ",\"" : "{\"");
    pf_put(s, name);
    pf_put(s, "\":");
}

static int pf_source_argument(pf_scan *s, int32_t sequence, const pf_field *message, const char *name)
{
    const uint8_t *at = message->data, *end = at + message->value;
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0)
        if (pf_is(&field, 1, 0)) {
            pf_argument(s, name);
            pf_name_of(s, pf_interned(s, sequence, PF_SOURCE, field.value));
        }
    return got == 0;
}

static int pf_log_argument(pf_scan *s, int32_t sequence, const pf_field *message)
{
    const uint8_t *at = message->data, *end = at + message->value;
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (pf_is(&field, 1, 0)) {
            pf_argument(s, "source");
            pf_name_of(s, pf_interned(s, sequence, PF_SOURCE, field.value));
        } else if (pf_is(&field, 2, 0)) {
            pf_argument(s, "message");
            pf_name_of(s, pf_interned(s, sequence, PF_BODY, field.value));
        }
    }
    return got == 0;
}

/* Track events */

/* Takes a row's time into the bounds, or lists the row if its clock is not related yet. */
static inline void pf_take_time(pf_scan *s, int64_t time_ns, int32_t clock, int64_t row, int is_count)
{
    if (LIKELY(clock < 0)) {
        if (time_ns < s->first_ns)
            s->first_ns = time_ns;
        if (time_ns > s->last_ns)
            s->last_ns = time_ns;
        return;
    }
    pf_waiting *waiting = PF_ADD(s, &s->waiting, pf_waiting);
    pf_waiting full = {row, clock, is_count};
    if (waiting)
        *waiting = full;
}

static int pf_grow_counts(pf_scan *s)
{
    pf_counts *counts = &s->counts;
    int64_t room = pf_more_rows(counts->room, sizeof *counts->value);
    if (room > MOST_ROWS || !column_grow((void **)&counts->time_ns, room, sizeof *counts->time_ns)
        || !column_grow((void **)&counts->value, room, sizeof *counts->value)
        || !column_grow((void **)&counts->track, room, sizeof *counts->track)
        || !column_grow((void **)&counts->group, room, sizeof *counts->group)
        || !column_grow((void **)&counts->is_double, room, sizeof *counts->is_double)) {
        s->no_memory = 1;
        return 0;
    }
    counts->room = room;
    return 1;
}

static inline void pf_add_count(pf_scan *s, const pf_sequence *q, int64_t time_ns, int32_t clock, uint64_t uuid, uint64_t value, int is_double)
{
    pf_counts *counts = &s->counts;
    int32_t track = s->last_counter_track;
    if (UNLIKELY(track < 0 || s->last_counter != uuid)) {
        track = s->last_counter_track = pf_track_of(s, PF_TRACK_UUID, uuid);
        s->last_counter = uuid;
    }
    if (track < 0 || (UNLIKELY(counts->count == counts->room) && !pf_grow_counts(s)))
        return;
    int64_t row = counts->count++;
    counts->time_ns[row] = time_ns;
    counts->value[row] = (int64_t)value;
    counts->track[row] = track;
    counts->group[row] = (int32_t)(q->generation & INT32_MAX);
    counts->is_double[row] = (uint8_t)is_double;
    pf_take_time(s, time_ns, clock, row, 1);
}

static int pf_legacy_event(pf_scan *s, const pf_field *message, pf_legacy *legacy, uint64_t *name_iid, int *has_thread, int32_t *pid, int32_t *tid)
{
    const uint8_t *at = message->data, *end = at + message->value;
    pf_field field;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (field.wire == 2) {
            if (field.number == 7)
                legacy->scope = pf_intern(s, &s->names, field.data, field.value);
            continue;
        }
        if (field.wire != 0)
            continue;
        switch (field.number) {
        case 1: *name_iid = field.value; break;
        case 2: legacy->phase = (int32_t)(field.value & 255); break;
        case 3:
            if (__builtin_mul_overflow((int64_t)field.value, 1000, &legacy->duration_ns))
                legacy->duration_ns = -1;
            break;
        case 6: legacy->id_kind = 1; legacy->id = field.value; break;
        case 10: legacy->id_kind = 2; legacy->id = field.value; break;
        case 11: legacy->id_kind = 3; legacy->id = field.value; break;
        case 8: legacy->bind_id = field.value; break;
        case 12: legacy->bind_enclosing = field.value != 0; break;
        case 13: legacy->direction = (int32_t)(field.value & 3); break;
        case 14: legacy->instant_scope = (int32_t)(field.value & 3); break;
        case 18: *pid = (int32_t)field.value; *has_thread |= 1; break;
        case 19: *tid = (int32_t)field.value; *has_thread |= 2; break;
        default: break;
        }
    }
    return got == 0;
}

/* Begins a span, or ends the one that began last; `row` is an event that will be the next one. */
static inline void pf_match(pf_scan *s, pf_track *track, pf_event *row, int32_t clock)
{
    const int32_t event = (int32_t)s->events.count;
    if (UNLIKELY(row->kind == PF_NEITHER || clock >= 0 || row->time_ns < track->last_ns))
        track->is_odd = 1;
    if (UNLIKELY(track->is_odd))
        return;
    track->last_ns = row->time_ns;
    if (row->kind == PF_BEGIN) {
        row->level = track->depth++;
        row->end = -2 - (int64_t)track->top;
        track->top = event;
    } else if (row->kind == PF_END && track->top >= 0) {
        pf_event *begun = PF_AT(&s->events, pf_event, track->top);
        row->end = track->top;
        track->top = (int32_t)(-2 - begun->end);
        begun->end = row->time_ns;
        track->depth--;
    } else if (row->kind == PF_END) {
        track->unmatched++;
    }
}

/* The code of all categories of an event: their names with commas between them. */
static int32_t pf_joined_categories(pf_scan *s)
{
    if (s->categories.count == 1)
        return (int32_t)s->categories.items[0];
    s->text.used = 0;
    for (int64_t i = 0; i < s->categories.count; i++) {
        int32_t code = (int32_t)s->categories.items[i];
        if (s->text.used)
            pf_write(s, ",", 1);
        if (code >= 0)
            pf_write(s, s->names.bytes + s->names.offsets[code],
                     s->names.offsets[code + 1] - s->names.offsets[code]);
    }
    /* of numbers that are not defined nothing was written */
    return s->no_memory || !s->text.used ? -1 : pf_intern(s, &s->names, s->text.data, s->text.used);
}

/* What few events have; what they do not have is not looked at. */
enum { PF_TASK, PF_LOG, PF_LEGACY, PF_MESSAGES, PF_HAS_COUNTS = 8, PF_HAS_FLOWS = 16, PF_HAS_TIME = 32 };

/* Begins the lists of the values of counters, or those of flows, unless the event has some already. */
static inline void pf_begin_lists(pf_scan *s, uint32_t *has, uint32_t what)
{
    if (!(*has & what)) {
        if (what == PF_HAS_COUNTS)
            s->values.count = s->doubles.count = s->tracks_of.count = s->doubles_of.count = 0;
        else
            s->ids.count = s->last_ids.count = 0;
        *has |= what;
    }
}

/* Adds the values of counters that an event has: each is that of the track with the same index. */
static inline void pf_add_counts(pf_scan *s, const pf_sequence *q, int64_t time_ns, int32_t clock, const pf_list *values, const pf_list *own, const pf_list *usual, int is_double)
{
    const pf_list *tracks = own->count ? own : usual;
    for (int64_t i = 0; i < values->count; i++) {
        if (i < tracks->count)
            pf_add_count(s, q, time_ns, clock, tracks->items[i], values->items[i], is_double);
        else
            s->odd[PF_NO_COUNTER_TRACK]++;
    }
}

/* Adds the flows of an event; 0 without memory. */
static int pf_add_flows(pf_scan *s, int64_t event)
{
    for (int64_t i = 0; i < s->ids.count + s->last_ids.count; i++) {
        pf_flow *flow = PF_ADD(s, &s->flows, pf_flow);
        if (!flow)
            return 0;
        int is_last = i >= s->ids.count;
        pf_flow link = {event, is_last ? s->last_ids.items[i - s->ids.count] : s->ids.items[i], is_last, 0};
        *flow = link;
    }
    return 1;
}

static int pf_track_event(pf_scan *s, int32_t sequence, int64_t time_ns, int32_t clock, const uint8_t *at, const uint8_t *end)
{
    pf_sequence *q = PF_AT(&s->sequences, pf_sequence, sequence);
    pf_field field, messages[PF_MESSAGES] = {{0, 0, 0, NULL}};
    pf_got number;
    uint64_t type = 0, uuid = 0, value = 0, name_iid = 0, legacy_name = 0, source = 0;
    const uint8_t *name = NULL;
    size_t name_size = 0;
    uint32_t has = 0;
    int has_uuid = 0, has_value = 0, is_double = 0, has_delta = 0, has_thread = 0, has_legacy = 0, got;
    int64_t time_us = 0;
    int32_t pid = 0, tid = 0;
    pf_legacy legacy;
    s->text.used = 0;
    s->categories.count = 0;
    for (;;) {
        /* the fields of most events, by the byte of their number and type */
        switch (at < end ? *at : 0) {
        case 9 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return 0;
            at = number.at;
            type = number.value;
            continue;
        case 10 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return 0;
            at = number.at;
            name_iid = number.value;
            continue;
        case 11 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return 0;
            at = number.at;
            uuid = number.value;
            has_uuid = 1;
            continue;
        case 3 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return 0;
            at = number.at;
            pf_push(s, &s->categories, (uint64_t)pf_interned(s, sequence, PF_CATEGORY, number.value));
            continue;
        case 4 << 3 | 2:
            if (!(number = pf_get(at + 1, end)).at || number.value > (uint64_t)(end - number.at))
                return 0;
            at = number.at + number.value;
            pf_write(s, s->text.used ? "," : "{", 1);
            if (!pf_annotation(s, sequence, number.at, at, 0, 1))
                return 0;
            continue;
        default:
            break;
        }
        if ((got = pf_next(&at, end, &field)) <= 0)
            break;
        switch (field.number) {
        case 9: if (field.wire == 0) type = field.value; break;
        case 11: if (field.wire == 0) { uuid = field.value; has_uuid = 1; } break;
        case 10: if (field.wire == 0) name_iid = field.value; break;
        case 23: if (field.wire == 2) { name = field.data; name_size = field.value; } break;
        case 30: if (field.wire == 0) { value = field.value; has_value = 1; is_double = 0; } break;
        case 44: if (field.wire == 1) { value = field.value; has_value = is_double = 1; } break;
        case 12: case 46: case 31: case 45: {
            pf_list *list = field.number == 12 ? &s->values : field.number == 31 ? &s->tracks_of
                : field.number == 46 ? &s->doubles : &s->doubles_of;
            pf_begin_lists(s, &has, PF_HAS_COUNTS);
            if (LIKELY(field.wire == 0 && field.number != 46))
                pf_push(s, list, field.value);
            else if (!pf_push_all(s, list, &field, field.number == 46))
                return 0;
            break;
        }
        case 36: case 47: case 42: case 48:
            pf_begin_lists(s, &has, PF_HAS_FLOWS);
            if (!pf_push_all(s, field.number == 36 || field.number == 47 ? &s->ids : &s->last_ids, &field,
                             field.number > 42))
                return 0;
            break;
        case 1: case 16:
            if (field.wire != 0)
                break;
            if (field.number == 1 || !has_delta)
                time_us = (int64_t)field.value;
            has_delta |= field.number == 1;
            has |= PF_HAS_TIME;
            break;
        case 3: {
            int64_t first = s->categories.count;
            if (!pf_push_all(s, &s->categories, &field, 0))
                return 0;
            for (int64_t i = first; i < s->categories.count; i++)
                s->categories.items[i] = (uint64_t)pf_interned(s, sequence, PF_CATEGORY, s->categories.items[i]);
            break;
        }
        case 22:
            if (field.wire == 2)
                pf_push(s, &s->categories, (uint64_t)pf_intern(s, &s->names, field.data, field.value));
            break;
        case 4:
            if (field.wire != 2)
                break;
            pf_write(s, s->text.used ? "," : "{", 1);
            if (!pf_annotation(s, sequence, field.data, field.data + field.value, 0, 1))
                return 0;
            break;
        case 5: pf_part(messages, &has, PF_TASK, &field); break;
        case 21: pf_part(messages, &has, PF_LOG, &field); break;
        case 6: pf_part(messages, &has, PF_LEGACY, &field); break;
        case 34: if (field.wire == 0) source = field.value; break;
        case 2: case 8: case 17: case 20: break; /* of the thread's own clock */
        default: s->fields[field.number < PF_KINDS ? field.number : 0]++; break;
        }
    }
    if (got < 0)
        return 0;
    if ((has >> PF_TASK & 1) && !pf_source_argument(s, sequence, &messages[PF_TASK], "posted_from"))
        return 0;
    if ((has >> PF_LOG & 1) && !pf_log_argument(s, sequence, &messages[PF_LOG]))
        return 0;
    if (source) {
        pf_argument(s, "source");
        pf_name_of(s, pf_interned(s, sequence, PF_SOURCE, source));
    }
    if (has >> PF_LEGACY & 1) {
        const pf_legacy fresh = {0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0};
        legacy = fresh;
        if (!pf_legacy_event(s, &messages[PF_LEGACY], &legacy, &legacy_name, &has_thread, &pid, &tid))
            return 0;
        has_legacy = legacy.phase || legacy.direction || legacy.bind_id || legacy.id_kind;
    }
    if (UNLIKELY(has & PF_HAS_TIME)) { /* older than clocks that count from the packet before */
        int64_t scaled;
        if (__builtin_mul_overflow(time_us, 1000, &scaled)
            || (has_delta && (!q->has_event_ns || __builtin_add_overflow(q->event_ns, scaled, &scaled)))
            || scaled < 0 || scaled > PF_MOST_NS) {
            s->odd[PF_NO_TIME]++;
            return 1;
        }
        if (has_delta)
            q->event_ns = scaled;
        int64_t converted = scaled;
        int32_t monotonic = pf_clock_of(s, sequence, 3);
        if (monotonic >= 0 && pf_to_root(s, monotonic, &converted) > 0)
            scaled = converted;
        time_ns = scaled;
        clock = -1;
    }
    int fallback = !has_uuid && !q->has_default_track;
    if (!has_uuid)
        uuid = q->has_default_track ? q->default_track : 0;
    int64_t event = s->events.count;
    int32_t args = -1, category = -1;
    if (s->text.used) {
        pf_put(s, "}");
        if (!s->no_memory)
            args = pf_intern(s, &s->texts, s->text.data, s->text.used);
    }
    if (s->categories.count && !s->no_memory)
        category = pf_joined_categories(s);
    if (has & PF_HAS_COUNTS) {
        pf_add_counts(s, q, time_ns, clock, &s->values, &s->tracks_of, &q->extra, 0);
        pf_add_counts(s, q, time_ns, clock, &s->doubles, &s->doubles_of, &q->extra_doubles, 1);
    }
    if (type == PF_COUNTER) {
        if (has_value)
            pf_add_count(s, q, time_ns, clock, uuid, value, is_double);
        return 1;
    }
    int32_t track;
    if (UNLIKELY(has_thread == 3 || (has_thread && q->thread >= 0)))
        track = pf_thread_track(s, has_thread & 1 ? pid : q->pid, has_thread & 2 ? tid : q->tid);
    else if (uuid && q->last_track >= 0 && q->last_uuid == uuid)
        track = q->last_track;
    else if (uuid) {
        track = q->last_track = pf_track_of(s, PF_TRACK_UUID, uuid);
        q->last_uuid = uuid;
    }
    else if (fallback && q->thread >= 0)
        track = q->thread;
    else
        track = pf_track_of(s, PF_TRACK_UUID, 0);
    int32_t name_code = name ? pf_intern(s, &s->names, name, name_size)
        : name_iid ? pf_interned(s, sequence, PF_NAME, name_iid)
        : legacy_name ? pf_interned(s, sequence, PF_NAME, legacy_name) : -1;
    if (track < 0)
        return 1;
    pf_event full = {time_ns, -1, track, name_code, category, args, 0,
                     type <= PF_INSTANT ? (int32_t)type : PF_NEITHER};
    pf_track *on = PF_AT(&s->tracks, pf_track, track);
    pf_match(s, on, &full, clock);
    const int has_flows = (has & PF_HAS_FLOWS) && s->ids.count + s->last_ids.count;
    if (full.kind == PF_END && full.end >= 0 && args < 0 && !has_flows && !has_legacy) {
        pf_end *end = PF_ADD(s, &s->ends, pf_end);
        pf_end plain = {(int32_t)full.end, (int32_t)event};
        if (end)
            *end = plain;
        pf_take_time(s, time_ns, -1, -1, 0);
        return 1;
    }
    pf_event *row = PF_ADD(s, &s->events, pf_event);
    if (!row)
        return 1;
    *row = full;
    if (UNLIKELY(on->first < 0))
        on->first = (int32_t)event;
    pf_take_time(s, time_ns, clock, event, 0);
    if (UNLIKELY(has_flows) && !pf_add_flows(s, event))
        return 1;
    if (UNLIKELY(has_legacy)) {
        pf_legacy *extra = PF_ADD(s, &s->legacy, pf_legacy);
        if (!extra)
            return 1;
        legacy.event = event;
        legacy.pid = has_thread & 1 ? pid : q->thread >= 0 ? q->pid : -1;
        *extra = legacy;
    }
    return 1;
}

/* Events of the kernel */

/* What a write to a kernel's marker says, in the text form of atrace. */
static void pf_mark_text(pf_scan *s, char kind, int64_t pid, const pf_field *name, int64_t value)
{
    s->text.used = 0;
    pf_write(s, &kind, 1);
    pf_put(s, "|");
    pf_number(s, (uint64_t)pid, 1);
    if (kind == 'E')
        return;
    pf_put(s, "|");
    if (name->data)
        pf_write(s, (const char *)name->data, name->value);
    if (kind == 'C' || kind == 'S' || kind == 'F') {
        pf_put(s, "|");
        pf_number(s, (uint64_t)value, 1);
    }
}

/* The fields that are numbered so in each message for a marker: pid, name, type, value, begin. */
static int pf_mark_fields(uint32_t number, uint32_t *fields)
{
    static const struct { uint32_t number; uint8_t fields[5]; } known[] = {
        {80, {1, 2, 0, 0, 3}}, {333, {1, 2, 3, 4, 5}}, {348, {1, 4, 5, 6, 0}},
        {349, {1, 4, 5, 6, 0}}, {350, {2, 1, 3, 4, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number) {
            for (int j = 0; j < 5; j++)
                fields[j] = known[i].fields[j];
            return 1;
        }
    return 0;
}

static trace_record *pf_record(pf_scan *s, int64_t time_ns, int kind, int32_t cpu)
{
    trace_record *row = PF_ADD(s, &s->records, trace_record);
    if (row) {
        trace_record fresh = {time_ns, -1, -1, -1, -1, cpu, 0, 0, 0, kind};
        *row = fresh;
    }
    return row;
}

static void pf_end_record(pf_scan *s, int64_t *row, int64_t time_ns)
{
    if (*row >= 0) {
        trace_record *begun = PF_AT(&s->records, trace_record, *row);
        if (time_ns >= begun->time_ns)
            begun->value = time_ns;
        *row = -1;
    }
}

/* Numbers and texts of a small message, by the numbers of its fields. */
typedef struct {
    pf_field fields[10];
} pf_small;

static int pf_read_small(pf_small *small, const uint8_t *at, const uint8_t *end)
{
    pf_field field;
    int got;
    memset(small, 0, sizeof *small);
    while ((got = pf_next(&at, end, &field)) > 0)
        if (field.number < 10)
            small->fields[field.number] = field;
    return got == 0;
}

static inline int32_t pf_small_name(pf_scan *s, const pf_small *small, int number)
{
    const pf_field *field = &small->fields[number];
    if (field->wire != 2)
        return pf_intern(s, &s->names, "", 0);
    return pf_intern(s, &s->names, field->data, field->value);
}

static inline int64_t pf_small_int(const pf_small *small, int number)
{
    return small->fields[number].wire == 0 ? (int64_t)small->fields[number].value : 0;
}

/* Of 32 bits with a sign, which are written as 64. */
static inline int32_t pf_small_int32(const pf_small *small, int number)
{
    return (int32_t)(uint32_t)(uint64_t)pf_small_int(small, number);
}

static int pf_kernel_event(pf_scan *s, int32_t sequence, uint64_t clock_id, int64_t shift_ns, int32_t cpu, const uint8_t *at, const uint8_t *end)
{
    pf_field field, body = {0, 0, 0, NULL};
    uint64_t stamp = 0;
    int32_t pid = 0, clock;
    int64_t time_ns;
    pf_small small;
    trace_record *row;
    int got;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (pf_is(&field, 1, 0))
            stamp = field.value;
        else if (pf_is(&field, 2, 0))
            pid = (int32_t)field.value;
        else if (field.wire == 2)
            body = field;
    }
    if (got < 0)
        return 0;
    if (!pf_time(s, sequence, clock_id, stamp + (uint64_t)shift_ns, &time_ns, &clock))
        return 1;
    if (!body.number)
        return 1;
    int32_t thread = pf_tid(s, pid);
    uint32_t marks[5];
    if (thread < 0)
        return 1;
    if (!pf_read_small(&small, body.data ? body.data : at, body.data ? body.data + body.value : at))
        return 0;
    switch (body.number) {
    case 3: { /* print */
        const pf_field *text = &small.fields[2];
        size_t size = text->wire == 2 ? text->value : 0;
        while (size && (text->data[size - 1] == '\n' || text->data[size - 1] == 0))
            size--;
        int32_t name = pf_intern(s, &s->names, size ? text->data : (const uint8_t *)"", size);
        if ((row = pf_record(s, time_ns, TRACE_MARK, cpu))) {
            row->thread = thread;
            row->name = name;
        }
        return 1;
    }
    case 4: { /* sched_switch */
        pf_cpu *place = PF_AT(&s->cpus, pf_cpu, cpu);
        int32_t leaving = pf_tid(s, pf_small_int32(&small, 2)), coming = pf_tid(s, pf_small_int32(&small, 6));
        int32_t name = pf_small_name(s, &small, 5);
        place->last = coming;
        place->last_prio = pf_small_int32(&small, 7);
        if ((row = pf_record(s, time_ns, TRACE_SWITCH, cpu))) {
            row->thread = leaving;
            row->other = coming;
            row->name = name;
            row->prio = pf_small_int32(&small, 3);
            row->number = (int32_t)pf_small_int(&small, 4);
            row->other_prio = pf_small_int32(&small, 7);
            row->value = pf_small_name(s, &small, 1);
        }
        return 1;
    }
    case 17: case 20: case 114: { /* sched_wakeup, sched_waking, sched_wakeup_new */
        int32_t woken = pf_tid(s, pf_small_int32(&small, 2)), name = pf_small_name(s, &small, 1);
        if ((row = pf_record(s, time_ns, body.number == 114 ? TRACE_NEW : TRACE_WAKE, cpu))) {
            row->thread = thread;
            row->other = woken;
            row->name = name;
            row->other_prio = pf_small_int32(&small, 3);
            row->number = pf_small_int32(&small, 5);
        }
        return 1;
    }
    case 235: { /* task_newtask */
        int32_t woken = pf_tid(s, pf_small_int32(&small, 1)), name = pf_small_name(s, &small, 2);
        if ((row = pf_record(s, time_ns, TRACE_NEW, cpu))) {
            row->thread = thread;
            row->other = woken;
            row->name = name;
            row->number = PF_AT(&s->cpus, pf_cpu, cpu)->cpu;
            row->other_prio = 120;
            row->value = pf_small_int(&small, 3) & INT32_MAX;
        }
        return 1;
    }
    case 36: case 24: { /* irq_handler_entry, softirq_entry */
        pf_cpu *place = PF_AT(&s->cpus, pf_cpu, cpu);
        int64_t *open = body.number == 36 ? &place->irq_row : &place->softirq_row;
        int32_t name;
        if (body.number == 36) {
            name = pf_small_name(s, &small, 2);
        } else {
            static const char *const kinds[] = {"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL",
                                                "TASKLET", "SCHED", "HRTIMER", "RCU"};
            uint64_t kind = (uint64_t)pf_small_int(&small, 1);
            const char *text = kind < 10 ? kinds[kind] : "softirq";
            name = pf_intern(s, &s->names, text, strlen(text));
        }
        *open = s->records.count;
        if ((row = pf_record(s, time_ns, body.number == 36 ? TRACE_IRQ : TRACE_SOFTIRQ, cpu))) {
            row->thread = thread;
            row->name = name;
            row->number = pf_small_int32(&small, 1);
        }
        return 1;
    }
    case 37: pf_end_record(s, &PF_AT(&s->cpus, pf_cpu, cpu)->irq_row, time_ns); return 1;
    case 25: pf_end_record(s, &PF_AT(&s->cpus, pf_cpu, cpu)->softirq_row, time_ns); return 1;
    case 11: case 13: case 332: { /* cpu_frequency, cpu_idle, gpu_frequency */
        pf_kernel_count *found = PF_ADD(s, &s->kernel_counts, pf_kernel_count);
        int is_gpu = body.number == 332;
        pf_kernel_count full = {time_ns, pf_small_int(&small, is_gpu ? 2 : 1) & UINT32_MAX, (int32_t)body.number, pf_small_int32(&small, is_gpu ? 1 : 2)};
        if (found)
            *found = full;
        return 1;
    }
    default:
        break;
    }
    if (pf_mark_fields(body.number, marks)) {
        int64_t type = marks[2] ? pf_small_int(&small, (int)marks[2]) & 127 : 0;
        if (!type)
            type = marks[4] && pf_small_int(&small, (int)marks[4]) ? 'B' : 'E';
        pf_mark_text(s, (char)type, pf_small_int32(&small, (int)marks[0]), &small.fields[marks[1]], marks[3] ? pf_small_int32(&small, (int)marks[3]) : 0);
        if (s->no_memory)
            return 1;
        int32_t name = pf_intern(s, &s->names, s->text.data, s->text.used);
        if ((row = pf_record(s, time_ns, TRACE_MARK, cpu))) {
            row->thread = thread;
            row->name = name;
        }
        return 1;
    }
    pf_kernel_point *point = PF_ADD(s, &s->kernel_points, pf_kernel_point);
    pf_kernel_point full = {time_ns, pid, (int32_t)body.number};
    if (point)
        *point = full;
    return 1;
}

/* Switches and wake-ups as columns of differences. */
static int pf_compact(pf_scan *s, int32_t sequence, uint64_t clock_id, int64_t shift_ns, int32_t cpu, const uint8_t *at, const uint8_t *end)
{
    pf_list columns[13];
    pf_field field;
    int got, fits = 1;
    memset(columns, 0, sizeof columns);
    while (fits && (got = pf_next(&at, end, &field)) > 0) {
        if (field.number == 5 && field.wire == 2)
            pf_push(s, &columns[5], (uint64_t)pf_intern(s, &s->names, field.data, field.value));
        else if (field.number < 13 && field.number != 5)
            fits = pf_push_all(s, &columns[field.number], &field, 0);
        if (s->no_memory)
            break;
    }
    fits &= got == 0 || s->no_memory;
    for (int is_wake = 0; fits && is_wake < 2 && !s->no_memory; is_wake++) {
        const pf_list *times = &columns[is_wake ? 7 : 1];
        int64_t count = times->count;
        uint64_t stamp = (uint64_t)shift_ns;
        for (int i = is_wake ? 8 : 2; i <= (is_wake ? 11 : 6); i++)
            if (i != 5 && columns[i].count < count)
                fits = 0;
        for (int64_t i = 0; fits && i < count && !s->no_memory; i++) {
            int64_t time_ns;
            int32_t clock;
            stamp += times->items[i];
            if (!pf_time(s, sequence, clock_id, stamp, &time_ns, &clock))
                continue;
            uint64_t comm = columns[is_wake ? 11 : 6].items[i];
            int32_t name = comm < (uint64_t)columns[5].count ? (int32_t)columns[5].items[comm]
                                                             : pf_intern(s, &s->names, "", 0);
            int32_t other = pf_tid(s, (int32_t)columns[is_wake ? 8 : 3].items[i]);
            trace_record *row;
            if (is_wake) {
                if ((row = pf_record(s, time_ns, TRACE_WAKE, cpu))) {
                    row->other = other;
                    row->name = name;
                    row->number = (int32_t)columns[9].items[i];
                    row->other_prio = (int32_t)columns[10].items[i];
                }
                continue;
            }
            pf_cpu *place = PF_AT(&s->cpus, pf_cpu, cpu);
            if (place->last >= 0 && (row = pf_record(s, time_ns, TRACE_SWITCH, cpu))) {
                row->thread = place->last;
                row->other = other;
                row->name = name;
                row->number = (int32_t)columns[2].items[i];
                row->prio = place->last_prio;
                row->other_prio = (int32_t)columns[4].items[i];
            }
            place->last = other;
            place->last_prio = (int32_t)columns[4].items[i];
        }
    }
    for (int i = 0; i < 13; i++)
        free(columns[i].items);
    return fits;
}

static int pf_bundle(pf_scan *s, int32_t sequence, const uint8_t *at, const uint8_t *end)
{
    pf_field field;
    const uint8_t *all = at;
    uint64_t number = 0, clock_id = 0, first_ns = 0;
    int64_t trace_ns = 0, boot_ns = 0, shift_ns = 0;
    int got, kind = 0, has_first = 0;
    while ((got = pf_next(&at, end, &field)) > 0) {
        if (field.wire != 0)
            continue;
        switch (field.number) {
        case 1: number = field.value; break;
        case 3: s->odd[PF_LOST_FTRACE] += field.value != 0; break;
        case 5: kind = (int)(field.value & 15); break;
        case 6: trace_ns = (int64_t)field.value; break;
        case 7: boot_ns = (int64_t)field.value; break;
        case 9: case 10: first_ns = field.value; has_first = 1; break;
        default: break;
        }
    }
    if (got < 0)
        return 0;
    int32_t cpu = pf_cpu_of(s, number);
    if (cpu < 0)
        return 1;
    if (kind == 2 || kind == 3) { /* global and local: the bundle says how far they are from boot time */
        if (__builtin_sub_overflow(boot_ns, trace_ns, &shift_ns))
            shift_ns = 0;
    }
    clock_id = kind == 4 ? PF_MONOTONIC_RAW : PF_BOOTTIME;
    pf_cpu *place = PF_AT(&s->cpus, pf_cpu, cpu);
    if (!place->seen && has_first && first_ns <= INT64_MAX)
        place->first_ns = (int64_t)first_ns;
    place->seen = 1;
    for (at = all; pf_next(&at, end, &field) > 0 && !s->no_memory;) {
        const uint8_t *in = field.data, *last = in + (field.wire == 2 ? field.value : 0);
        if (pf_is(&field, 2, 2)) {
            if (!pf_kernel_event(s, sequence, clock_id, shift_ns, cpu, in, last))
                return 0;
        } else if (pf_is(&field, 4, 2)) {
            if (!pf_compact(s, sequence, clock_id, shift_ns, cpu, in, last))
                return 0;
        }
    }
    return 1;
}

/* Packets */

static void pf_list_other(pf_scan *s, const uint8_t *block, const pf_field *field, int32_t sequence, int64_t time_ns, int32_t clock)
{
    pf_other *row = PF_ADD(s, &s->others, pf_other);
    if (!row)
        return;
    pf_other full = {time_ns, field->data - block, (int64_t)field->value, (int32_t)field->number, sequence,
                     (int32_t)(PF_AT(&s->sequences, pf_sequence, sequence)->generation & INT32_MAX), clock};
    *row = full;
}

static int pf_stop(pf_scan *s, const uint8_t *block, const pf_field *field, int32_t sequence)
{
    s->stop_offset = field->data - block;
    s->stop_length = (int64_t)field->value;
    s->stop_number = (int32_t)field->number;
    s->stop_sequence = sequence;
    return PF_STOP;
}

/* The messages of a packet. */
enum {
    PF_EVENT, PF_INTERNED, PF_DEFAULTS, PF_SNAPSHOT, PF_PACKED, PF_BUNDLE, PF_DESCRIPTOR, PF_OTHER, PF_PARTS,
};

/* Reads a packet: PF_MORE, PF_STOP or PF_BAD. */
static int pf_packet(pf_scan *s, const uint8_t *block, const uint8_t *at, const uint8_t *end)
{
    pf_field field, parts[PF_PARTS];
    uint64_t stamp = 0, clock_id = 0, flags = 0, lost = 0;
    uint32_t id = 0, has = 0;
    int got, has_stamp = 0, has_clock = 0;
    for (;;) {
        pf_got number;
        /* the fields of most packets, by the byte of their number and type */
        switch (at < end ? *at : 0) {
        case 8 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return PF_BAD;
            at = number.at;
            stamp = number.value;
            has_stamp = 1;
            continue;
        case 10 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return PF_BAD;
            at = number.at;
            id = (uint32_t)number.value;
            continue;
        case 13 << 3:
            if (!(number = pf_get(at + 1, end)).at)
                return PF_BAD;
            at = number.at;
            flags |= number.value;
            continue;
        case 11 << 3 | 2:
            if (!(number = pf_get(at + 1, end)).at || number.value > (uint64_t)(end - number.at))
                return PF_BAD;
            at = number.at + number.value;
            parts[PF_EVENT].number = 11;
            parts[PF_EVENT].value = number.value;
            parts[PF_EVENT].data = number.at;
            has |= 1u << PF_EVENT;
            continue;
        default:
            break;
        }
        if ((got = pf_next(&at, end, &field)) <= 0)
            break;
        switch (field.number) {
        case 8: if (field.wire == 0) { stamp = field.value; has_stamp = 1; } break;
        case 58: if (field.wire == 0) { clock_id = field.value & UINT32_MAX; has_clock = 1; } break;
        case 10: if (field.wire == 0) id = (uint32_t)field.value; break;
        case 13: if (field.wire == 0) flags |= field.value; break;
        case 41: if (field.wire == 0 && field.value) flags |= 1; break;
        case 42: if (field.wire == 0) lost = field.value; break;
        case 11: pf_part(parts, &has, PF_EVENT, &field); break;
        case 12: pf_part(parts, &has, PF_INTERNED, &field); break;
        case 59: pf_part(parts, &has, PF_DEFAULTS, &field); break;
        case 6: pf_part(parts, &has, PF_SNAPSHOT, &field); break;
        case 50: pf_part(parts, &has, PF_PACKED, &field); break;
        case 1: pf_part(parts, &has, PF_BUNDLE, &field); break;
        case 44: pf_part(parts, &has, PF_DESCRIPTOR, &field); break;
        case 36: break;
        default: pf_part(parts, &has, PF_OTHER, &field); break;
        }
    }
    if (got < 0)
        return PF_BAD;
    s->packets++;
    if (UNLIKELY(has >> PF_PACKED & 1))
        return pf_stop(s, block, &parts[PF_PACKED], 0);
    int64_t known = s->sequences.count;
    int32_t sequence = pf_sequence_of(s, id);
    if (sequence < 0)
        return PF_MORE;
    pf_sequence *q = PF_AT(&s->sequences, pf_sequence, sequence);
    if (flags & 1) {
        q->generation = ++s->generations;
        q->is_valid = 1;
        q->default_clock = q->default_track = 0;
        q->has_default_track = q->has_event_ns = 0;
        q->thread = -1;
        q->extra.count = q->extra_doubles.count = 0;
    } else if (lost) {
        q->is_valid = q->has_event_ns = 0;
    }
    /* what preceded the first packet of a sequence is not missing */
    s->odd[PF_LOST_PACKETS] += lost != 0 && s->sequences.count == known;
    if (UNLIKELY(has & (1u << PF_DEFAULTS | 1u << PF_INTERNED | 1u << PF_SNAPSHOT))) {
        int is_wanted = 0;
        if (has >> PF_DEFAULTS & 1) {
            const pf_field *defaults = &parts[PF_DEFAULTS];
            q->default_clock = q->default_track = 0;
            q->has_default_track = 0;
            q->extra.count = q->extra_doubles.count = 0;
            if (!pf_defaults(s, q, defaults->data, defaults->data + defaults->value, &is_wanted))
                return PF_BAD;
            if (is_wanted)
                pf_list_other(s, block, defaults, sequence, 0, -1);
        }
        if (has >> PF_INTERNED & 1) {
            const pf_field *interned = &parts[PF_INTERNED];
            is_wanted = 0;
            if (!pf_interned_data(s, sequence, interned->data, interned->data + interned->value, &is_wanted))
                return PF_BAD;
            if (is_wanted)
                pf_list_other(s, block, interned, sequence, 0, -1);
        }
        if (has >> PF_SNAPSHOT & 1)
            return pf_stop(s, block, &parts[PF_SNAPSHOT], sequence);
    }
    if (flags & 2 && !q->is_valid) {
        s->odd[PF_WITHOUT_STATE]++;
        return PF_MORE;
    }
    if (UNLIKELY(has & (1u << PF_DESCRIPTOR | 1u << PF_BUNDLE))) {
        if (has >> PF_DESCRIPTOR & 1) {
            const pf_field *thread = &parts[PF_DESCRIPTOR];
            if (!pf_thread_descriptor(s, q, thread->data, thread->data + thread->value))
                return PF_BAD;
            pf_list_other(s, block, thread, sequence, 0, -1);
        }
        if (has >> PF_BUNDLE & 1) {
            const pf_field *bundle = &parts[PF_BUNDLE];
            return pf_bundle(s, sequence, bundle->data, bundle->data + bundle->value) ? PF_MORE : PF_BAD;
        }
    }
    int64_t time_ns = s->latest_ns;
    int32_t clock = -1;
    if (has_stamp) {
        if (!has_clock)
            clock_id = q->default_clock;
        /* without anything at that time, it still counts for a clock from the packet before */
        if (!pf_time(s, sequence, clock_id, stamp, &time_ns, &clock))
            return PF_MORE;
        if (clock < 0 && time_ns > s->latest_ns)
            s->latest_ns = time_ns;
    }
    if (has >> PF_EVENT & 1) {
        const uint8_t *event = parts[PF_EVENT].data;
        if (!pf_track_event(s, sequence, time_ns, clock, event, event + parts[PF_EVENT].value))
            return PF_BAD;
    }
    if (has >> PF_OTHER & 1) {
        const uint32_t number = parts[PF_OTHER].number;
        s->kinds[number < PF_KINDS ? number : 0]++;
        if (number < PF_KINDS && s->wanted[number])
            pf_list_other(s, block, &parts[PF_OTHER], sequence, time_ns, clock);
    }
    return PF_MORE;
}

/* Reads packets from `position` on, until the block is used up or Python has to read one. */
static int pf_scan_block(pf_scan *s, const uint8_t *block, int64_t size, int is_last)
{
    const uint8_t *at = block + s->position, *end = block + size;
    while (at < end) {
        uint64_t tag, length;
        const uint8_t *body = pf_varint(at, end, &tag), *next;
        if (s->events.count + s->ends.count + s->counts.count > MOST_ROWS - 64 * 1024)
            return PF_FULL;
        if (!body || tag != 10) {
            s->fault_offset = at - block;
            if (!body && end - at < 10)
                return is_last ? PF_TRUNCATED : PF_MORE;
            return PF_BAD;
        }
        next = pf_varint(body, end, &length);
        if (!next && end - body < 10)
            return is_last ? PF_TRUNCATED : PF_MORE;
        if (!next) {
            s->fault_offset = at - block;
            return PF_BAD;
        }
        if (length > (uint64_t)(end - next))
            return is_last ? PF_TRUNCATED : PF_MORE;
        at = next + length;
        int result = pf_packet(s, block, next, at);
        if (s->no_memory)
            return PF_NO_MEMORY;
        if (result == PF_BAD) {
            s->fault_offset = next - block;
            if (!s->lenient)
                return PF_BAD;
            s->bad++;
        }
        s->position = at - block;
        if (result == PF_STOP)
            return PF_STOP;
    }
    return PF_MORE;
}

/* From events to columns; what refers to another table was checked, or makes the result 0. */

/* Writes the entity of each event, and the rows, ends, levels and flags of the spans of tracks that are
 * not odd; `spans` becomes how many these are, and `open` how many of them did not end. `kinds` becomes
 * how many events there are of each kind. */
static int pf_matched(const pf_event *events, int64_t count, const int32_t *entities, const uint8_t *is_odd,
                      const int64_t *last_ns, int64_t tracks, uint8_t structured, uint8_t unfinished,
                      int32_t *entity, int64_t *rows, int64_t *end_ns, int32_t *level, uint8_t *flags,
                      int64_t *spans, int64_t *open, int64_t *kinds)
{
    int64_t found = 0, unended = 0;
    for (int64_t i = 0; i < count; i++) {
        const pf_event *event = &events[i];
        if (event->track < 0 || event->track >= tracks || event->kind < 0 || event->kind > PF_INSTANT)
            return 0;
        entity[i] = entities[event->track];
        kinds[event->kind]++;
        if (event->kind != PF_BEGIN || is_odd[event->track])
            continue;
        const int is_open = event->end < 0;
        rows[found] = i;
        end_ns[found] = is_open ? last_ns[event->track] : event->end;
        level[found] = event->level;
        flags[found++] = is_open ? structured | unfinished : structured;
        unended += is_open;
    }
    *spans = found;
    *open = unended;
    return 1;
}

/* Marks the names and categories of some events; the last mark is that of none. */
static int pf_used(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen, int64_t names,
                   uint8_t *name, uint8_t *category)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (rows[i] < 0 || rows[i] >= count)
            return 0;
        const pf_event *event = &events[rows[i]];
        if (event->name >= names || event->category >= names)
            return 0;
        name[event->name < 0 ? names : event->name] = 1;
        category[event->category < 0 ? names : event->category] = 1;
    }
    return 1;
}

/* Writes the times of some events, and the codes of their names and categories. */
static int pf_named(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen,
                    const int32_t *names, const int32_t *categories, int64_t codes,
                    int64_t *time_ns, int32_t *name, int32_t *category)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (rows[i] < 0 || rows[i] >= count)
            return 0;
        const pf_event *event = &events[rows[i]];
        if (event->name >= codes - 1 || event->category >= codes - 1)
            return 0;
        time_ns[i] = event->time_ns;
        name[i] = names[event->name < 0 ? codes - 1 : event->name];
        category[i] = categories[event->category < 0 ? codes - 1 : event->category];
    }
    return 1;
}

/* Writes where the arguments of some events are in the text of all. */
static int pf_arguments(const pf_event *events, int64_t count, const int64_t *rows, int64_t chosen,
                        const int64_t *offsets, int64_t texts, int64_t *offset, int32_t *length)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (rows[i] < 0 || rows[i] >= count || events[rows[i]].args >= texts)
            return 0;
        const int32_t code = events[rows[i]].args;
        offset[i] = code < 0 ? 0 : offsets[code];
        length[i] = code < 0 ? 0 : (int32_t)(offsets[code + 1] - offsets[code]);
    }
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
