/* Events of the kernel in a Perfetto trace. See `perfetto_scan.h`. */
#ifndef MEANTIME_PERFETTO_KERNEL_H
#define MEANTIME_PERFETTO_KERNEL_H

#include "perfetto_state.h"

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

static void pf_put_record(pf_scan *s, const trace_record *made)
{
    trace_record *row = PF_ADD(s, &s->records, trace_record);
    if (row)
        *row = *made;
}

/* Adds that a CPU switches. */
static void pf_switched(pf_scan *s, int32_t cpu, int32_t leaving, int32_t coming, int64_t time_ns)
{
    trace_record ran;
    if (trace_switched(&PF_AT(&s->cpus, pf_cpu, cpu)->here, cpu, leaving, coming, time_ns, &ran))
        pf_put_record(s, &ran);
}

/* Adds what the last events of all CPUs prove. */
static void pf_end_cpus(pf_scan *s)
{
    for (int32_t cpu = 0; cpu < s->cpus.count; cpu++) {
        trace_presence *here = &PF_AT(&s->cpus, pf_cpu, cpu)->here;
        trace_record ran = trace_ran(here, cpu);
        if (trace_proves(here))
            pf_put_record(s, &ran);
        here->thread = -1;
    }
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
    trace_record ran;
    if (trace_named(&PF_AT(&s->cpus, pf_cpu, cpu)->here, cpu, thread, time_ns, &ran))
        pf_put_record(s, &ran);
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
        pf_switched(s, cpu, leaving, coming, time_ns);
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
            row->value = body.number == 114 ? -1 : body.number == 17;
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
                    row->value = 0; /* only sched_waking is written so */
                    row->other = other;
                    row->name = name;
                    row->number = (int32_t)columns[9].items[i];
                    row->other_prio = (int32_t)columns[10].items[i];
                }
                continue;
            }
            pf_cpu *place = PF_AT(&s->cpus, pf_cpu, cpu);
            pf_switched(s, cpu, place->last, other, time_ns);
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

#endif
