/* The states of threads and CPUs, from records in order of time.
 *
 * Which thread came to a CPU is believed when the next switch there leaves it. So a thread's change
 * to running is written at the next switch of its CPU, and nothing else is written for it in between:
 * the changes of one thread are in order, those of several are not.
 */
#ifndef MEANTIME_THREAD_STATES_H
#define MEANTIME_THREAD_STATES_H

#include "growing.h"
#include "tracepoint_text.h"

enum {
    STATE_NONE = -1,
    STATE_RUNNING = 256, /* the others are the letters of perf */
    STATE_DEAD = 257,
    CPU_IRQ = 3, /* before these come the roles of threads */
    CPU_SOFTIRQ = 4,
    SAME_THREAD = -2,
};

typedef struct {
    int64_t time_ns;
    int32_t thread, state, tag, unused;
} thread_change;

typedef struct {
    int64_t time_ns;
    int32_t cpu, state, thread;
    int32_t pair; /* the code of the thread with the name that it came by, -1 if none came */
    int64_t before; /* the row of this CPU before, if it belongs to the same switch; else -1 */
} cpu_change;

typedef struct {
    int64_t from_ns, to_ns;
    int32_t cpu, was_told; /* whether the tracer said so */
} lost_stretch;

typedef struct {
    thread_change *threads;
    cpu_change *cpus;
    lost_stretch *lost;
    int32_t *wakes;
    int64_t thread_count, cpu_count, lost_count, wake_count;
    intern_table *tags, *pairs;
} thread_states;

typedef struct {
    int64_t since_ns; /* the last switch, or where events were lost after it; -1 if there is none */
    int64_t irq_ns, softirq_ns, told_to_ns; /* when these end, INT64_MAX if that is unknown; -1 if none */
    int64_t row;
    int32_t current, prio, name, base;
} states_cpu;

typedef struct {
    int64_t last_ns, row; /* of its last change */
    int32_t state, cpu; /* the CPU that it is on, or -1 */
} states_thread;

static inline int32_t states_tag(thread_states *out, int32_t cpu, int32_t prio, int32_t name,
                                 int32_t waker)
{
    int32_t fields[4] = {cpu, prio, name, waker};
    intern_text text = intern_text_of((const char *)fields, sizeof fields);
    int32_t code = intern_find(out->tags, &text, 0);
    return code >= 0 ? code : intern_add(out->tags, &text, 0);
}

static inline int32_t states_pair(thread_states *out, int32_t thread, int32_t name)
{
    int32_t fields[2] = {thread, name};
    intern_text text = intern_text_of((const char *)fields, sizeof fields);
    int32_t code = intern_find(out->pairs, &text, 0);
    return code >= 0 ? code : intern_add(out->pairs, &text, 0);
}

static inline void states_put(thread_states *out, states_thread *threads, int32_t thread,
                              int64_t time_ns, int32_t state, int32_t tag)
{
    thread_change row = {time_ns, thread, state == STATE_DEAD ? STATE_NONE : state, tag, 0};
    threads[thread].row = out->thread_count;
    out->threads[out->thread_count++] = row;
    threads[thread].last_ns = time_ns;
    threads[thread].state = state;
}

static inline void states_cpu_row(thread_states *out, states_cpu *place, int32_t cpu,
                                  int64_t time_ns, int32_t state, int32_t thread, int32_t pair)
{
    cpu_change row = {time_ns, cpu, state, thread, pair, place->row};
    place->row = out->cpu_count;
    out->cpus[out->cpu_count++] = row;
}

/* Writes the ends of interrupts until a time. */
static inline void states_flush(thread_states *out, states_cpu *place, int32_t cpu, int64_t until_ns)
{
    while (1) {
        int64_t irq_ns = place->irq_ns, softirq_ns = place->softirq_ns;
        if (irq_ns >= 0 && irq_ns <= until_ns && (softirq_ns < 0 || irq_ns <= softirq_ns)) {
            place->irq_ns = -1;
            states_cpu_row(out, place, cpu, irq_ns, softirq_ns >= 0 ? CPU_SOFTIRQ : place->base,
                           SAME_THREAD, -1);
        } else if (softirq_ns >= 0 && softirq_ns <= until_ns) {
            place->softirq_ns = -1;
            if (irq_ns < 0)
                states_cpu_row(out, place, cpu, softirq_ns, place->base, SAME_THREAD, -1);
        } else {
            return;
        }
    }
}

/* What ran since the last switch of this CPU is unknown: takes back what was written of it. */
static inline void states_unknown(thread_states *out, states_cpu *place, states_thread *threads,
                                  const uint8_t *role, int32_t cpu)
{
    int32_t thread = place->current;
    for (int64_t row = place->row; row >= 0; row = out->cpus[row].before) {
        if (out->cpus[row].state < CPU_IRQ)
            out->cpus[row].state = STATE_NONE;
        if (out->cpus[row].thread >= 0)
            out->cpus[row].thread = -1;
    }
    place->base = STATE_NONE;
    place->current = -1;
    if (thread >= 0 && role[thread] && threads[thread].cpu == cpu) {
        threads[thread].cpu = -1;
        states_put(out, threads, thread, place->since_ns, STATE_NONE, -1);
    }
}

/* A thread came to a CPU unseen, not before a time: from then on what it did is unknown. */
static inline void states_forget(thread_states *out, states_thread *threads, const uint8_t *role,
                                 int32_t thread, int64_t from_ns)
{
    if (!role[thread] || threads[thread].state == STATE_NONE || threads[thread].state == STATE_DEAD)
        return;
    if (threads[thread].last_ns < from_ns) {
        states_put(out, threads, thread, from_ns, STATE_NONE, -1);
    } else {
        thread_change *last = &out->threads[threads[thread].row];
        last->state = threads[thread].state = STATE_NONE;
        last->tag = -1;
    }
}

/* Finds the last name of each thread in the order of the text, and the threads that call the system;
 * returns whether the records are in order of time. */
static inline int states_prepare(const trace_record *records, int64_t count,
                                 const uint8_t *has_name, int64_t names, int64_t threads,
                                 int32_t *name, uint8_t *calls)
{
    int64_t before = INT64_MIN;
    int in_order = 1;
    for (int64_t i = 0; i < count; i++) {
        const trace_record *record = &records[i];
        in_order &= record->time_ns >= before;
        before = record->time_ns;
        if (record->kind <= TRACE_NEW) {
            if (record->other >= 0 && record->other < threads && record->name >= 0
                && record->name < names && has_name[record->name])
                name[record->other] = record->name;
        } else if (record->kind == TRACE_CALL && record->thread >= 0 && record->thread < threads) {
            calls[record->thread] = 1;
        }
    }
    return in_order;
}

/* Without an order the records are in order of time. */
static inline int thread_states_of(const trace_record *records, const int64_t *order, int64_t count,
                                   const uint8_t *role, int64_t threads, int64_t cpus,
                                   thread_states *out)
{
    states_cpu *places = calloc((size_t)cpus + 1, sizeof *places);
    states_thread *of = calloc((size_t)threads + 1, sizeof *of);
    if (!places || !of) {
        free(places);
        free(of);
        return -1;
    }
    for (int64_t i = 0; i < cpus; i++)
        places[i] = (states_cpu){-1, -1, -1, -1, -1, -1, 0, -1, STATE_NONE};
    for (int64_t i = 0; i < threads; i++)
        of[i] = (states_thread){INT64_MIN, -1, STATE_NONE, -1};
    for (int64_t i = 0; i < count; i++) {
        int64_t row = order ? order[i] : i;
        const trace_record *record = &records[row];
        int64_t now = record->time_ns;
        int32_t cpu = record->cpu;
        if (cpu < 0 || cpu >= cpus)
            continue;
        states_cpu *place = &places[cpu];
        int tag = 0;
        switch (record->kind) {
        case TRACE_SWITCH: {
            int32_t leaving = record->thread, coming = record->other;
            if (leaving < 0 || coming < 0 || leaving >= threads || coming >= threads)
                break;
            states_flush(out, place, cpu, now);
            place->irq_ns = place->softirq_ns = -1;
            if (place->since_ns >= 0 && place->current == leaving) {
                if (role[leaving]) {
                    tag = states_tag(out, cpu, place->prio, place->name, -2);
                    states_put(out, of, leaving, place->since_ns, STATE_RUNNING, tag);
                }
            } else if (place->since_ns >= 0) {
                int32_t elsewhere = of[leaving].cpu;
                lost_stretch stretch = {place->since_ns, now, cpu, place->told_to_ns >= 0};
                out->lost[out->lost_count++] = stretch;
                states_unknown(out, place, of, role, cpu);
                if (role[leaving] && elsewhere >= 0 && elsewhere != cpu)
                    states_unknown(out, &places[elsewhere], of, role, elsewhere);
                states_forget(out, of, role, leaving, place->since_ns);
            } else if (role[leaving]) {
                int32_t elsewhere = of[leaving].cpu;
                if (elsewhere >= 0)
                    states_unknown(out, &places[elsewhere], of, role, elsewhere);
                /* it came to this CPU before the first switch there */
                states_forget(out, of, role, leaving, INT64_MIN);
            }
            if (role[leaving]) {
                int letter = record->number;
                int is_dead = letter == 'X' || letter == 'Z' || letter == 'x';
                of[leaving].cpu = -1;
                states_put(out, of, leaving, now, is_dead ? STATE_DEAD : letter, -1);
            }
            if (role[coming]) {
                if (of[coming].cpu >= 0)
                    states_unknown(out, &places[of[coming].cpu], of, role, of[coming].cpu);
                of[coming].cpu = cpu;
            }
            place->since_ns = now;
            place->told_to_ns = -1;
            place->current = coming;
            place->prio = record->other_prio;
            place->name = record->name;
            place->base = role[coming];
            place->row = -1;
            int32_t pair = states_pair(out, coming, record->name);
            if (pair < 0)
                tag = -1;
            states_cpu_row(out, place, cpu, now, place->base, coming, pair);
            break;
        }
        case TRACE_LOST:
            states_flush(out, place, cpu, now);
            place->irq_ns = place->softirq_ns = -1;
            if (place->current >= 0 && role[place->current]) {
                if (now > place->since_ns) {
                    tag = states_tag(out, cpu, place->prio, place->name, -2);
                    states_put(out, of, place->current, place->since_ns, STATE_RUNNING, tag);
                }
                states_put(out, of, place->current, now, STATE_NONE, -1);
                of[place->current].cpu = -1;
            }
            if (place->since_ns < 0 || place->current >= 0)
                place->since_ns = now;
            if (place->told_to_ns < record->value)
                place->told_to_ns = record->value;
            place->current = -1;
            place->base = STATE_NONE;
            if (place->row >= 0 && out->cpus[place->row].time_ns == now
                && out->cpus[place->row].thread >= 0) {
                out->cpus[place->row].state = STATE_NONE;
                out->cpus[place->row].thread = -1;
                place->row = -1;
            } else {
                place->row = -1;
                states_cpu_row(out, place, cpu, now, STATE_NONE, -1, -1);
            }
            break;
        case TRACE_WAKE:
        case TRACE_NEW: {
            int32_t woken = record->other;
            if (woken < 0 || woken >= threads || !role[woken] || of[woken].cpu >= 0)
                break;
            int32_t state = of[woken].state;
            if (state == 'R' || state == '+' || (state == STATE_DEAD && record->kind == TRACE_WAKE))
                break;
            tag = states_tag(out, record->number, record->other_prio, record->name, record->thread);
            states_put(out, of, woken, now, 'R', tag);
            out->wakes[out->wake_count++] = (int32_t)row;
            break;
        }
        case TRACE_IRQ:
        case TRACE_SOFTIRQ: {
            int64_t until_ns = record->value < 0 ? INT64_MAX : record->value;
            states_flush(out, place, cpu, now);
            if (record->kind == TRACE_IRQ) {
                place->irq_ns = until_ns;
                states_cpu_row(out, place, cpu, now, CPU_IRQ, SAME_THREAD, -1);
            } else {
                place->softirq_ns = until_ns;
                if (place->irq_ns < 0)
                    states_cpu_row(out, place, cpu, now, CPU_SOFTIRQ, SAME_THREAD, -1);
            }
            break;
        }
        default:
            break;
        }
        if (tag < 0) {
            free(places);
            free(of);
            return -1;
        }
    }
    for (int64_t i = 0; i < cpus; i++) {
        states_flush(out, &places[i], (int32_t)i, INT64_MAX - 1);
        if (places[i].told_to_ns >= 0) {
            lost_stretch stretch = {places[i].since_ns, places[i].told_to_ns, (int32_t)i, 1};
            out->lost[out->lost_count++] = stretch;
        }
        states_unknown(out, &places[i], of, role, (int32_t)i);
    }
    free(places);
    free(of);
    return 0;
}

typedef struct {
    int64_t time_ns, row;
} timed_row;

static int timed_row_compare(const void *one, const void *other)
{
    const timed_row *a = one, *b = other;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Puts rows in order of time, those of one time in order of their numbers, from `rows` into `sorted`.
 * They come in few ascending sequences, so they are dealt out by the upper bits of their times into
 * buckets of some rows, which is nearly sequential. Returns 0 without memory. */
static int timed_rows_sort(const timed_row *rows, int64_t count, timed_row *sorted)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        low = rows[i].time_ns < low ? rows[i].time_ns : low;
        high = rows[i].time_ns > high ? rows[i].time_ns : high;
    }
    uint64_t span = count ? (uint64_t)high - (uint64_t)low : 0;
    int shift = 0;
    while (shift < 63 && span >> shift > (uint64_t)count / 4)
        shift++;
    int64_t buckets = (int64_t)(span >> shift) + 1, begin = 0;
    int64_t *ends = calloc((size_t)buckets, sizeof *ends);
    if (!ends)
        return 0;
    for (int64_t i = 0; i < count; i++)
        ends[((uint64_t)rows[i].time_ns - (uint64_t)low) >> shift]++;
    for (int64_t i = 0; i < buckets; i++) {
        int64_t size = ends[i];
        ends[i] = begin;
        begin += size;
    }
    for (int64_t i = 0; i < count; i++)
        sorted[ends[((uint64_t)rows[i].time_ns - (uint64_t)low) >> shift]++] = rows[i];
    begin = 0;
    for (int64_t i = 0; i < buckets; begin = ends[i++]) {
        if (ends[i] - begin > 32) {
            qsort(sorted + begin, (size_t)(ends[i] - begin), sizeof *sorted, timed_row_compare);
            continue;
        }
        for (int64_t at = begin + 1; at < ends[i]; at++) {
            timed_row row = sorted[at];
            int64_t to = at;
            for (; to > begin && timed_row_compare(&row, &sorted[to - 1]) < 0; to--)
                sorted[to] = sorted[to - 1];
            sorted[to] = row;
        }
    }
    free(ends);
    return 1;
}

/* What the codes of changes are in a trace. Threads and CPUs without an entity are left out. */
typedef struct {
    const int32_t *thread, *cpu, *cpu_thread, *pair;
    const int32_t *thread_state; /* STATE_RUNNING + 1 of them */
    const int32_t *cpu_state;    /* CPU_SOFTIRQ + 1 of them */
    int64_t threads, cpus, pairs;
    int32_t first_tag;
} states_codes;

static inline int32_t states_code(const int32_t *codes, int64_t count, int32_t index)
{
    return index >= 0 && index < count ? codes[index] : -1;
}

/* Writes all changes in order of time, at most one for each of a thread and two for each of a CPU;
 * returns how many, or -1 without memory. */
static inline int64_t states_merge(const thread_change *threads, int64_t thread_count,
                                   const cpu_change *cpus, int64_t cpu_count,
                                   const states_codes *codes, int64_t *time_ns, int32_t *entity,
                                   int32_t *state, int32_t *tag)
{
    size_t most = (size_t)(thread_count + 2 * cpu_count) + 1;
    timed_row *rows = NULL, *sorted = NULL;
    int64_t count = 0;
    if (column_grow((void **)&rows, (int64_t)most, sizeof *rows)) {
        for (int64_t i = 0; i < thread_count; i++)
            if (states_code(codes->thread, codes->threads, threads[i].thread) >= 0)
                rows[count++] = (timed_row){threads[i].time_ns, i};
        for (int64_t i = 0; i < cpu_count; i++) {
            if (states_code(codes->cpu, codes->cpus, cpus[i].cpu) < 0)
                continue;
            rows[count++] = (timed_row){cpus[i].time_ns, thread_count + 2 * i};
            if (cpus[i].thread != SAME_THREAD)
                rows[count++] = (timed_row){cpus[i].time_ns, thread_count + 2 * i + 1};
        }
    }
    if (!rows || !column_grow((void **)&sorted, (int64_t)most, sizeof *sorted)
        || !timed_rows_sort(rows, count, sorted)) {
        free(rows);
        free(sorted);
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t row = sorted[i].row;
        time_ns[i] = sorted[i].time_ns;
        if (row < thread_count) {
            const thread_change *change = &threads[row];
            entity[i] = codes->thread[change->thread];
            state[i] = states_code(codes->thread_state, STATE_RUNNING + 1, change->state);
            tag[i] = change->tag < 0 ? -1 : change->tag + codes->first_tag;
            continue;
        }
        const cpu_change *change = &cpus[(row - thread_count) / 2];
        tag[i] = -1;
        if ((row - thread_count) % 2) {
            entity[i] = codes->cpu_thread[change->cpu];
            state[i] = change->thread < 0 ? -1 : states_code(codes->pair, codes->pairs, change->pair);
        } else {
            entity[i] = codes->cpu[change->cpu];
            state[i] = states_code(codes->cpu_state, CPU_SOFTIRQ + 1, change->state);
        }
    }
    free(rows);
    free(sorted);
    return count;
}

#endif
