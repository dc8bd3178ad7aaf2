/* Arguments of events, which are JSON, as other formats have them.
 *
 * What is written is what the functions of `meantime.views.export` with the same tasks write, except
 * that doubles have the digits that they are given with. Those functions also convert what is left to
 * them, for which 0 or NULL is returned: text that is not RFC 8259, keys with escapes or that are
 * repeated, and what is large or deep.
 *
 * The interpreter's lock must be held: it converts doubles.
 */
#ifndef MEANTIME_ARGUMENT_JSON_H
#define MEANTIME_ARGUMENT_JSON_H

#include <Python.h>

#include "json_text.h"
#include "varint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    AJ_DEEPEST = 16,   /* the functions in Python treat more than 20 levels differently */
    AJ_MOST_KEYS = 48, /* of one object: each is compared with those before it */
    AJ_MOST_DIGITS = 18,
    AJ_MOST_FLOAT = 60,
    AJ_MOST_BYTES = 1 << 16,
};

/* Text that grows. */
typedef struct {
    char *data;
    int64_t size, room;
    int no_memory;
} aj_text;

/* Returns where so many bytes can be written, or NULL without memory. */
static char *aj_ahead(aj_text *text, int64_t more)
{
    if (more > text->room - text->size) {
        int64_t room = 2 * (text->size + more) + 256;
        char *grown = (char *)realloc(text->data, (size_t)room);
        if (!grown) {
            text->no_memory = 1;
            return NULL;
        }
        text->data = grown;
        text->room = room;
    }
    return text->data + text->size;
}

static int aj_put(aj_text *text, const char *from, int64_t size)
{
    char *out = aj_ahead(text, size);
    if (!out)
        return 0;
    memcpy(out, from, (size_t)size);
    text->size += size;
    return 1;
}

#define AJ_PUT(text, literal) aj_put(text, literal, (int64_t)sizeof(literal) - 1)

/* The keys of an object that were read so far. */
typedef struct {
    const char *at[AJ_MOST_KEYS];
    int64_t size[AJ_MOST_KEYS];
    int count;
} aj_keys;

/* Reads the key at or after `at`. Returns its value, or NULL if it is left to Python. */
static const char *aj_read_key(aj_keys *keys, const char *at, const char *end)
{
    json_fault fault;
    int escaped;
    const char *key = json_skip_blanks(at, end) + 1, *quote = json_string(key, end, &escaped, &fault);
    const int64_t size = quote - key;
    if (escaped || keys->count == AJ_MOST_KEYS)
        return NULL;
    for (int i = 0; i < keys->count; i++)
        if (keys->size[i] == size && !memcmp(keys->at[i], key, (size_t)size))
            return NULL;
    keys->at[keys->count] = key;
    keys->size[keys->count++] = size;
    return json_skip_blanks(json_skip_blanks(quote + 1, end) + 1, end);
}

/* The members of an object or an array, one after the other. */
typedef struct {
    aj_keys keys;
    const char *at;  /* the value; behind the last, what follows; NULL if it is left to Python */
    const char *key; /* of an object, the key of the value */
    int64_t key_size;
    int is_object, count; /* how many values have begun */
} aj_members;

static void aj_enter(aj_members *members, const char *at)
{
    members->keys.count = 0;
    members->at = at;
    members->key = "";
    members->key_size = 0;
    members->is_object = *at == '{';
    members->count = 0;
}

/* Moves to the next value, once `at` is behind the one before; returns whether there is one. */
static int aj_next(aj_members *members, const char *end)
{
    const char *at = json_skip_blanks(members->at + !members->count, end);
    if (members->count ? *at != ',' : *at == (members->is_object ? '}' : ']')) {
        members->at = at + 1;
        return 0;
    }
    at += members->count++ > 0;
    if (!members->is_object) {
        members->at = json_skip_blanks(at, end);
        return 1;
    }
    if (!(members->at = aj_read_key(&members->keys, at, end)))
        return 0;
    members->key = members->keys.at[members->keys.count - 1];
    members->key_size = members->keys.size[members->keys.count - 1];
    return 1;
}

static int aj_key_is(const aj_members *members, const char *name)
{
    return members->key_size == (int64_t)strlen(name)
        && !memcmp(members->key, name, (size_t)members->key_size);
}

/* The end of a number, and whether it is a double. */
static const char *aj_number_end(const char *at, int *is_double)
{
    *is_double = 0;
    for (;; at++) {
        if (*at == '.' || *at == 'e' || *at == 'E')
            *is_double = 1;
        else if (!json_is_digit(*at) && *at != '-' && *at != '+')
            return at;
    }
}

/* Reads a double; 0 if it is left to Python. */
static int aj_double(const char *at, const char *end, double *value)
{
    char copy[AJ_MOST_FLOAT + 1];
    char *stop;
    if (json_exact_double(at, end, value))
        return 1;
    if (end - at > AJ_MOST_FLOAT)
        return 0;
    memcpy(copy, at, (size_t)(end - at));
    copy[end - at] = 0;
    *value = PyOS_string_to_double(copy, &stop, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return stop == copy + (end - at);
}

/* Writes a number as it is given; 0 if it is left to Python. */
static int aj_put_number(aj_text *text, const char *at, const char *end, int is_double)
{
    /* Python reads -0 as 0 */
    if (is_double ? end - at > AJ_MOST_FLOAT
                  : end - at > AJ_MOST_DIGITS || (*at == '-' && at[1] == '0'))
        return 0;
    return aj_put(text, at, end - at);
}

/* Reads a character of more than one byte, which was checked. */
static const char *aj_character(const char *at, unsigned *character)
{
    const unsigned char lead = (unsigned char)*at;
    int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    *character = lead & (0x3Fu >> more);
    for (at++; more; more--, at++)
        *character = *character << 6 | ((unsigned char)*at & 0x3F);
    return at;
}

static char *aj_put_unit(char *out, unsigned unit)
{
    static const char digit[] = "0123456789abcdef";
    *out++ = '\\';
    *out++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *out++ = digit[unit >> shift & 15];
    return out;
}

/* Writes the inside of a checked string as Python prints it, which is in ASCII, with quotes. */
static int aj_put_string(aj_text *text, const char *at, const char *end)
{
    json_fault fault;
    unsigned character;
    char *out = aj_ahead(text, 6 * (end - at) + 2), *begin = out;
    if (!out)
        return 0;
    *out++ = '"';
    while (at < end) {
        if (*at == '\\')
            at = json_escape(at, end, &character, &fault);
        else if ((unsigned char)*at < 0x80) {
            character = (unsigned char)*at++;
        } else
            at = aj_character(at, &character);
        if (character == '"' || character == '\\') {
            *out++ = '\\';
            *out++ = (char)character;
        } else if (character >= ' ' && character <= '~')
            *out++ = (char)character;
        else if (character < 0x20 && character && strchr("\b\f\n\r\t", (int)character)) {
            *out++ = '\\';
            *out++ = character == '\b' ? 'b'
                : character == '\f'    ? 'f'
                : character == '\n'    ? 'n'
                : character == '\r'    ? 'r'
                                       : 't';
        } else if (character < 0x10000)
            out = aj_put_unit(out, character);
        else {
            out = aj_put_unit(out, 0xD800 + ((character - 0x10000) >> 10));
            out = aj_put_unit(out, 0xDC00 + ((character - 0x10000) & 0x3FF));
        }
    }
    *out++ = '"';
    text->size += out - begin;
    return 1;
}

/* The closing quote of a checked string. */
static const char *aj_quote(const char *at, const char *end, int *escaped)
{
    json_fault fault;
    return json_string(at + 1, end, escaped, &fault);
}

/* Values as JSON. Returns what follows, or NULL if it is left to Python. */
static const char *aj_json(aj_text *text, const char *at, const char *end, int depth)
{
    aj_members members;
    int flag;
    const char *stop;
    if (depth > AJ_DEEPEST)
        return NULL;
    switch (*at) {
    case '"':
        stop = aj_quote(at, end, &flag);
        return aj_put_string(text, at + 1, stop) ? stop + 1 : NULL;
    case 't':
        return AJ_PUT(text, "true") ? at + 4 : NULL;
    case 'f':
        return AJ_PUT(text, "false") ? at + 5 : NULL;
    case 'n':
        return AJ_PUT(text, "null") ? at + 4 : NULL;
    case '{':
    case '[':
        break;
    default:
        stop = aj_number_end(at, &flag);
        return aj_put_number(text, at, stop, flag) ? stop : NULL;
    }
    aj_enter(&members, at);
    if (!aj_put(text, at, 1))
        return NULL;
    while (aj_next(&members, end)) {
        if (members.count > 1 && !AJ_PUT(text, ", "))
            return NULL;
        if (members.is_object
            && (!aj_put_string(text, members.key, members.key + members.key_size)
                || !AJ_PUT(text, ": ")))
            return NULL;
        if (!(members.at = aj_json(text, members.at, end, depth + 1)))
            return NULL;
    }
    return members.at && aj_put(text, members.at - 1, 1) ? members.at : NULL;
}

/* Values as those of attributes of OpenTelemetry. */
static const char *aj_otlp(aj_text *text, const char *at, const char *end, int depth)
{
    aj_members members;
    int flag;
    const char *stop;
    if (depth > AJ_DEEPEST)
        return NULL;
    switch (*at) {
    case '"':
        stop = aj_quote(at, end, &flag);
        return AJ_PUT(text, "{\"stringValue\": ") && aj_put_string(text, at + 1, stop)
                && AJ_PUT(text, "}")
            ? stop + 1
            : NULL;
    case 't':
        return AJ_PUT(text, "{\"boolValue\": true}") ? at + 4 : NULL;
    case 'f':
        return AJ_PUT(text, "{\"boolValue\": false}") ? at + 5 : NULL;
    case 'n':
        return AJ_PUT(text, "{}") ? at + 4 : NULL;
    case '{':
    case '[':
        break;
    default:
        stop = aj_number_end(at, &flag);
        if (flag)
            flag = AJ_PUT(text, "{\"doubleValue\": ") && aj_put_number(text, at, stop, 1)
                && AJ_PUT(text, "}");
        else
            flag = AJ_PUT(text, "{\"intValue\": \"") && aj_put_number(text, at, stop, 0)
                && AJ_PUT(text, "\"}");
        return flag ? stop : NULL;
    }
    aj_enter(&members, at);
    if (!(members.is_object ? AJ_PUT(text, "{\"kvlistValue\": {\"values\": [")
                            : AJ_PUT(text, "{\"arrayValue\": {\"values\": [")))
        return NULL;
    while (aj_next(&members, end)) {
        if (members.count > 1 && !AJ_PUT(text, ", "))
            return NULL;
        if (members.is_object
            && (!AJ_PUT(text, "{\"key\": ")
                || !aj_put_string(text, members.key, members.key + members.key_size)
                || !AJ_PUT(text, ", \"value\": ")))
            return NULL;
        if (!(members.at = aj_otlp(text, members.at, end, depth + 1))
            || (members.is_object && !AJ_PUT(text, "}")))
            return NULL;
    }
    return members.at && AJ_PUT(text, "]}}") ? members.at : NULL;
}

/* Fields of protobuf messages, whose numbers are below 16. */

enum { AJ_VARINT = 0, AJ_FIXED64 = 1, AJ_BYTES = 2 };

static int aj_put_integer(aj_text *text, int field, uint64_t value)
{
    char *out = aj_ahead(text, 11), *begin = out;
    if (!out)
        return 0;
    *out++ = (char)(field << 3 | AJ_VARINT);
    out = put_varint(out, value);
    text->size += out - begin;
    return 1;
}

static int aj_put_bytes(aj_text *text, int field, const char *from, int64_t size)
{
    char *out = aj_ahead(text, 11 + size), *begin = out;
    if (!out)
        return 0;
    *out++ = (char)(field << 3 | AJ_BYTES);
    out = put_varint(out, (uint64_t)size);
    memcpy(out, from, (size_t)size);
    text->size += out + size - begin;
    return 1;
}

/* Begins a message whose length is not known yet; returns where its content begins, 0 without
 * memory. */
static int64_t aj_begin(aj_text *text, int field)
{
    char *out = aj_ahead(text, 2);
    if (!out)
        return 0;
    out[0] = (char)(field << 3 | AJ_BYTES);
    text->size += 2;
    return text->size;
}

/* Ends a message, for whose length one byte was left. */
static int aj_end(aj_text *text, int64_t begin)
{
    const int64_t size = text->size - begin;
    const int more = varint_bytes((uint64_t)size) - 1;
    if (!aj_ahead(text, more))
        return 0;
    if (more)
        memmove(text->data + begin + more, text->data + begin, (size_t)size);
    put_varint(text->data + begin - 1, (uint64_t)size);
    text->size += more;
    return 1;
}

/* The name and the value of an argument, as the content of a DebugAnnotation. */
static const char *aj_annotation(
    aj_text *text, const char *name, int64_t name_size, const char *at, const char *end, int depth)
{
    aj_members members;
    int flag;
    double value;
    uint64_t bits;
    int64_t begin;
    char *out;
    const char *stop;
    if (depth > AJ_DEEPEST || (name_size && !aj_put_bytes(text, 10, name, name_size)))
        return NULL;
    switch (*at) {
    case '"':
        stop = aj_quote(at, end, &flag);
        if (!flag)
            return aj_put_bytes(text, 6, at + 1, stop - at - 1) ? stop + 1 : NULL;
        if (!(begin = aj_begin(text, 6)) || !(out = aj_ahead(text, stop - at)))
            return NULL;
        text->size += (int64_t)json_unescape(at + 1, (size_t)(stop - at - 1), out);
        return aj_end(text, begin) ? stop + 1 : NULL;
    case 't':
        return aj_put_integer(text, 2, 1) ? at + 4 : NULL;
    case 'f':
        return aj_put_integer(text, 2, 0) ? at + 5 : NULL;
    case 'n':
        return aj_put_bytes(text, 6, "null", 4) ? at + 4 : NULL;
    case '{':
    case '[':
        break;
    default:
        stop = aj_number_end(at, &flag);
        if (flag) {
            if (!aj_double(at, stop, &value) || !(out = aj_ahead(text, 9)))
                return NULL;
            *out = (char)(5 << 3 | AJ_FIXED64);
            memcpy(&bits, &value, 8);
            for (int i = 0; i < 8; i++)
                out[1 + i] = (char)(bits >> 8 * i);
            text->size += 9;
            return stop;
        }
        if (stop - at > AJ_MOST_DIGITS)
            return NULL;
        bits = 0;
        for (const char *digit = at + (*at == '-'); digit < stop; digit++)
            bits = bits * 10 + (uint64_t)(*digit - '0');
        return aj_put_integer(text, 4, *at == '-' ? 0 - bits : bits) ? stop : NULL;
    }
    aj_enter(&members, at);
    while (aj_next(&members, end))
        if (!(begin = aj_begin(text, members.is_object ? 11 : 12))
            || !(members.at = aj_annotation(
                     text, members.key, members.key_size, members.at, end, depth + 1))
            || !aj_end(text, begin))
            return NULL;
    return members.at;
}

/* The arguments of one event. They add to a text, or nothing if they return 0. */

static int aj_is_whole(const char *at, const char *end)
{
    json_fault fault;
    return end - at <= AJ_MOST_BYTES && json_value(at, end, 0, &fault) == end;
}

static int aj_undo(aj_text *text, int64_t size)
{
    text->size = size;
    return 0;
}

/* As the data of a marker of Firefox: all fields but `type`, or one that is called `value`. */
static int aj_marker(aj_text *text, const char *at, const char *end)
{
    const int64_t before = text->size;
    aj_members members;
    json_fault fault;
    int done;
    if (!aj_is_whole(at, end))
        return 0;
    at = json_skip_blanks(at, end);
    if (!AJ_PUT(text, "{\"type\": \"Arguments\""))
        return aj_undo(text, before);
    if (*at != '{') {
        done = AJ_PUT(text, ", \"value\": ") && aj_json(text, at, end, 0) && AJ_PUT(text, "}");
        return done ? 1 : aj_undo(text, before);
    }
    aj_enter(&members, at);
    while (aj_next(&members, end)) {
        if (aj_key_is(&members, "type"))
            members.at = json_value(members.at, end, 0, &fault);
        else if (!AJ_PUT(text, ", ")
            || !aj_put_string(text, members.key, members.key + members.key_size)
            || !AJ_PUT(text, ": ") || !(members.at = aj_json(text, members.at, end, 0)))
            return aj_undo(text, before);
    }
    return members.at && AJ_PUT(text, "}") ? 1 : aj_undo(text, before);
}

/* As debug annotations of a track event of Perfetto. */
static int aj_annotations(aj_text *text, const char *at, const char *end)
{
    const int64_t before = text->size;
    int64_t begin;
    aj_members members;
    if (!aj_is_whole(at, end))
        return 0;
    at = json_skip_blanks(at, end);
    if (*at != '{') {
        if ((begin = aj_begin(text, 4)) && aj_annotation(text, "value", 5, at, end, 0)
            && aj_end(text, begin))
            return 1;
        return aj_undo(text, before);
    }
    aj_enter(&members, at);
    while (aj_next(&members, end))
        if (!(begin = aj_begin(text, 4))
            || !(members.at
                 = aj_annotation(text, members.key, members.key_size, members.at, end, 0))
            || !aj_end(text, begin))
            return aj_undo(text, before);
    return members.at ? 1 : aj_undo(text, before);
}

/* What a span of a service is, apart from its attributes. */
typedef struct {
    uint64_t trace[2], span, parent; /* 0 for none */
    int kind;                        /* index into the kinds, 0 for none */
    int is_error;
} aj_service;

/* Compares a string that is a value; -1 if it has escapes. */
static int aj_is(const char *at, const char *end, const char *word)
{
    int escaped;
    const char *stop;
    if (*at != '"')
        return 0;
    stop = aj_quote(at, end, &escaped);
    if (escaped)
        return -1;
    return stop - at - 1 == (int64_t)strlen(word) && !memcmp(at + 1, word, (size_t)(stop - at - 1));
}

/* Reads an id of 16 lower-case digits for each of `words`, which become 0 if it is another value.
 * Returns 0 if it has escapes. */
static int aj_id(const char *at, const char *end, uint64_t *id, int words)
{
    int escaped = 0;
    const char *stop = *at == '"' ? aj_quote(at, end, &escaped) : at;
    memset(id, 0, (size_t)words * sizeof *id);
    if (escaped || stop - at - 1 != 16 * words)
        return !escaped;
    at++;
    for (int i = 0; i < 16 * words; i++, at++) {
        int digit = *at >= 'A' && *at <= 'F' ? -1 : json_hex(*at);
        if (digit < 0) {
            memset(id, 0, (size_t)words * sizeof *id);
            return 1;
        }
        id[i >> 4] = id[i >> 4] << 4 | (uint64_t)digit;
    }
    return 1;
}

/* Whether the last key is not that of an attribute which the program gave the span. */
static int aj_is_own(const aj_members *members)
{
    static const char *const names[] = {
        "trace_id", "span_id", "parent_id", "status", "kind", "thread.id", "thread.name"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (aj_key_is(members, names[i]))
            return 1;
    return 0;
}

/* As attributes of OpenTelemetry, without the brackets around them. If `service` is given, those that
 * are of the span itself (`meantime.model.service_spans.OWN_FIELDS`) are left out and become that, and
 * without a text only these are read. */
static int aj_attributes(aj_text *text, aj_service *service, const char *at, const char *end)
{
    static const char *const kinds[] = {"", "internal", "server", "client", "producer", "consumer"};
    const int64_t before = text ? text->size : 0;
    aj_members members;
    json_fault fault;
    const char *value;
    int is_first = 1, same, done;
    if (service)
        memset(service, 0, sizeof *service);
    if (!aj_is_whole(at, end))
        return 0;
    at = json_skip_blanks(at, end);
    if (*at != '{') {
        done = !text
            || (AJ_PUT(text, "{\"key\": \"value\", \"value\": ") && aj_otlp(text, at, end, 0)
                && AJ_PUT(text, "}"));
        return done ? 1 : aj_undo(text, before);
    }
    aj_enter(&members, at);
    while (aj_next(&members, end)) {
        value = members.at;
        at = NULL;
        if (!service || !aj_is_own(&members)) {
            if (text) {
                if ((!is_first && !AJ_PUT(text, ", ")) || !AJ_PUT(text, "{\"key\": ")
                    || !aj_put_string(text, members.key, members.key + members.key_size)
                    || !AJ_PUT(text, ", \"value\": ") || !(at = aj_otlp(text, value, end, 0))
                    || !AJ_PUT(text, "}"))
                    goto left;
                is_first = 0;
            }
        } else if (aj_key_is(&members, "trace_id")) {
            if (!aj_id(value, end, service->trace, 2))
                goto left;
        } else if (aj_key_is(&members, "span_id")) {
            if (!aj_id(value, end, &service->span, 1))
                goto left;
        } else if (aj_key_is(&members, "parent_id")) {
            if (!aj_id(value, end, &service->parent, 1))
                goto left;
        } else if (aj_key_is(&members, "status")) {
            if ((same = aj_is(value, end, "error")) < 0)
                goto left;
            service->is_error = same;
        } else if (aj_key_is(&members, "kind")) {
            for (int kind = 1; kind < 6; kind++) {
                if ((same = aj_is(value, end, kinds[kind])) < 0)
                    goto left;
                if (same)
                    service->kind = kind;
            }
        } else {
            /* the thread's own id and name replace these */
            goto left;
        }
        members.at = at ? at : json_value(value, end, 0, &fault);
    }
    if (members.at)
        return 1;
left:
    return text ? aj_undo(text, before) : 0;
}

#endif
