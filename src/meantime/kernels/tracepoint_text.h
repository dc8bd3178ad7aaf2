/* The text of tracepoints: the lines of ftrace, and the fields of the events from which the states of
 * CPUs and threads follow, which perf and ftrace print alike.
 *
 *     line = comm-tid [(tgid)] [cpu] [flags] seconds.fraction: event: fields
 *
 * trace-cmd report prints `comm-tid cpuFLAGS` with -l, where FLAGS are letters or, with -R, `-0x14`,
 * and `(+nanoseconds)` before the event with --ts-diff.
 */
#ifndef MEANTIME_TRACEPOINT_TEXT_H
#define MEANTIME_TRACEPOINT_TEXT_H

#include "perf_text.h"

#include <stdlib.h>

/* What a record is; the first ones are points in time, the others have an end. */
enum {
    TRACE_SWITCH,
    TRACE_WAKE,
    TRACE_NEW, /* the first wake-up of a new thread */
    TRACE_LOST,
    TRACE_MARK,
    TRACE_BEGIN, /* of a function */
    TRACE_END,
    TRACE_LEAF,
    TRACE_ISSUE,
    TRACE_COMPLETE,
    TRACE_SENT, /* a packet of TCP */
    TRACE_RECEIVED,
    TRACE_CALL,
    TRACE_IRQ,
    TRACE_SOFTIRQ,
    /* ends, which complete a record instead of becoming one */
    TRACE_CALL_END,
    TRACE_IRQ_END,
    TRACE_SOFTIRQ_END,
    TRACE_OTHER,
    TRACE_RAN, /* a CPU's lines name one thread, from the first to `value`; see trace_presence */
};

/* One thing that happened. Threads, names and CPUs are codes; -1 is none. */
typedef struct {
    int64_t time_ns;
    int64_t value;  /* the end of what lasts, -1 if it is not known; the sector of a request; of a
                     * wake-up 1 if the thread was put on a CPU's queue, and not only chosen for that;
                     * of a packet its number in its stream above the one that it confirms */
    int32_t thread; /* of the line; of a switch the one that leaves */
    int32_t other;  /* the thread that comes, or is woken */
    int32_t name;   /* of the other thread, the system call, the interrupt, the device, the event of a
                     * packet; a mark's text */
    int32_t cpu;
    int32_t number; /* the state's letter, the CPU of a wake-up, the interrupt, the sectors, the flags
                     * of a packet */
    int32_t prio;   /* of a CPU's lines 1 if those before them name another thread */
    int32_t other_prio;
    int32_t kind;
} trace_record;

/* Which thread the lines of a CPU name as the current one. They prove that it was there, also where no
 * switch says so: after the last switch, before the first, and where switches were lost. */
typedef struct {
    int64_t first_ns, last_ns; /* of the lines that name the thread; last_ns is -1 if there are none */
    int64_t switch_ns;         /* the last switch; -1 if there is none */
    int32_t thread;            /* -1 if none is known */
    int32_t left;              /* the thread that left in the last switch; -1 if there is none */
    int are_several;           /* whether lines named another one after the last switch */
    int is_switched;           /* whether the thread came by the last switch */
} trace_presence;

static const trace_presence trace_nobody = {-1, -1, -1, -1, -1, 0, 0};

/* Whether the lines since the thread changed prove that it ran between them. Without a switch of the
 * CPU they do if they name no other thread, as the switch between two threads was not traced. */
static inline int trace_proves(const trace_presence *here)
{
    return here->thread >= 0 && here->last_ns >= 0 && (here->switch_ns >= 0 || !here->are_several);
}

/* What the lines so far prove beyond the switches. */
static inline trace_record trace_ran(const trace_presence *here, int32_t cpu)
{
    trace_record row = {here->first_ns, here->last_ns, here->thread, -1, -1, cpu,
                        here->is_switched, here->are_several, 0, TRACE_RAN};
    return row;
}

/* Adds a line that names a thread; returns whether `ran` is now what the lines before it prove. */
static inline int trace_named(trace_presence *here, int32_t cpu, int32_t thread, int64_t time_ns,
                              trace_record *ran)
{
    if (here->thread == thread && time_ns >= here->last_ns) {
        here->last_ns = time_ns;
        if (here->first_ns < 0)
            here->first_ns = time_ns;
        return 0;
    }
    /* until a switch is done, the kernel itself names the thread that leaves */
    if (here->is_switched && here->last_ns < 0 && here->left == thread)
        return 0;
    *ran = trace_ran(here, cpu);
    int is_proof = here->switch_ns >= 0 && trace_proves(here);
    here->are_several = here->thread >= 0;
    here->thread = thread;
    here->first_ns = here->last_ns = time_ns;
    here->is_switched = 0;
    here->left = -1;
    return is_proof;
}

/* Adds a switch, after its line; returns whether `ran` is now what the lines before it prove. */
static inline int trace_switched(trace_presence *here, int32_t cpu, int32_t leaving, int32_t coming,
                                 int64_t time_ns, trace_record *ran)
{
    int is_proof = !here->is_switched && here->thread == leaving
        && (here->last_ns > here->first_ns || here->are_several);
    *ran = trace_ran(here, cpu);
    here->thread = coming;
    here->left = leaving;
    here->first_ns = here->switch_ns = time_ns;
    here->last_ns = -1;
    here->is_switched = 1;
    here->are_several = 0;
    return is_proof;
}

static inline int trace_is(const char *at, uint32_t bytes, const char *text)
{
    return bytes == strlen(text) && !memcmp(at, text, bytes);
}

static inline int trace_begins(const char *at, uint32_t bytes, const char *text)
{
    return bytes > strlen(text) && !memcmp(at, text, strlen(text));
}

/* Returns what an event is, and where its name without the group begins. */
static inline int trace_kind(const char *at, uint32_t bytes, int is_ftrace, const char **bare)
{
    /* the event of a line may be missing: then there is no text, not even an empty one */
    const char *colon = bytes ? memchr(at, ':', bytes) : NULL;
    if (colon) {
        bytes -= (uint32_t)(colon + 1 - at);
        at = colon + 1;
    }
    *bare = at;
    if (trace_begins(at, bytes, "sched_")) {
        if (trace_is(at, bytes, "sched_switch"))
            return TRACE_SWITCH;
        if (trace_is(at, bytes, "sched_waking") || trace_is(at, bytes, "sched_wakeup"))
            return TRACE_WAKE;
        return trace_is(at, bytes, "sched_wakeup_new") ? TRACE_NEW : TRACE_OTHER;
    }
    if (trace_begins(at, bytes, "sys_enter_") || trace_is(at, bytes, "sys_enter"))
        return TRACE_CALL;
    if (trace_begins(at, bytes, "sys_exit_") || trace_is(at, bytes, "sys_exit"))
        return TRACE_CALL_END;
    if (trace_is(at, bytes, "irq_handler_entry"))
        return TRACE_IRQ;
    if (trace_is(at, bytes, "irq_handler_exit"))
        return TRACE_IRQ_END;
    if (trace_is(at, bytes, "softirq_entry"))
        return TRACE_SOFTIRQ;
    if (trace_is(at, bytes, "softirq_exit"))
        return TRACE_SOFTIRQ_END;
    if (trace_is(at, bytes, "block_rq_issue"))
        return TRACE_ISSUE;
    if (trace_is(at, bytes, "block_rq_complete"))
        return TRACE_COMPLETE;
    if (trace_is(at, bytes, "inet_sock_local_out") || trace_is(at, bytes, "net_dev_queue"))
        return TRACE_SENT;
    if (trace_is(at, bytes, "inet_sock_local_in") || trace_is(at, bytes, "netif_receive_skb"))
        return TRACE_RECEIVED;
    if (trace_is(at, bytes, "tracing_mark_write") || trace_is(at, bytes, "print"))
        return TRACE_MARK;
    if (!is_ftrace)
        return TRACE_OTHER;
    if (trace_is(at, bytes, "0")) /* old kernels printed an empty name so */
        return TRACE_MARK;
    if (trace_is(at, bytes, "funcgraph_entry"))
        return TRACE_BEGIN;
    return trace_is(at, bytes, "funcgraph_exit") ? TRACE_END : TRACE_OTHER;
}

/* Reads a number of at most 18 digits; returns where it ends, `at` itself if there is none. */
static inline const char *trace_number(const char *at, const char *end, int64_t *number)
{
    const char *digit = at;
    *number = 0;
    while (digit < end && perf_digit(*digit) && digit - at < 18)
        *number = *number * 10 + (*digit++ - '0');
    return digit;
}

/* Reads the time at `at`: seconds with 6 or 9 decimals. Returns what follows its colon, or NULL. */
static inline const char *trace_time(const char *at, const char *end, int64_t *time_ns)
{
    int64_t seconds, fraction;
    const char *dot = trace_number(at, end, &seconds);
    if (dot == at || dot == end || *dot != '.')
        return NULL;
    const char *last = trace_number(dot + 1, end, &fraction);
    if ((last - dot != 7 && last - dot != 10) || last == end || *last != ':')
        return NULL;
    if (last + 1 < end && !perf_blank(last[1]))
        return NULL;
    if (last - dot == 7)
        fraction *= 1000;
    *time_ns = seconds > 9223372035 ? -1 : seconds * 1000000000 + fraction;
    return last + 1;
}

/* Returns what follows the time since the event before, if there is one. */
static inline const char *trace_skip_difference(const char *rest, const char *end)
{
    const char *at = perf_skip(rest, end);
    int64_t difference;
    if (end - at < 4 || at[0] != '(' || at[1] != '+')
        return rest;
    const char *last = trace_number(at + 2, end, &difference);
    return last > at + 2 && last < end && *last == ')' ? last + 1 : rest;
}

/* Returns the letter of the context in which an event happened, by the flags that are printed. */
static inline char trace_context(const char *flags, const char *end)
{
    if (end - flags > 3 && !memcmp(flags, "-0x", 3)) {
        const char *last = end - 2; /* 8 is an interrupt, 16 a softirq */
        if (strchr("89abcdef", end[-1]))
            return 'h';
        return perf_hex(*last) && last > flags + 2 && strchr("13579bdf", *last) ? 's' : 0;
    }
    if (end - flags < 3)
        return 0;
    return flags[2] == 'h' || flags[2] == 'H' || flags[2] == 'Z' ? 'h' : flags[2] == 's' ? 's' : 0;
}

/* Reads the beginning of a line that trace-cmd report -l prints; returns 0 if it is none. */
static inline int trace_read_latency(const char *line, const char *end, perf_header *header)
{
    const char *begin = perf_skip(line, end), *dash = begin;
    const char *last_dash = end - begin > 80 ? begin + 80 : end;
    while (dash < last_dash && (dash = memchr(dash, '-', (size_t)(last_dash - dash)))) {
        int64_t tid, cpu;
        const char *name_end = dash++, *last = trace_number(dash, end, &tid);
        if (name_end == begin || last == dash || last - dash > 10 || last == end || !perf_blank(*last))
            continue;
        const char *number = perf_skip(last, end), *flags = trace_number(number, end, &cpu);
        const char *after = flags;
        while (after < end && !perf_blank(*after))
            after++;
        if (flags == number || flags - number > 9 || after - flags < 4 || after - flags > 12)
            continue;
        const char *rest = trace_time(perf_skip(after, end), end, &header->time_ns);
        if (!rest)
            continue;
        header->begin = begin;
        header->comm_bytes = (uint32_t)(name_end - begin);
        header->bytes = (uint32_t)(last - begin);
        header->cpu = (int32_t)cpu;
        header->tid = tid;
        header->rest = trace_skip_difference(rest, end);
        header->is_nanos = header->is_guess = 0;
        header->context = trace_context(flags, after);
        return PERF_HEADER;
    }
    return 0;
}

/* Reads the beginning of a line of ftrace. A comm can contain anything, but is too short to contain
 * a CPU and a time, so the first of these are the line's. Returns 0 if there are none, and
 * PERF_OTHER_FIELDS if the line has both and no thread before them. */
static inline int trace_read_header(const char *line, const char *end, perf_header *header)
{
    const char *begin = perf_skip(line, end), *bracket = begin;
    int kind = 0;
    while ((bracket = memchr(bracket, '[', (size_t)(end - bracket)))) {
        int64_t cpu, tid;
        const char *open = bracket++, *at = trace_number(bracket, end, &cpu);
        if (at - bracket < 3 || at - bracket > 9 || at == end || *at != ']' || open == begin)
            continue;
        const char *flags = perf_skip(at + 1, end);
        const char *rest = trace_time(flags, end, &header->time_ns);
        header->context = 0;
        header->is_guess = 0;
        if (!rest) {
            const char *after = flags;
            while (after < end && !perf_blank(*after))
                after++;
            rest = trace_time(perf_skip(after, end), end, &header->time_ns);
            if (!rest || after - flags > 12)
                continue;
            header->context = trace_context(flags, after);
            header->is_guess = flags[0] == '?';
        }
        kind = PERF_OTHER_FIELDS;
        const char *last = perf_back(begin, open);
        if (last > begin && last[-1] == ')') { /* the process, or dashes */
            const char *paren = last - 1;
            while (paren > begin && *paren != '(')
                paren--;
            if (last - paren > 16)
                continue;
            last = perf_back(begin, paren);
        }
        const char *digits = perf_back_digits(begin, last);
        if (digits == last || last - digits > 10 || digits - begin < 1 || digits[-1] != '-')
            continue;
        trace_number(digits, last, &tid);
        header->begin = begin;
        header->comm_bytes = (uint32_t)(digits - 1 - begin);
        header->bytes = (uint32_t)(perf_back(begin, open) - begin);
        header->cpu = (int32_t)cpu;
        header->tid = tid;
        header->rest = trace_skip_difference(rest, end);
        header->is_nanos = 0;
        if (header->comm_bytes > 64)
            continue;
        return PERF_HEADER;
    }
    return kind ? kind : trace_read_latency(line, end, header);
}

/* Reads the event after a time. The kernel prints system calls as `sys_read(fd: 3)` and
 * `sys_read -> 0x1`, and functions as `f <-caller`: these have no event, and `rest` is what they are. */
static inline perf_counted trace_read_event(const char *rest, const char *end)
{
    perf_counted counted = {1, NULL, 0};
    const char *at = perf_skip(rest, end), *last = at;
    while (last < end && !perf_blank(*last) && *last != '(')
        last++;
    if (last > at && last[-1] == ':') {
        counted.event = at;
        counted.event_bytes = (uint32_t)(last - 1 - at);
    }
    return counted;
}

typedef struct {
    int64_t tid, cpu, prio;
    const char *comm;
    uint32_t bytes;
} trace_wake;

/* Reads the fields of a wake-up, backwards as comms can contain anything:
 *     comm=A pid=1 prio=120 [success=1] target_cpu=000
 *     A:1 [120] [success=1] CPU:000
 * Returns 0 if the text is something else. */
static inline int trace_read_wake(const char *at, const char *end, trace_wake *found)
{
    static const char comm[] = "comm=";
    int64_t success;
    at = perf_skip(at, end);
    end = perf_back(at, end);
    const char *last = perf_back_number(at, end, " target_cpu=", &found->cpu), *before;
    if (last) {
        if ((before = perf_back_number(at, last, " success=", &success)))
            last = before;
        last = perf_back_number(at, last, " prio=", &found->prio);
        if (last)
            last = perf_back_number(at, last, " pid=", &found->tid);
        if (!last || last - at < (long)sizeof comm - 1 || memcmp(at, comm, sizeof comm - 1))
            return 0;
        found->comm = at + sizeof comm - 1;
    } else {
        last = perf_back_number(at, end, " CPU:", &found->cpu);
        if (!last)
            return 0;
        if ((before = perf_back_number(at, last, " success=", &success)))
            last = before;
        last = last > at && last[-1] == ']' ? perf_back_number(at, last - 1, " [", &found->prio) : NULL;
        if (last)
            last = perf_back_number(at, last, ":", &found->tid);
        if (!last)
            return 0;
        found->comm = at;
    }
    found->bytes = (uint32_t)(last - found->comm);
    return 1;
}

/* Returns the text after `before`, or NULL. */
static inline const char *trace_after(const char *at, const char *end, const char *before)
{
    size_t size = strlen(before);
    for (; (size_t)(end - at) >= size && at < end; at++)
        if (!memcmp(at, before, size))
            return at + size;
    return NULL;
}

typedef struct {
    const char *device, *kind;
    uint32_t device_bytes, kind_bytes;
    int64_t sector, sectors;
} trace_request;

/* Reads the fields of a block request: `254,0 WS 4096 () 30296144 + 32 [comm]`. */
static inline int trace_read_request(const char *at, const char *end, trace_request *found)
{
    found->device = at = perf_skip(at, end);
    while (at < end && (perf_digit(*at) || *at == ','))
        at++;
    found->device_bytes = (uint32_t)(at - found->device);
    found->kind = at = perf_skip(at, end);
    while (at < end && !perf_blank(*at))
        at++;
    found->kind_bytes = (uint32_t)(at - found->kind);
    const char *plus = trace_after(at, end, " + ");
    if (!plus || !found->device_bytes || !found->kind_bytes)
        return 0;
    const char *sector = perf_back_digits(at, plus - 3);
    if (trace_number(sector, plus - 3, &found->sector) != plus - 3)
        found->sector = -1; /* a flush has none: it is printed as 2^64 - 1 */
    return sector < plus - 3 && trace_number(plus, end, &found->sectors) > plus;
}

typedef struct {
    uint32_t seq, ack, flags;
} trace_packet;

/* Reads the number of a field `key=`, decimal or `0x` and hexadecimal, which is not the end of another
 * key. Returns what follows it, or NULL. */
static inline const char *trace_field(const char *at, const char *end, const char *key, uint32_t *value)
{
    size_t size = strlen(key);
    for (const char *begin = at; (at = trace_after(at, end, key));) {
        const char *key_at = at - size;
        if (key_at > begin && (key_at[-1] == '_' || (unsigned char)((key_at[-1] | 32) - 'a') < 26))
            continue;
        uint64_t number = 0;
        int is_hex = end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
        const char *digit = at += is_hex ? 2 : 0;
        for (; digit < end && digit - at < 10; digit++) {
            if (perf_digit(*digit))
                number = number * (is_hex ? 16 : 10) + (uint64_t)(*digit - '0');
            else if (is_hex && perf_hex(*digit))
                number = number * 16 + (uint64_t)((*digit | 32) - 'a' + 10);
            else
                break;
        }
        if (digit == at || number > UINT32_MAX)
            return NULL;
        *value = (uint32_t)number;
        return digit;
    }
    return NULL;
}

/* Reads what a packet of TCP is known by on both sides, from LTTng's fields, which may be nested:
 *     sk=0xFFFF88001D510E00 seq=0x14FB353E ack_seq=0xD2C7148B check=0x8ECA window=661 flags=6152
 * Returns 0 if there is none, as in ftrace's own text. */
static inline int trace_read_packet(const char *at, const char *end, trace_packet *found)
{
    const char *last = trace_field(at, end, "seq=", &found->seq);
    last = last ? trace_field(last, end, "ack_seq=", &found->ack) : NULL;
    return last && trace_field(last, end, "flags=", &found->flags);
}

#endif
