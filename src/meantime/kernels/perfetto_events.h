/* Track events of a Perfetto trace, with their interned data and arguments. See `perfetto_scan.h`. */
#ifndef MEANTIME_PERFETTO_EVENTS_H
#define MEANTIME_PERFETTO_EVENTS_H

#include <stdio.h>

#include "perfetto_state.h"

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

#endif
