/* The states of threads and CPUs, from records in order of time.
 *
 * Which thread came to a CPU is believed when the next switch there leaves it, and until the last line
 * of that CPU that names it. So a thread's change to running is written when that is known, and
 * changes are not in order of time.
 */
#ifndef MEANTIME_THREAD_STATES_H
#define MEANTIME_THREAD_STATES_H

#include "growing.h"
#include "timed_rows.h"
#include "tracepoint_text.h"

#include <stdint.h>

enum {
    STATE_NONE = -1,
    STATE_RUNNING = 256, /* the others are the letters of perf */
    STATE_DEAD = 257,
    STATE_UNKNOWN = '?',
    CPU_IRQ = 3, /* before these come the roles of threads */
    CPU_SOFTIRQ = 4,
    CPU_UNKNOWN = 5,
    CPU_STATES = 6,
    SAME_THREAD = -2,
    NO_THREAD = -1,
    NO_PRIORITY = INT32_MIN,
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
    int64_t proven_ns; /* the last line since then that names its thread; -1 if there is none */
    int64_t irq_ns, softirq_ns, told_to_ns; /* when these end, INT64_MAX if that is unknown; -1 if none */
    int64_t row;
    int64_t assumed; /* its last row if that follows from what is not there: one at that time replaces it */
    int32_t current, prio, name, base;
} states_cpu;

typedef struct {
    int64_t last_ns, row; /* of its last change */
    int64_t wake; /* the record of a wake-up that may count from when it leaves its CPU, or -1 */
    int32_t state, cpu; /* the CPU that it is on, or -1 */
    int32_t letter; /* the state in which it left a CPU after that wake-up, or 0 */
    int32_t unused;
} states_thread;

/* The range of a trace. All that happened on its CPUs from `read_from_ns` on is in it, until
 * `read_to_ns`; if that is not known, INT64_MAX and -1. */
typedef struct {
    int64_t begin_ns, end_ns, read_from_ns, read_to_ns;
    int32_t before; /* the state of CPUs before anything is known: none in a trace without switches */
} states_range;

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
    /* an unknown time that has no length does not exist */
    if (threads[thread].last_ns != time_ns || threads[thread].state != STATE_UNKNOWN)
        threads[thread].row = out->thread_count++;
    out->threads[threads[thread].row] = row;
    threads[thread].last_ns = time_ns;
    threads[thread].state = state;
}

static inline void states_cpu_row(thread_states *out, states_cpu *place, int32_t cpu,
                                  int64_t time_ns, int32_t state, int32_t thread, int32_t pair)
{
    if (place->assumed >= 0 && out->cpus[place->assumed].time_ns == time_ns) {
        cpu_change *last = &out->cpus[place->assumed];
        last->state = state;
        if (thread != SAME_THREAD) {
            last->thread = thread;
            last->pair = pair;
        }
        last->before = place->row == place->assumed ? last->before : place->row;
        place->row = place->assumed;
    } else {
        cpu_change row = {time_ns, cpu, state, thread, pair, place->row};
        place->row = out->cpu_count;
        out->cpus[out->cpu_count++] = row;
    }
    place->assumed = -1;
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

typedef struct {
    states_cpu *places;
    states_thread *of;
    const trace_record **ran; /* in order of time */
    int64_t ran_count, next_ran;
    const uint8_t *role;
    const states_range *range;
} states_working;

/* What ran on this CPU is known until the last line that names it, and unknown from then on until a
 * time: takes back what was written of it. Returns from when on it is unknown; a negative number if
 * there is no memory. */
static inline int64_t states_unknown(thread_states *out, states_working *work, int32_t cpu,
                                     int64_t until_ns)
{
    states_cpu *place = &work->places[cpu];
    states_thread *threads = work->of;
    int32_t thread = place->current;
    int64_t from_ns = thread >= 0 && place->proven_ns > place->since_ns ? place->proven_ns : place->since_ns;
    if (from_ns > until_ns)
        from_ns = until_ns;
    int64_t row = place->row, last = -1; /* the last row until then */
    for (; row >= 0 && out->cpus[row].time_ns >= from_ns; row = out->cpus[row].before) {
        if (out->cpus[row].state < CPU_IRQ)
            out->cpus[row].state = CPU_UNKNOWN;
        if (out->cpus[row].thread >= 0)
            out->cpus[row].thread = NO_THREAD;
        if (last < 0 && out->cpus[row].time_ns == from_ns)
            last = row;
    }
    if (row >= 0) {
        int32_t state = out->cpus[last < 0 ? row : last].state;
        states_cpu_row(out, place, cpu, from_ns, state < CPU_IRQ ? CPU_UNKNOWN : state, NO_THREAD, -1);
        place->assumed = place->row;
    }
    place->row = -1;
    place->base = CPU_UNKNOWN;
    place->current = NO_THREAD;
    if (thread >= 0 && work->role[thread] && threads[thread].cpu == cpu) {
        threads[thread].cpu = -1;
        if (from_ns > place->since_ns) {
            int32_t tag = states_tag(out, cpu, place->prio, place->name, -2);
            if (tag < 0)
                return -1;
            states_put(out, threads, thread, place->since_ns, STATE_RUNNING, tag);
        }
        states_put(out, threads, thread, from_ns, STATE_UNKNOWN, -1);
    }
    return from_ns;
}

/* A thread came to a CPU unseen, not before a time: from then on what it did is unknown. */
static inline void states_forget(thread_states *out, states_working *work, int32_t thread,
                                 int64_t from_ns)
{
    states_thread *of = &work->of[thread];
    of->wake = -1;
    of->letter = 0;
    if (!work->role[thread] || of->state == STATE_NONE || of->state == STATE_DEAD)
        return;
    if (of->last_ns < from_ns) {
        states_put(out, work->of, thread, from_ns, STATE_UNKNOWN, -1);
    } else {
        thread_change *last = &out->threads[of->row];
        last->state = of->state = STATE_UNKNOWN;
        last->tag = -1;
    }
}

/* A thread is on a CPU to which no switch has brought it, from the beginning on if it is the first
 * there and all that the CPU did is known. Returns 0 without memory. */
static inline int states_seen(thread_states *out, states_working *work, int32_t cpu, int32_t thread,
                              int64_t now, int is_first)
{
    states_cpu *place = &work->places[cpu];
    states_thread *of = &work->of[thread];
    const uint8_t *role = work->role;
    int64_t from_ns = INT64_MIN, since_ns = now;
    states_flush(out, place, cpu, now);
    if (place->since_ns >= 0) {
        if ((from_ns = states_unknown(out, work, cpu, now)) < 0)
            return 0;
        lost_stretch stretch = {from_ns, now, cpu, place->told_to_ns >= 0};
        out->lost[out->lost_count++] = stretch;
    } else if (is_first && work->range->read_from_ns < now && of->state == STATE_NONE) {
        /* its buffer begins with nothing but this thread */
        since_ns = work->range->read_from_ns;
        for (int64_t row = place->row; row >= 0; row = out->cpus[row].before)
            if (out->cpus[row].state < CPU_IRQ || out->cpus[row].state == CPU_UNKNOWN)
                out->cpus[row].state = role[thread];
    }
    if (role[thread] && of->cpu >= 0 && of->cpu != cpu && states_unknown(out, work, of->cpu, now) < 0)
        return 0;
    /* it came before the first switch there if there was none */
    states_forget(out, work, thread, from_ns);
    if (role[thread])
        of->cpu = cpu;
    place->since_ns = since_ns;
    place->proven_ns = place->told_to_ns = -1;
    place->current = thread;
    place->prio = NO_PRIORITY;
    place->name = -2 - thread;
    place->base = role[thread];
    if (since_ns == now)
        place->row = -1;
    int32_t pair = states_pair(out, thread, place->name);
    int32_t state = place->irq_ns >= 0 ? CPU_IRQ : place->softirq_ns >= 0 ? CPU_SOFTIRQ : place->base;
    states_cpu_row(out, place, cpu, since_ns, since_ns < now ? place->base : state, thread, pair);
    place->assumed = place->row;
    return pair >= 0;
}

/* Adds what the lines of a CPU prove. Returns 0 without memory. */
static inline int states_ran(thread_states *out, states_working *work, const trace_record *ran)
{
    states_cpu *place = &work->places[ran->cpu];
    int is_current = place->since_ns >= 0 && place->current == ran->thread;
    if (ran->value < ran->time_ns)
        return 1;
    /* a switch that brought another thread at that time is the later one of two */
    if (!is_current && ran->number)
        return 1;
    if (!is_current && !states_seen(out, work, ran->cpu, ran->thread, ran->time_ns, !ran->prio))
        return 0;
    if (place->proven_ns < ran->value)
        place->proven_ns = ran->value;
    return 1;
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
        if (record->kind == TRACE_RAN)
            continue;
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

/* By which of their ends records of presence follow: one that a switch began after that switch. */
static int states_ran_compare(const void *one, const void *other)
{
    const trace_record *a = *(const trace_record *const *)one, *b = *(const trace_record *const *)other;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Adds what lines prove until a record. Returns 0 without memory. */
static inline int states_catch_up(thread_states *out, states_working *work, int64_t now)
{
    for (; work->next_ran < work->ran_count; work->next_ran++) {
        const trace_record *ran = work->ran[work->next_ran];
        if (ran->time_ns > now || (ran->time_ns == now && ran->number))
            return 1;
        if (!states_ran(out, work, ran))
            return 0;
    }
    return 1;
}

/* Adds a wake-up, or the first one of a thread. Returns 0 without memory. */
static inline int states_wake(thread_states *out, states_thread *of, const trace_record *records,
                              int64_t row, int32_t thread)
{
    const trace_record *record = &records[row];
    int32_t tag = states_tag(out, record->number, record->other_prio, record->name, record->thread);
    if (tag < 0)
        return 0;
    states_put(out, of, thread, record->time_ns, 'R', tag);
    out->wakes[out->wake_count++] = (int32_t)row;
    return 1;
}

/* A thread that was woken before it left its CPU went to sleep there all the same. */
static inline void states_sleep(thread_states *out, states_thread *thread)
{
    thread_change *last = &out->threads[thread->row];
    last->state = thread->state = thread->letter;
    last->tag = -1;
    thread->letter = 0;
    thread->wake = -1;
}

static inline int states_switch(thread_states *out, states_working *work,
                                const trace_record *records, int64_t row)
{
    const uint8_t *role = work->role;
    const trace_record *record = &records[row];
    int32_t leaving = record->thread, coming = record->other, cpu = record->cpu, tag;
    int64_t now = record->time_ns;
    states_cpu *place = &work->places[cpu];
    states_thread *of = work->of;
    if ((place->since_ns < 0 || place->current != leaving)
        && !states_seen(out, work, cpu, leaving, now, 1))
        return 0;
    states_flush(out, place, cpu, now);
    place->irq_ns = place->softirq_ns = -1;
    if (role[leaving]) {
        int letter = record->number;
        int is_dead = letter == 'X' || letter == 'Z' || letter == 'x';
        if (place->since_ns < now) {
            if ((tag = states_tag(out, cpu, place->prio, place->name, -2)) < 0)
                return 0;
            states_put(out, of, leaving, place->since_ns, STATE_RUNNING, tag);
        }
        of[leaving].cpu = -1;
        if (is_dead || letter == 'R' || letter == '+')
            of[leaving].wake = -1;
        if (of[leaving].wake >= 0) {
            /* it waits for a CPU, unless another wake-up says that it did sleep */
            const trace_record *wake = &records[of[leaving].wake];
            tag = states_tag(out, wake->number, wake->other_prio, wake->name, wake->thread);
            if (tag < 0)
                return 0;
            states_put(out, of, leaving, now, 'R', tag);
            of[leaving].letter = letter;
        } else {
            states_put(out, of, leaving, now, is_dead ? STATE_DEAD : letter, -1);
        }
    }
    if (role[coming]) {
        int32_t elsewhere = of[coming].cpu;
        if (elsewhere >= 0 && elsewhere != cpu && states_unknown(out, work, elsewhere, now) < 0)
            return 0;
        if (of[coming].letter) /* it has not been woken again: that wake-up was for this wait */
            out->wakes[out->wake_count++] = (int32_t)of[coming].wake;
        of[coming].letter = 0;
        of[coming].wake = -1;
        of[coming].cpu = cpu;
    }
    place->since_ns = now;
    place->proven_ns = place->told_to_ns = -1;
    place->current = coming;
    place->prio = record->other_prio;
    place->name = record->name;
    place->base = role[coming];
    place->row = -1;
    int32_t pair = states_pair(out, coming, record->name);
    states_cpu_row(out, place, cpu, now, place->base, coming, pair);
    return pair >= 0;
}

static inline int states_lost(thread_states *out, states_working *work, const trace_record *record)
{
    int64_t now = record->time_ns;
    int32_t cpu = record->cpu;
    states_cpu *place = &work->places[cpu];
    states_flush(out, place, cpu, now);
    place->irq_ns = place->softirq_ns = -1;
    if (place->current >= 0) {
        /* nothing was lost before */
        place->proven_ns = now;
        if (states_unknown(out, work, cpu, now) < 0)
            return 0;
        place->since_ns = now;
    } else {
        if (place->since_ns < 0)
            place->since_ns = now;
        place->row = -1;
        states_cpu_row(out, place, cpu, now, CPU_UNKNOWN, NO_THREAD, -1);
    }
    if (place->told_to_ns < record->value)
        place->told_to_ns = record->value;
    return 1;
}

/* Adds one record. Returns 0 without memory. */
static inline int states_add(thread_states *out, states_working *work, const trace_record *records,
                             int64_t row, int64_t threads)
{
    const trace_record *record = &records[row];
    int64_t now = record->time_ns;
    states_cpu *place = &work->places[record->cpu];
    switch (record->kind) {
    case TRACE_SWITCH:
        if (record->thread < 0 || record->other < 0 || record->thread >= threads
            || record->other >= threads)
            return 1;
        return states_switch(out, work, records, row);
    case TRACE_LOST:
        return states_lost(out, work, record);
    case TRACE_WAKE:
    case TRACE_NEW: {
        int32_t thread = record->other;
        if (thread < 0 || thread >= threads || !work->role[thread])
            return 1;
        states_thread *woken = &work->of[thread];
        if (woken->cpu >= 0) {
            /* one that is put on a queue while it runs has not slept */
            woken->wake = record->kind == TRACE_WAKE && record->value == 0 ? row : -1;
            return 1;
        }
        if (woken->letter && record->value == 0) {
            /* it goes on sleeping until now: the wake-up before was for a wait that did not begin */
            states_sleep(out, woken);
        }
        /* that it is put on a queue ends the wake-up before it left */
        woken->letter = 0;
        if (woken->state == 'R' || woken->state == '+'
            || (woken->state == STATE_DEAD && record->kind == TRACE_WAKE))
            return 1;
        return states_wake(out, work->of, records, row, thread);
    }
    case TRACE_IRQ:
    case TRACE_SOFTIRQ: {
        int64_t until_ns = record->value < 0 ? INT64_MAX : record->value;
        states_flush(out, place, record->cpu, now);
        if (record->kind == TRACE_IRQ) {
            place->irq_ns = until_ns;
            states_cpu_row(out, place, record->cpu, now, CPU_IRQ, SAME_THREAD, -1);
        } else {
            place->softirq_ns = until_ns;
            if (place->irq_ns < 0)
                states_cpu_row(out, place, record->cpu, now, CPU_SOFTIRQ, SAME_THREAD, -1);
        }
        return 1;
    }
    default:
        return 1;
    }
}

/* Ends a CPU where the trace ends, or where what is known of it does. Returns 0 without memory. */
static inline int states_end(thread_states *out, states_working *work, int32_t cpu)
{
    const states_range *range = work->range;
    states_cpu *place = &work->places[cpu];
    states_flush(out, place, cpu, range->end_ns - 1);
    if (place->told_to_ns >= 0) {
        lost_stretch stretch = {place->since_ns, place->told_to_ns, cpu, 1};
        out->lost[out->lost_count++] = stretch;
    }
    if (place->current < 0)
        return 1;
    if (place->proven_ns < range->read_to_ns)
        place->proven_ns = range->read_to_ns;
    /* the last moment of the trace is that of a line */
    if (place->proven_ns >= range->end_ns - 1 || place->since_ns >= range->end_ns - 1) {
        int32_t thread = place->current, tag;
        if (work->role[thread] && work->of[thread].cpu == cpu) {
            if ((tag = states_tag(out, cpu, place->prio, place->name, -2)) < 0)
                return 0;
            states_put(out, work->of, thread, place->since_ns, STATE_RUNNING, tag);
        }
        return 1;
    }
    return states_unknown(out, work, cpu, range->end_ns) >= 0;
}

/* Without an order the records are in order of time, except for those of presence. */
static inline int thread_states_of(const trace_record *records, const int64_t *order, int64_t count,
                                   const uint8_t *role, int64_t threads, int64_t cpus,
                                   const states_range *range, int64_t ran_count, thread_states *out)
{
    states_working work = {
        calloc((size_t)cpus + 1, sizeof *work.places), calloc((size_t)threads + 1, sizeof *work.of),
        calloc((size_t)ran_count + 1, sizeof *work.ran), 0, 0, role, range,
    };
    int has_memory = work.places && work.of && work.ran;
    for (int64_t i = 0; has_memory && ran_count && i < count; i++) {
        const trace_record *record = &records[i];
        if (record->kind == TRACE_RAN && record->cpu >= 0 && record->cpu < cpus && record->thread >= 0
            && record->thread < threads && work.ran_count < ran_count)
            work.ran[work.ran_count++] = record;
    }
    if (has_memory)
        qsort(work.ran, (size_t)work.ran_count, sizeof *work.ran, states_ran_compare);
    for (int64_t i = 0; has_memory && i < cpus; i++) {
        states_cpu *place = &work.places[i];
        *place = (states_cpu){-1, -1, -1, -1, -1, -1, -1, -1, 0, -1, range->before};
        /* until something is known of the CPU; whatever begins at the same time replaces it */
        if (range->before == CPU_UNKNOWN)
            states_cpu_row(out, place, (int32_t)i, range->begin_ns, CPU_UNKNOWN, NO_THREAD, -1);
        place->assumed = place->row;
    }
    for (int64_t i = 0; has_memory && i < threads; i++)
        work.of[i] = (states_thread){INT64_MIN, -1, -1, STATE_NONE, -1, 0, 0};
    for (int64_t i = 0; has_memory && i < count; i++) {
        int64_t row = order ? order[i] : i;
        const trace_record *record = &records[row];
        if (record->cpu < 0 || record->cpu >= cpus || record->kind == TRACE_RAN)
            continue;
        has_memory = states_catch_up(out, &work, record->time_ns)
            && states_add(out, &work, records, row, threads);
    }
    has_memory = has_memory && states_catch_up(out, &work, INT64_MAX);
    for (int64_t i = 0; has_memory && i < threads; i++)
        if (work.of[i].letter)
            states_sleep(out, &work.of[i]);
    for (int64_t i = 0; has_memory && i < cpus; i++)
        has_memory = states_end(out, &work, (int32_t)i);
    free(work.places);
    free(work.of);
    free(work.ran);
    return has_memory ? 0 : -1;
}

/* What the codes of changes are in a trace. Threads and CPUs without an entity are left out. */
typedef struct {
    const int32_t *thread, *cpu, *cpu_thread, *pair;
    const int32_t *thread_state; /* STATE_RUNNING + 1 of them */
    const int32_t *cpu_state;    /* CPU_STATES of them */
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
            state[i] = states_code(codes->cpu_state, CPU_STATES, change->state);
        }
    }
    free(rows);
    free(sorted);
    return count;
}

#endif
