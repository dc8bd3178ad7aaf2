/* Perfetto traces in protobuf into tables: one pass over a block of packets.
 *
 * Track events with their interned data, and the events of ftrace, become rows here. Packets that
 * change the clocks, and compressed ones, stop the scan, so that Python reads them in order; other
 * packets that Python reads are listed. Every length is checked against the message that it is in.
 *
 * The numbers of fields are those of https://github.com/google/perfetto/tree/main/protos */
#ifndef MEANTIME_PERFETTO_SCAN_H
#define MEANTIME_PERFETTO_SCAN_H

#include "perfetto_events.h"
#include "perfetto_kernel.h"

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

#endif
