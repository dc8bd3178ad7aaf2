/* Lines of babeltrace2, read as events, and written as `ctf_event.h` does.
 *
 *     [1457113582.794569892] sched_switch: { cpu_id = 5 }, { prev_comm = "a", prev_tid = 1, ... }
 *
 * The braces have the contexts of the packet, the stream and the event, and at last its fields; the
 * converter of perf writes one pair of braces.
 */
#ifndef MEANTIME_CTF_TEXT_H
#define MEANTIME_CTF_TEXT_H

#include "ctf_event.h"

enum { CTF_GROUPS = 8 };

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
    int quotes = *value == '"';
    field->key.at = key;
    field->key.size = (size_t)(at - key);
    at = value;
    if (quotes) {
        for (at++; at < end && *at != '"'; at++)
            if (*at == '\\' || (unsigned char)*at < ' ') return NULL;
        at++;
    } else {
        while (at < end && ctf_ordinary(*at)) at++;
        if (at == value) return NULL;
    }
    if (end - at < 2 || (*at != ',' && memcmp(at, " }", 2))) return NULL;
    field->value.at = value + quotes;
    field->value.size = (size_t)(at - value) - 2 * (size_t)quotes;
    field->form = CTF_PLAIN;
    field->has_number = 0;
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
                fields[*count].form = CTF_PRINTED;
                fields[*count].has_number = 0;
                (*count)++;
            } else {
                state->dropped_fields++;
            }
        }
        at = *stop == ',' ? stop + 1 : stop;
    }
}

/* Rewrite one line; return whether it is one of an event. The output has room for it. */
static int ctf_line(
    const char *at, const char *end, struct ctf_out *out, struct ctf_state *state
) {
    struct ctf_field fields[CTF_FIELDS];
    int groups = 0, count = 0;
    if (at >= end || *at != '[') return 0;
    const char *time = at + 1, *close = memchr(at, ']', (size_t)(end - at));
    if (close == NULL || close + 2 >= end) return 0;
    const char *name = close + 2, *brace = ctf_after(name, end, ':', ": {");
    if (brace == NULL) return 0;
    for (const char *each = name; each < brace; each++)
        if (*each == ' ') name = each + 1;
    struct ctf_event event = {.time = {time, (size_t)(close - time)},
                              .name = {name, (size_t)(brace - name)},
                              .fields = fields};
    at = brace + 2;
    for (;;) {
        if (groups++ == CTF_GROUPS) return 0;
        event.contexts = count;
        at = ctf_group(at, end, fields, &count, state);
        if (at == NULL) return 0;
        if (at + 2 >= end || memcmp(at, ", {", 3)) break;
        at += 2;
    }
    event.count = count;
    event.is_perf = groups == 1;
    return ctf_write(out, &event, state);
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
