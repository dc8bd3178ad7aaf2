/* Lines of babeltrace2, rewritten as ftrace text, which `perf_text.h` scans.
 *
 *     [1457113582.794569892] sched_switch: { cpu_id = 5 }, { prev_comm = "a", prev_tid = 1, ... }
 *
 * becomes
 *
 *     b-7 [005] 1457113582.794569892: sched_switch: prev_comm=a prev_pid=1 ... ==> next_comm=b ...
 *
 * The braces have the contexts of the packet, the stream and the event, and at last its fields; the
 * converter of perf writes one pair of braces, with its own names. A thread that no context has is
 * the one that the CPU's last switch brought. Names are those of the kernel's own text: LTTng calls
 * ids of threads `tid`, system calls `syscall_entry_X`, and prints masks as numbers.
 */
#ifndef MEANTIME_CTF_TEXT_H
#define MEANTIME_CTF_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CTF_CPUS = 4096, CTF_COMM = 64, CTF_FIELDS = 96, CTF_GROUPS = 8 };

struct ctf_text {
    const char *at;
    size_t size;
};

struct ctf_field {
    struct ctf_text key, value;
    int is_plain; /* whether the value is written as it is, without its quotes if it has some */
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

/* Return the end of a value that begins at `at`: before a comma or brace of its own level. */
static const char *ctf_value_end(const char *at, const char *end) {
    int depth = 0;
    for (; at < end; at++) {
        char c = *at;
        if (c == '"') {
            for (at++; at < end && *at != '"'; at++)
                if (*at == '\\' && at + 1 < end) at++;
            if (at >= end) return end;
        } else if (c == '{' || c == '[' || c == '(') {
            depth++;
        } else if (c == '}' || c == ']' || c == ')') {
            if (!depth) return at;
            depth--;
        } else if (c == ',' && !depth) {
            return at;
        }
    }
    return end;
}

static struct ctf_text ctf_trimmed(const char *at, const char *end) {
    while (at < end && *at == ' ') at++;
    while (at < end && end[-1] == ' ') end--;
    struct ctf_text text = {at, (size_t)(end - at)};
    return text;
}

/* Return where a word of three characters is, the first of which is given too; NULL if nowhere. */
static inline const char *ctf_after(const char *at, const char *end, char first, const char *word) {
    while (end - at >= 3 && (at = memchr(at, first, (size_t)(end - at - 2)))) {
        if (!memcmp(at, word, 3)) return at;
        at++;
    }
    return NULL;
}

/* Whether a character is neither a blank nor one that `ctf_value_end` looks for. */
static inline int ctf_ordinary(char c) {
    return c > ' ' && c != ',' && c != '"' && c != '(' && c != ')' && (c & 0x5f) != '[' &&
           (c & 0x5f) != ']';
}

/* Read a field as most are, a key and a number, word or text without escapes. Return the comma or
 * brace after it; NULL if it is not one of these. */
static inline const char *ctf_simple(const char *at, const char *end, struct ctf_field *field) {
    const char *key = at;
    while (at < end && ctf_ordinary(*at)) at++;
    if (at == key || end - at < 5 || memcmp(at, " = ", 3)) return NULL;
    const char *value = at + 3;
    field->key.at = key;
    field->key.size = (size_t)(at - key);
    at = value;
    if (*at == '"') {
        for (at++; at < end && *at != '"'; at++)
            if (*at == '\\' || (unsigned char)*at < ' ') return NULL;
        at++;
    } else {
        while (at < end && ctf_ordinary(*at)) at++;
        if (at == value) return NULL;
    }
    if (end - at < 2 || (*at != ',' && memcmp(at, " }", 2))) return NULL;
    field->value.at = value;
    field->value.size = (size_t)(at - value);
    field->is_plain = 1;
    return *at == ',' ? at : at + 1;
}

/* Read the fields between the braces at `at` into `fields`; return what follows, or NULL. */
static const char *ctf_group(
    const char *at, const char *end, struct ctf_field *fields, int *count, struct ctf_state *state
) {
    if (at >= end || *at != '{') return NULL;
    at++;
    for (;;) {
        while (at < end && *at == ' ') at++;
        if (at < end && *at == '}') return at + 1;
        const char *stop;
        if (*count < CTF_FIELDS && (stop = ctf_simple(at, end, &fields[*count]))) {
            (*count)++;
            at = *stop == ',' ? stop + 1 : stop;
            continue;
        }
        stop = ctf_value_end(at, end);
        /* another bracket that closes nothing would stop here for ever */
        if (stop >= end || (*stop != ',' && *stop != '}')) return NULL;
        const char *equals = ctf_after(at, stop, ' ', " = ");
        if (equals) {
            if (*count < CTF_FIELDS) {
                struct ctf_text key = {at, (size_t)(equals - at)};
                fields[*count].key = key;
                fields[*count].value = ctf_trimmed(equals + 3, stop);
                fields[*count].is_plain = 0;
                (*count)++;
            } else {
                state->dropped_fields++;
            }
        }
        at = *stop == ',' ? stop + 1 : stop;
    }
}

/* Return the number that a value is, has as `container = N`, or `missing`. */
static long long ctf_number(struct ctf_text value, long long missing) {
    static const char container[] = "container = ";
    const char *at = value.at, *end = at + value.size;
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
    char text[24], *begin = text + sizeof text;
    unsigned long long rest = number < 0 ? -(unsigned long long)number : (unsigned long long)number;
    do {
        *--begin = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest || text + sizeof text - begin < least);
    if (number < 0) *--begin = '-';
    ctf_put(out, begin, (size_t)(text + sizeof text - begin));
}

static void ctf_integer(struct ctf_out *out, long long number) { ctf_digits(out, number, 1); }

/* Write a value without quotes and escapes; what is not printable is a blank. */
static void ctf_plain(struct ctf_out *out, struct ctf_text value) {
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
            if (c == 'n' || c == 't' || c == 'r') c = ' ';
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

/* Write the value of a field as `ctf_plain` does. */
static inline void ctf_value(struct ctf_out *out, const struct ctf_field *field) {
    struct ctf_text value = field->value;
    int quotes = field->is_plain && *value.at == '"';
    if (field->is_plain) ctf_put(out, value.at + quotes, value.size - 2 * (size_t)quotes);
    else ctf_plain(out, value);
}

static inline struct ctf_text ctf_find(const struct ctf_field *fields, int count, const char *key) {
    for (int each = 0; each < count; each++)
        if (ctf_is(fields[each].key, key)) return fields[each].value;
    struct ctf_text none = {NULL, 0};
    return none;
}

/* Return the number in a field, -1 if there is none. */
static inline long long ctf_id(const struct ctf_field *fields, int count, const char *key) {
    struct ctf_text found = ctf_find(fields, count, key);
    return found.at ? ctf_number(found, -1) : -1;
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
    if (ctf_begins(event, "block_rq_") && ctf_find(fields, count, "rwbs").at) {
        long long dev = ctf_number(ctf_find(fields, count, "dev"), 0);
        ctf_integer(out, dev >> 20);
        ctf_word(out, ",");
        ctf_integer(out, dev & 0xfffff);
        ctf_word(out, " ");
        ctf_rw(out, ctf_number(ctf_find(fields, count, "rwbs"), 0));
        ctf_word(out, ctf_is(event, "block_rq_complete") ? " () " : " 0 () ");
        ctf_integer(out, ctf_number(ctf_find(fields, count, "sector"), 0));
        ctf_word(out, " + ");
        ctf_integer(out, ctf_number(ctf_find(fields, count, "nr_sector"), 0));
        ctf_word(out, " [0]");
        return;
    }
    char *begin = out->at;
    for (int each = 0; each < count; each++) {
        struct ctf_text key = fields[each].key, value = fields[each].value;
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
            char letter = ctf_state_letter(ctf_number(value, 0), state->is_old);
            ctf_word(out, letter == '+' ? "R+" : (char[]){letter, 0});
        } else if (ctf_is(key, "target_cpu")) {
            ctf_digits(out, ctf_number(value, 0), 3);
        } else {
            ctf_value(out, &fields[each]);
        }
        if (is_softirq && ctf_is(key, "vec")) {
            long long vec = ctf_number(value, -1);
            ctf_word(out, " [action=");
            if (vec >= 0 && vec < 10) ctf_word(out, softirqs[vec]);
            else ctf_integer(out, vec);
            ctf_word(out, "]");
        }
    }
}

/* Rewrite one line; return whether it is one of an event. The output has room for it. */
static int ctf_line(
    const char *at, const char *end, struct ctf_out *out, struct ctf_state *state
) {
    struct ctf_field fields[CTF_FIELDS];
    int first[CTF_GROUPS + 1] = {0}, groups = 0, count = 0;
    if (at >= end || *at != '[') return 0;
    const char *time = at + 1, *close = memchr(at, ']', (size_t)(end - at));
    if (close == NULL || close + 2 >= end) return 0;
    const char *name = close + 2, *brace = ctf_after(name, end, ':', ": {");
    if (brace == NULL) return 0;
    for (const char *each = name; each < brace; each++)
        if (*each == ' ') name = each + 1;
    at = brace + 2;
    for (;;) {
        if (groups == CTF_GROUPS) return 0;
        first[groups++] = count;
        at = ctf_group(at, end, fields, &count, state);
        if (at == NULL) return 0;
        if (at + 2 >= end || memcmp(at, ", {", 3)) break;
        at += 2;
    }
    first[groups] = count;
    struct ctf_text event = {name, (size_t)(brace - name)};
    int is_perf = groups == 1 && ctf_find(fields, count, "perf_cpu").at != NULL;
    const struct ctf_field *payload = fields + (is_perf ? 0 : first[groups - 1]);
    int size = (int)(fields + count - payload), contexts = is_perf ? count : first[groups - 1];
    if (is_perf && memchr(event.at, ':', event.size)) {
        const char *colon = memchr(event.at, ':', event.size);
        event.size -= (size_t)(colon + 1 - event.at);
        event.at = colon + 1;
    }
    struct ctf_text cpu_text = ctf_find(fields, contexts, is_perf ? "perf_cpu" : "cpu_id");
    long long cpu = cpu_text.at ? ctf_number(cpu_text, -1) : 0;
    if (cpu < 0 || cpu >= CTF_CPUS) return 0;
    long long tid = ctf_id(fields, contexts, "vtid");
    if (tid < 0) tid = ctf_id(fields, contexts, "tid");
    if (tid < 0) tid = ctf_id(fields, contexts, "perf_tid");
    if (tid > 0x7fffffff) return 0;
    struct ctf_text comm = ctf_find(fields, contexts, "procname");
    if (!comm.at) comm = ctf_find(fields, contexts, "_procname");
    /* the name and the id of the thread, as the kernel prints them before the time */
    if (tid < 0) tid = state->tid[cpu];
    if (comm.at && comm.size > 2) ctf_plain(out, comm);
    else if (tid >= 0 && tid == state->tid[cpu]) ctf_word(out, state->comm[cpu]);
    else ctf_word(out, "<...>");
    ctf_word(out, "-");
    ctf_integer(out, tid < 0 ? 0 : tid);
    ctf_word(out, " [");
    ctf_digits(out, cpu, 3);
    ctf_word(out, "] ");
    ctf_put(out, time, (size_t)(close - time));
    ctf_word(out, ": ");
    if (ctf_is(event, "lttng_ust_cyg_profile:func_entry") ||
        ctf_is(event, "lttng_ust_cyg_profile_fast:func_entry")) {
        ctf_word(out, "tracing_mark_write: B|0|");
        ctf_plain(out, ctf_find(payload, size, "addr"));
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
        struct ctf_text next = ctf_find(payload, size, "next_tid");
        if (!next.at) next = ctf_find(payload, size, "next_pid");
        struct ctf_out kept = {state->comm[cpu], state->comm[cpu] + CTF_COMM - 1};
        state->tid[cpu] = next.at ? ctf_number(next, -1) : -1;
        ctf_plain(&kept, ctf_find(payload, size, "next_comm"));
        *kept.at = 0;
    }
    return 1;
}

/* Rewrite the complete lines of a text; return how many of its bytes were used.
 *
 * A line becomes at most 4 times as long and 512 bytes; `*written` is the size of the output.
 */
static size_t ctf_rewrite(
    const char *text, size_t size, char *output, size_t room, size_t *written,
    struct ctf_state *state
) {
    struct ctf_out out = {output, output + room};
    size_t used = 0;
    while (used < size) {
        const char *begin = text + used, *stop = memchr(begin, '\n', size - used);
        if (stop == NULL) break;
        size_t length = (size_t)(stop - begin);
        if ((size_t)(out.end - out.at) < 4 * length + 512) break;
        char *before = out.at;
        if (!ctf_line(begin, stop, &out, state)) {
            out.at = before;
            state->unread_lines += length > 0;
        }
        used += length + 1;
    }
    *written = (size_t)(out.at - output);
    return used;
}

#endif
