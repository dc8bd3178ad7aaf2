/* What the spans of services are to each other. */
#ifndef MEANTIME_SERVICE_RELATIONS_H
#define MEANTIME_SERVICE_RELATIONS_H

#include "service_state.h"

/* Rows that wait in the order of a number, the least first: a heap. */
typedef struct {
    int64_t key;
    int32_t lane;
} sv_waiting;

static inline int sv_before(const sv_waiting *a, const sv_waiting *b)
{
    return a->key < b->key || (a->key == b->key && a->lane < b->lane);
}

static void sv_heap_push(sv_waiting *heap, int64_t *count, sv_waiting item)
{
    int64_t at = (*count)++;
    while (at > 0 && sv_before(&item, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static sv_waiting sv_heap_pop(sv_waiting *heap, int64_t *count)
{
    const sv_waiting least = heap[0], item = heap[--*count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < *count) {
        if (child + 1 < *count && sv_before(&heap[child + 1], &heap[child]))
            child++;
        if (!sv_before(&heap[child], &item))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return least;
}

/* See `lanes_of` in readers/services/lanes.py. The lanes are at most the rows. 0 without memory. */
static int sv_lanes(const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count,
                    int32_t *lane_of, int32_t *level_of)
{
    int64_t busy_count = 0, free_count = 0, lanes = 0;
    const size_t room = (size_t)count + 1;
    sv_waiting *busy = malloc(room * sizeof *busy), *unused = malloc(room * sizeof *unused);
    int64_t *top = malloc(room * sizeof *top), *below = malloc(room * sizeof *below);
    const int done = busy && unused && top && below;
    for (int64_t row = 0; done && row < count; row++) {
        while (busy_count && busy[0].key <= start[row]) {
            sv_waiting over = sv_heap_pop(busy, &busy_count);
            top[over.lane] = -1;
            over.key = over.lane;
            sv_heap_push(unused, &free_count, over);
        }
        const int64_t above = parent[row];
        if (above >= 0 && above < row) {
            const int32_t lane = lane_of[above];
            while (top[lane] >= 0 && end[top[lane]] <= start[row])
                top[lane] = below[top[lane]];
            if (top[lane] == above && end[row] <= end[above]) {
                lane_of[row] = lane;
                level_of[row] = level_of[above] + 1;
                below[row] = above;
                top[lane] = row;
                continue;
            }
        }
        const int32_t lane = free_count ? sv_heap_pop(unused, &free_count).lane : (int32_t)lanes++;
        lane_of[row] = lane;
        level_of[row] = 0;
        below[row] = -1;
        top[lane] = row;
        sv_waiting item = {end[row], lane};
        sv_heap_push(busy, &busy_count, item);
    }
    free(busy);
    free(unused);
    free(top);
    free(below);
    return done;
}

/* Lays out the spans at some rows, in their order, whose parents among them count; `local` is -1 for all
 * rows, and again afterwards. 0 without memory. */
static int sv_lanes_of(const int64_t *rows, int64_t count, const int64_t *start, const int64_t *end,
                       const int64_t *parent, int64_t *local, int32_t *lane_of, int32_t *level)
{
    const size_t room = (size_t)count + 1;
    int64_t *own = malloc(room * 3 * sizeof *own);
    int32_t *level_of = malloc(room * sizeof *level_of);
    int done = own && level_of;
    if (done) {
        int64_t *own_end = own + room, *own_parent = own_end + room;
        for (int64_t i = 0; i < count; i++)
            local[rows[i]] = i;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = rows[i];
            own[i] = start[row];
            own_end[i] = end[row];
            own_parent[i] = parent[row] < 0 ? -1 : local[parent[row]];
        }
        done = sv_lanes(own, own_end, own_parent, count, lane_of, level_of);
        for (int64_t i = 0; done && i < count; i++)
            level[rows[i]] = level_of[i];
        for (int64_t i = 0; i < count; i++)
            local[rows[i]] = -1;
    }
    free(own);
    free(level_of);
    return done;
}

/* Sorts rows by their codes, those of a code in their order; `edges` has where each code begins, and 0s
 * before. 0 if a row or a code is not there. */
static int sv_grouped(const int32_t *codes, int64_t count, const int64_t *order, int64_t chosen, int64_t groups,
                      int64_t *rows, int64_t *edges)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (order[i] < 0 || order[i] >= count || codes[order[i]] < 0 || codes[order[i]] >= groups)
            return 0;
        edges[codes[order[i]] + 1]++;
    }
    for (int64_t group = 0; group < groups; group++)
        edges[group + 1] += edges[group];
    for (int64_t i = 0; i < chosen; i++)
        rows[edges[codes[order[i]]]++] = order[i];
    /* each is where the next one begins now */
    for (int64_t group = groups; group > 0; group--)
        edges[group] = edges[group - 1];
    edges[0] = 0;
    return 1;
}

/* How many ancestors each row has. A cycle is cut where it is met; returns how many were, or -1
 * without memory. Parents must be rows, or -1. */
static int64_t sv_generations(int64_t *parent, int64_t *generation, int64_t count)
{
    enum { UNKNOWN = -1, IN_CHAIN = -2 };
    int64_t cycles = 0;
    int64_t *chain = malloc(((size_t)count + 1) * sizeof *chain);
    if (!chain)
        return -1;
    for (int64_t row = 0; row < count; row++)
        generation[row] = UNKNOWN;
    for (int64_t row = 0; row < count; row++) {
        int64_t at = row, length = 0;
        while (at >= 0 && generation[at] == UNKNOWN) {
            generation[at] = IN_CHAIN;
            chain[length++] = at;
            at = parent[at];
        }
        if (at >= 0 && generation[at] == IN_CHAIN) {
            cycles++;
            parent[chain[length - 1]] = -1;
            at = -1;
        }
        int64_t next = at >= 0 ? generation[at] + 1 : 0;
        while (length)
            generation[chain[--length]] = next++;
    }
    free(chain);
    return cycles;
}

typedef struct {
    uint64_t trace_high, trace_low, span;
    unsigned forms;
} sv_id;

enum { SV_MOST_OF_AN_ID = 4, SV_AHEAD = 32, SV_ROW_BITS = 40 };

/* Slots have a row plus one, and some bits of its id's hash above that; 0 is empty. */
typedef struct {
    const sv_row *rows;
    uint64_t *slots;
    int64_t *next; /* by row, the next one with the same id; -1 for none */
    uint64_t mask, seed;
} sv_ids;

#define SV_ROW_OF(slot) ((int64_t)((slot) & (((uint64_t)1 << SV_ROW_BITS) - 1)) - 1)

static inline uint64_t sv_hash(const sv_ids *ids, const sv_id *id)
{
    uint64_t hash = intern_fold(id->trace_high ^ ids->seed, id->trace_low ^ 0xA0761D6478BD642FULL);
    return intern_fold(hash ^ id->span, ids->seed ^ (id->forms + 0xE7037ED1A0B428DBULL));
}

/* Returns the slot of an id, which is empty if no row has it. */
static inline uint64_t *sv_slot(const sv_ids *ids, const sv_id *id, uint64_t hash)
{
    for (uint64_t at = hash & ids->mask;; at = (at + 1) & ids->mask) {
        const uint64_t slot = ids->slots[at];
        if (!slot)
            return &ids->slots[at];
        if ((slot ^ hash) >> SV_ROW_BITS)
            continue;
        const sv_row *other = &ids->rows[SV_ROW_OF(slot)];
        if (other->trace_high == id->trace_high && other->trace_low == id->trace_low
            && other->span == id->span && (other->forms & 3u) == id->forms)
            return &ids->slots[at];
    }
}

static inline sv_id sv_own_id(const sv_row *row)
{
    const sv_id id = {row->trace_high, row->trace_low, row->span, row->forms & 3u};
    return id;
}

static inline sv_id sv_parent_id(const sv_row *row)
{
    /* whether the trace's id is of the other form, and the parent's */
    const sv_id id = {row->trace_high, row->trace_low, row->parent,
                      (row->forms & 1u) | (row->forms >> 1 & 2u)};
    return id;
}

static inline int sv_has_parent(const sv_row *row)
{
    return row->parent || (row->forms & 4u);
}

/* Reads ahead the slots of some rows, or of their parents; their hashes are in `hashes`. */
static void sv_read_ahead(const sv_ids *ids, int64_t first, int64_t last, int is_parent, uint64_t *hashes)
{
    for (int64_t row = first; row < last; row++) {
        const sv_id id = is_parent ? sv_parent_id(&ids->rows[row]) : sv_own_id(&ids->rows[row]);
        hashes[row - first] = sv_hash(ids, &id);
        __builtin_prefetch(&ids->slots[hashes[row - first] & ids->mask]);
    }
}

/* Finds the row of each row's parent, -1 for none, and the first row of each id that links lead to;
 * counts ids and parents without a row. See `rows_by_id` and `parents` in service_spans.py. */
static int sv_relate(const sv_row *rows, int64_t count, const sv_link *links, int64_t link_count,
                     uint64_t seed, int64_t *parent, int64_t *linked, int64_t *ids_found,
                     int64_t *missing)
{
    sv_ids ids = {rows, NULL, NULL, 1, seed};
    uint64_t hashes[SV_AHEAD];
    while (ids.mask < 2 * (uint64_t)count)
        ids.mask *= 2;
    *ids_found = *missing = 0;
    if ((uint64_t)count >= (uint64_t)1 << (SV_ROW_BITS - 1)
        || !column_grow((void **)&ids.slots, (int64_t)ids.mask, sizeof *ids.slots))
        return 0;
    memset(ids.slots, 0, ids.mask * sizeof *ids.slots);
    ids.mask--;
    if (!column_grow((void **)&ids.next, count + 1, sizeof *ids.next)) {
        free(ids.slots);
        return 0;
    }
    for (int64_t row = 0; row < count; row++) {
        if (row % SV_AHEAD == 0)
            sv_read_ahead(&ids, row, row + SV_AHEAD < count ? row + SV_AHEAD : count, 0, hashes);
        const sv_id id = sv_own_id(&rows[row]);
        const uint64_t hash = hashes[row % SV_AHEAD];
        uint64_t *slot = sv_slot(&ids, &id, hash);
        ids.next[row] = -1;
        if (!*slot) {
            *slot = (hash >> SV_ROW_BITS << SV_ROW_BITS) | (uint64_t)(row + 1);
            ++*ids_found;
            continue;
        }
        int64_t *to = &ids.next[SV_ROW_OF(*slot)];
        int known = 1;
        while (*to >= 0 && ++known < SV_MOST_OF_AN_ID)
            to = &ids.next[*to];
        if (*to < 0)
            *to = row;
    }
    for (int64_t row = 0; row < count; row++) {
        if (row % SV_AHEAD == 0)
            sv_read_ahead(&ids, row, row + SV_AHEAD < count ? row + SV_AHEAD : count, 1, hashes);
        parent[row] = -1;
        if (!sv_has_parent(&rows[row]))
            continue;
        const sv_id id = sv_parent_id(&rows[row]);
        int64_t other = -1;
        for (int64_t at = SV_ROW_OF(*sv_slot(&ids, &id, hashes[row % SV_AHEAD])); at >= 0; at = ids.next[at]) {
            if (at == row)
                continue;
            if (rows[at].resource == rows[row].resource) {
                other = at;
                break;
            }
            if (other < 0)
                other = at;
        }
        *missing += other < 0;
        parent[row] = other;
    }
    for (int64_t i = 0; i < link_count; i++) {
        const sv_id id = {links[i].trace_high, links[i].trace_low, links[i].span,
                          (unsigned)links[i].forms & 3u};
        linked[i] = SV_ROW_OF(*sv_slot(&ids, &id, sv_hash(&ids, &id)));
    }
    free(ids.slots);
    free(ids.next);
    return 1;
}

/* Writes how many of some spans are open, wherever that changes, and at `first` in any case; returns
 * how often that is. Both columns ascend; there is room for all their times and one more. */
static int64_t sv_open_counts(const int64_t *start, const int64_t *end, int64_t count, int64_t first,
                              int64_t *time_ns, int64_t *open)
{
    int64_t begun = 0, ended = 0, found = 0;
    for (int64_t now = first;;) {
        while (begun < count && start[begun] <= now)
            begun++;
        while (ended < count && end[ended] <= now)
            ended++;
        if (!found || open[found - 1] != begun - ended) {
            time_ns[found] = now;
            open[found++] = begun - ended;
        }
        if (ended == count && begun == count)
            return found;
        now = begun < count && (ended == count || start[begun] < end[ended]) ? start[begun] : end[ended];
    }
}

/* Writes columns of spans. */
static void sv_split(const sv_row *rows, int64_t count, int64_t *start_ns, int64_t *end_ns, int32_t *resource,
                     int32_t *thread, uint8_t *kind, uint8_t *is_unfinished)
{
    for (int64_t i = 0; i < count; i++) {
        start_ns[i] = rows[i].start_ns;
        end_ns[i] = rows[i].end_ns;
        resource[i] = rows[i].resource;
        thread[i] = rows[i].thread;
        kind[i] = rows[i].kind;
        is_unfinished[i] = rows[i].is_unfinished;
    }
}

/* Writes columns of some spans, in their order; 0 if a row or a name is not there. */
static int sv_chosen(const sv_row *rows, int64_t count, const int64_t *order, int64_t chosen,
                     const int32_t *names, int64_t codes, int32_t *name, int32_t *category,
                     int64_t *offset, int32_t *length)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (i + SV_AHEAD < chosen && order[i + SV_AHEAD] >= 0 && order[i + SV_AHEAD] < count)
            __builtin_prefetch(&rows[order[i + SV_AHEAD]].offset);
        if (order[i] < 0 || order[i] >= count)
            return 0;
        const sv_row *row = &rows[order[i]];
        if (row->name < 0 || row->name >= codes)
            return 0;
        name[i] = names[row->name];
        category[i] = row->category;
        offset[i] = row->offset;
        length[i] = row->length;
    }
    return 1;
}

#endif
