/* Events of CTF, written as ftrace text, which `perf_text.h` scans.
 *
 *     b-7 [005] 1457113582.794569892: sched_switch: prev_comm=a prev_pid=1 ... ==> next_comm=b ...
 *
 * An event has the fields of its contexts and its own; the converter of perf writes only the latter,
 * with its own names. A thread that no context has is the one that the CPU's last switch brought.
 * Names are those of the kernel's own text: LTTng calls ids of threads `tid`, system calls
 * `syscall_entry_X`, and prints masks as numbers.
 */
#ifndef MEANTIME_CTF_EVENT_H
#define MEANTIME_CTF_EVENT_H

#include "decimal.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CTF_CPUS = 4096, CTF_COMM = 64, CTF_FIELDS = 96 };

struct ctf_text {
    const char *at;
    size_t size;
};

/* How a value is: text as it is printed; text that babeltrace2 has quoted, or nested in brackets;
 * or a number without text. */
enum { CTF_PLAIN, CTF_PRINTED, CTF_SIGNED, CTF_UNSIGNED };

struct ctf_field {
    struct ctf_text key, value;
    int form;
    int has_number; /* whether `number` is valid; always for the last two forms */
    uint64_t number;
};

struct ctf_event {
    long long seconds;
    long nanoseconds;
    struct ctf_text time; /* these as text; empty if only the numbers are known */
    struct ctf_text name;
    const struct ctf_field *fields; /* of the contexts, and then of the event */
    int contexts, count;
    int is_perf; /* whether it may have the fields of perf's converter: it has no contexts */
};

struct ctf_state {
    long long tid[CTF_CPUS]; /* the thread on each CPU; -1 if unknown */
    char comm[CTF_CPUS][CTF_COMM];
    int is_old;              /* whether the masks of states are those before Linux 4.14 */
    long long unread_lines;
    long long dropped_fields; /* beyond CTF_FIELDS of an event */
};

static void ctf_begin(struct ctf_state *state, int is_old) {
    memset(state, 0, sizeof *state);
    for (int cpu = 0; cpu < CTF_CPUS; cpu++) state->tid[cpu] = -1;
    state->is_old = is_old;
}

static inline int ctf_is(struct ctf_text text, const char *word) {
    return text.size == strlen(word) && !memcmp(text.at, word, text.size);
}

static inline int ctf_begins(struct ctf_text text, const char *word) {
    return text.size >= strlen(word) && !memcmp(text.at, word, strlen(word));
}

/* Return the number that a field is, has as `container = N`, or `missing`. */
static long long ctf_number(const struct ctf_field *field, long long missing) {
    static const char container[] = "container = ";
    if (field->has_number) {
        if (field->form == CTF_UNSIGNED && field->number > LLONG_MAX) return LLONG_MAX;
        return (long long)field->number;
    }
    const char *at = field->value.at, *end = at + field->value.size;
    if (at < end && *at == '(') {
        size_t size = sizeof container - 1;
        while ((size_t)(end - at) > size && memcmp(at, container, size)) at++;
        if ((size_t)(end - at) <= size) return missing;
        at += size;
    }
    /* most have a few decimal digits */
    if (end - at < 18 && at < end && ((*at >= '1' && *at <= '9') || end - at == 1)) {
        long long number = 0;
        const char *each = at;
        for (; each < end && *each >= '0' && *each <= '9'; each++) number = number * 10 + *each - '0';
        if (each == end) return number;
    }
    char digits[24];
    size_t size = 0;
    while (at < end && size < sizeof digits - 1 && *at != ' ' && *at != ')') digits[size++] = *at++;
    digits[size] = 0;
    char *rest;
    long long number = strtoll(digits, &rest, 0);
    return size && !*rest ? number : missing;
}

struct ctf_out {
    char *at, *end;
};

static inline void ctf_put(struct ctf_out *out, const char *at, size_t size) {
    if (size > (size_t)(out->end - out->at)) size = (size_t)(out->end - out->at);
    char *to = out->at;
    out->at += size;
    /* most are short, for which two moves that overlap take less than a call */
    if (size > 16) {
        memcpy(to, at, size);
    } else if (size >= 8) {
        uint64_t first, last;
        memcpy(&first, at, 8);
        memcpy(&last, at + size - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + size - 8, &last, 8);
    } else if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, at, 4);
        memcpy(&last, at + size - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + size - 4, &last, 4);
    } else if (size) {
        to[0] = at[0];
        to[size / 2] = at[size / 2];
        to[size - 1] = at[size - 1];
    }
}

static inline void ctf_word(struct ctf_out *out, const char *word) { ctf_put(out, word, strlen(word)); }

/* Write a number with at least so many digits. */
static void ctf_digits(struct ctf_out *out, long long number, int least) {
    char text[24], *end = text + sizeof text;
    char *begin = decimal_before(end, number < 0 ? -(uint64_t)number : (uint64_t)number);
    while (end - begin < least) *--begin = '0';
    if (number < 0) *--begin = '-';
    ctf_put(out, begin, (size_t)(end - begin));
}

static void ctf_unsigned(struct ctf_out *out, uint64_t number) {
    char text[24], *end = text + sizeof text, *begin = decimal_before(end, number);
    ctf_put(out, begin, (size_t)(end - begin));
}

static void ctf_integer(struct ctf_out *out, long long number) { ctf_digits(out, number, 1); }

/* Write what babeltrace2 printed without quotes and escapes; what is not printable is a blank. */
static void ctf_printed(struct ctf_out *out, struct ctf_text value) {
    const char *at = value.at, *end = at + value.size;
    int quoted = value.size >= 2 && *at == '"' && end[-1] == '"';
    if (quoted) {
        at++;
        end--;
    }
    for (; at < end && out->at < out->end; at++) {
        char c = *at;
        if (quoted && c == '\\' && at + 1 < end) {
            c = *++at;
            if (c == 'x' && end - at > 2) at += 2;
            if (c && strchr("0abefnrtvx", c)) c = ' ';
        }
        if (!quoted && c == ' ') continue;
        *out->at++ = (unsigned char)c < ' ' ? ' ' : c;
    }
}

/* A letter of ps for the mask of a state: TASK_* of include/linux/sched.h. */
static char ctf_state_letter(long long mask, int is_old) {
    if (mask & 1) return 'S';
    if (mask & 2) return mask & 0x400 ? 'I' : 'D';
    if (mask & 4) return 'T';
    if (mask & 8) return 't';
    if (mask & 16) return 'X';
    if (mask & 32) return 'Z';
    if (mask & 64) return is_old ? 'X' : 'P';
    if (mask & 128 && !is_old) return 'X';
    if (mask & 512 && is_old) return 'P';
    return mask & (is_old ? 1024 : 256) ? '+' : 'R';
}

static inline void ctf_value(struct ctf_out *out, const struct ctf_field *field) {
    if (field->form == CTF_PLAIN) ctf_put(out, field->value.at, field->value.size);
    else if (field->form == CTF_SIGNED) ctf_integer(out, (long long)field->number);
    else if (field->form == CTF_UNSIGNED) ctf_unsigned(out, field->number);
    else ctf_printed(out, field->value);
}

/* Whether a value is a text that is not empty. */
static inline int ctf_has_text(const struct ctf_field *field) {
    return field && (field->form == CTF_PLAIN ? field->value.size : field->value.size > 2);
}

static inline const struct ctf_field *ctf_find(
    const struct ctf_field *fields, int count, const char *key
) {
    for (int each = 0; each < count; each++)
        if (ctf_is(fields[each].key, key)) return &fields[each];
    return NULL;
}

/* Return the number in a field, or `missing` if there is none. */
static inline long long ctf_id(
    const struct ctf_field *fields, int count, const char *key, long long missing
) {
    const struct ctf_field *found = ctf_find(fields, count, key);
    return found ? ctf_number(found, missing) : missing;
}

static void ctf_rw(struct ctf_out *out, long long mask) {
    /* LTTng's bits: write, discard, read */
    ctf_word(out, mask & 2 ? "D" : mask & 1 ? "W" : "R");
}

/* Write the fields of an event as the kernel's text has them. */
static void ctf_fields(
    struct ctf_out *out,
    struct ctf_text event,
    const struct ctf_field *fields,
    int count,
    const struct ctf_state *state
) {
    static const char *softirqs[] = {"HI",       "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
                                     "IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU"};
    int is_switch = ctf_is(event, "sched_switch");
    int is_sched = ctf_begins(event, "sched_");
    int is_softirq = ctf_begins(event, "irq_softirq_");
    if (ctf_begins(event, "block_rq_") && ctf_find(fields, count, "rwbs")) {
        long long dev = ctf_id(fields, count, "dev", 0);
        ctf_integer(out, dev >> 20);
        ctf_word(out, ",");
        ctf_integer(out, dev & 0xfffff);
        ctf_word(out, " ");
        ctf_rw(out, ctf_id(fields, count, "rwbs", 0));
        ctf_word(out, ctf_is(event, "block_rq_complete") ? " () " : " 0 () ");
        ctf_integer(out, ctf_id(fields, count, "sector", 0));
        ctf_word(out, " + ");
        ctf_integer(out, ctf_id(fields, count, "nr_sector", 0));
        ctf_word(out, " [0]");
        return;
    }
    char *begin = out->at;
    for (int each = 0; each < count; each++) {
        struct ctf_text key = fields[each].key;
        if (key.size && *key.at == '_' && key.size > 1 && key.at[1] != '_') {
            key.at++;
            key.size--;
        }
        if (ctf_begins(key, "perf_") || ctf_begins(key, "common_")) continue;
        if (out->at > begin) ctf_word(out, " ");
        if (is_switch && ctf_is(key, "next_comm")) ctf_word(out, "==> ");
        if (is_sched && ctf_is(key, "tid")) ctf_word(out, "pid");
        else if (is_switch && ctf_is(key, "prev_tid")) ctf_word(out, "prev_pid");
        else if (is_switch && ctf_is(key, "next_tid")) ctf_word(out, "next_pid");
        else ctf_put(out, key.at, key.size);
        ctf_word(out, "=");
        if (is_switch && ctf_is(key, "prev_state")) {
            char letter = ctf_state_letter(ctf_number(&fields[each], 0), state->is_old);
            ctf_word(out, letter == '+' ? "R+" : (char[]){letter, 0});
        } else if (ctf_is(key, "target_cpu")) {
            ctf_digits(out, ctf_number(&fields[each], 0), 3);
        } else {
            ctf_value(out, &fields[each]);
        }
        if (is_softirq && ctf_is(key, "vec")) {
            long long vec = ctf_number(&fields[each], -1);
            ctf_word(out, " [action=");
            if (vec >= 0 && vec < 10) ctf_word(out, softirqs[vec]);
            else ctf_integer(out, vec);
            ctf_word(out, "]");
        }
    }
}

/* Write an event as a line; return 0 if it is none of a CPU and thread. The output has room. */
static int ctf_write(
    struct ctf_out *out, const struct ctf_event *found, struct ctf_state *state
) {
    const struct ctf_field *fields = found->fields, *payload = fields + found->contexts;
    struct ctf_text event = found->name;
    int size = found->count - found->contexts, contexts = found->contexts;
    int is_perf = found->is_perf && ctf_find(payload, size, "perf_cpu");
    if (is_perf) contexts = found->count;
    const char *colon = is_perf ? memchr(event.at, ':', event.size) : NULL;
    if (colon) {
        event.size -= (size_t)(colon + 1 - event.at);
        event.at = colon + 1;
    }
    const struct ctf_field *cpu_field = ctf_find(fields, contexts, is_perf ? "perf_cpu" : "cpu_id");
    long long cpu = cpu_field ? ctf_number(cpu_field, -1) : 0;
    if (cpu < 0 || cpu >= CTF_CPUS) return 0;
    long long tid = ctf_id(fields, contexts, "vtid", -1);
    if (tid < 0) tid = ctf_id(fields, contexts, "tid", -1);
    if (tid < 0) tid = ctf_id(fields, contexts, "perf_tid", -1);
    if (tid > 0x7fffffff) return 0;
    const struct ctf_field *comm = ctf_find(fields, contexts, "procname");
    if (!comm) comm = ctf_find(fields, contexts, "_procname");
    /* the name and the id of the thread, as the kernel prints them before the time */
    int is_guess = tid < 0;
    if (tid < 0) tid = state->tid[cpu];
    if (ctf_has_text(comm)) ctf_value(out, comm);
    else if (tid >= 0 && tid == state->tid[cpu]) ctf_word(out, state->comm[cpu]);
    else ctf_word(out, "<...>");
    ctf_word(out, "-");
    ctf_integer(out, tid < 0 ? 0 : tid);
    ctf_word(out, " [");
    ctf_digits(out, cpu, 3);
    /* the thread of the last switch is a guess, which proves nothing */
    ctf_word(out, is_guess ? "] ?... " : "] ");
    if (found->time.size) {
        ctf_put(out, found->time.at, found->time.size);
    } else {
        ctf_integer(out, found->seconds);
        ctf_word(out, ".");
        ctf_digits(out, found->nanoseconds, 9);
    }
    ctf_word(out, ": ");
    if (ctf_is(event, "lttng_ust_cyg_profile:func_entry") ||
        ctf_is(event, "lttng_ust_cyg_profile_fast:func_entry")) {
        const struct ctf_field *address = ctf_find(payload, size, "addr");
        ctf_word(out, "tracing_mark_write: B|0|");
        if (address) ctf_value(out, address);
    } else if (ctf_is(event, "lttng_ust_cyg_profile:func_exit") ||
               ctf_is(event, "lttng_ust_cyg_profile_fast:func_exit")) {
        ctf_word(out, "tracing_mark_write: E|0");
    } else {
        struct ctf_text rest = event;
        if (ctf_begins(event, "syscall_entry_") || ctf_begins(event, "syscall_exit_")) {
            int is_entry = ctf_begins(event, "syscall_entry_");
            ctf_word(out, is_entry ? "sys_enter_" : "sys_exit_");
            rest.at += is_entry ? 14 : 13;
            rest.size -= is_entry ? 14 : 13;
        } else if (ctf_begins(event, "irq_softirq_")) {
            rest.at += 4;
            rest.size -= 4;
        }
        char *begin = out->at;
        ctf_put(out, rest.at, rest.size);
        for (; begin < out->at; begin++)
            if (*begin == ':') *begin = '.';
        ctf_word(out, ": ");
        ctf_fields(out, event, payload, size, state);
    }
    ctf_word(out, "\n");
    if (ctf_is(event, "sched_switch")) {
        const struct ctf_field *next = ctf_find(payload, size, "next_tid");
        if (!next) next = ctf_find(payload, size, "next_pid");
        struct ctf_out kept = {state->comm[cpu], state->comm[cpu] + CTF_COMM - 1};
        state->tid[cpu] = next ? ctf_number(next, -1) : -1;
        if ((comm = ctf_find(payload, size, "next_comm"))) ctf_value(&kept, comm);
        *kept.at = 0;
    }
    return 1;
}

#endif
