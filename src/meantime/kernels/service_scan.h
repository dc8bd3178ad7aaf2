/* Spans of services into rows: exports of OpenTelemetry, as JSON and as protobuf.
 *
 * A scan is exact or does not answer. It stops at a span that is not in the usual form, or whose
 * resource or scope is new, for the caller to read that with Python, the definition of the format;
 * and it refuses a document that is not, whose rows the caller then takes back. Usual are the names
 * and types of protobuf's mapping to JSON, in camel case or snake case, ids in hexadecimal digits or
 * base64, resources before their spans, each field once, and times that are known and in order.
 */
#ifndef MEANTIME_SERVICE_SCAN_H
#define MEANTIME_SERVICE_SCAN_H

#include <Python.h>

#include "growing.h"
#include "private_names.h"
#include "varint.h"

/* Why a scan returned. */
enum { SV_MORE, SV_DOCUMENT, SV_RESOURCE, SV_SCOPE, SV_SPAN, SV_REFUSED, SV_NO_MEMORY };

/* What is open in a document. */
enum { SV_START, SV_TOP, SV_GROUPS, SV_GROUP, SV_SCOPES, SV_SCOPE_OF, SV_SPANS, SV_DONE, SV_LEVELS };

enum {
    SV_DEEPEST = 8,           /* of values in values */
    SV_MOST_KEYS = 64,        /* of one object */
    SV_MOST_WORDS = 16,       /* texts of private names, and own names */
    SV_MOST_KEY_CODES = 1 << 16,
    SV_KEY_BYTES = 32,        /* that are copied of any shorter key */
    SV_MOST_KINDS = 6,
    SV_MOST_CACHED = 1 << 23, /* bytes of resources and scopes */
    SV_LONGEST_DOUBLE = 48,
    SV_LONGEST_INTEGER = 20,
};

typedef struct {
    int64_t start_ns, end_ns;
    uint64_t trace_high, trace_low, span, parent; /* ids: 0 for none */
    int64_t offset;
    int32_t length, resource, thread, name, category;
    uint8_t kind, forms, is_error, is_unfinished;
} sv_row;

typedef struct {
    int64_t row, time_ns, offset; /* a time of 0 is unknown */
    int32_t length, name;
} sv_point;

typedef struct {
    int64_t row;
    uint64_t trace_high, trace_low, span;
    int64_t forms;
} sv_link;

typedef struct {
    void *items;
    int64_t count, room;
} sv_table;

typedef struct {
    char *at;
    int64_t size, room;
} sv_text;

typedef struct {
    const char *at;
    uint32_t size;
    int is_escaped;
} sv_string;

/* What is known of a key of attributes: its text in quotes, between a comma and a colon. */
typedef struct {
    int64_t offset;
    int32_t size, is;
    int32_t next; /* the key that came after it the last time; -1 for none */
} sv_key;

/* What attributes with a key are, in `is`. */
enum { SV_PRIVATE = 1, SV_OWN = 2, SV_STATUS_MESSAGE = 4, SV_THREAD_ID = 8 };

typedef struct {
    int64_t rows, points, links, text, is_private, dropped, scanned;
} sv_mark;

typedef struct {
    sv_table rows, points, links;
    intern_table names, threads, resources, scopes;
    sv_table resource_codes, scope_codes; /* by the text of their tables */
    intern_table keys;
    sv_table known_keys; /* by the code of a key */
    sv_text key_texts;
    int32_t last_key; /* the code of the key that was read last; -1 for none */
    sv_text text;       /* arguments of all rows */
    sv_text attributes; /* of the span that is read */
    sv_text plain;      /* a string without its escapes */
    char digits[SV_LONGEST_INTEGER]; /* of the last integer in protobuf */
    char camel[64];                  /* the name of a field that had underscores */
    int64_t is_private, dropped, scanned;
    sv_string private_words[SV_MOST_WORDS], own_words[SV_MOST_WORDS];
    int private_count, own_count, no_memory;
    /* the document that is read */
    int level, is_first, is_message;
    uint32_t seen[SV_LEVELS];
    int64_t end_of[SV_LEVELS];
    int32_t resource, category;
    int64_t position, stop_offset, stop_length;
} sv_scan;

static inline void *sv_push(sv_table *table, size_t width)
{
    if (table->count == table->room) {
        int64_t room = capacity_ahead(table->room, width);
        if (!column_grow(&table->items, room, width))
            return NULL;
        table->room = room;
    }
    return (char *)table->items + table->count++ * width;
}

/* Makes room for more bytes; NULL if there is none. */
static inline char *sv_room(sv_scan *s, sv_text *text, size_t more)
{
    if ((size_t)(text->room - text->size) < more) {
        int64_t room = capacity_ahead(text->size + (int64_t)more, 1);
        if (!column_grow((void **)&text->at, room, 1)) {
            s->no_memory = 1;
            return NULL;
        }
        text->room = room;
    }
    return text->at + text->size;
}

static inline int sv_put(sv_scan *s, sv_text *text, const char *at, size_t size)
{
    char *to = sv_room(s, text, size);
    if (!to)
        return 0;
    memcpy(to, at, size);
    text->size += (int64_t)size;
    return 1;
}

#define SV_PUT(s, text, literal) sv_put(s, text, literal, sizeof(literal) - 1)
#define SV_IS(string, literal)                                                                     \
    ((string).size == sizeof(literal) - 1 && !memcmp((string).at, literal, sizeof(literal) - 1))

/* Writes UTF-8 in quotes, escaped as Python does; 0 if it is not UTF-8. */
static int sv_put_quoted(sv_scan *s, sv_text *text, const char *at, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const char *end = at + size;
    json_fault fault;
    char *to = sv_room(s, text, 6 * size + 10); /* 8 bytes are written at once */
    if (!to)
        return 0;
    *to++ = '"';
    while (at < end) {
        while (end - at >= 8) {
            uint64_t special = json_special_bytes(json_load8(at));
            int plain = special ? json_lowest_byte(special) : 8;
            memcpy(to, at, 8); /* there is room for six times as many */
            to += plain;
            at += plain;
            if (special)
                break;
        }
        if (at >= end)
            break;
        const size_t left = (size_t)(end - at);
        if (left < 8) {
            /* the rest at once, from the last 8 bytes if there are so many */
            const uint64_t word = size < 8 ? intern_load(at, left) : json_load8(end - 8) >> (64 - 8 * left);
            if (!(json_special_bytes(word) & ((1ULL << 8 * left) - 1))) {
                memcpy(to, &word, 8);
                to += left;
                break;
            }
        }
        unsigned char byte = (unsigned char)*at;
        if (byte >= 0x80) {
            const char *next = json_utf8(at, end, &fault);
            if (!next)
                return 0;
            memcpy(to, at, (size_t)(next - at));
            to += next - at;
            at = next;
            continue;
        }
        at++;
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            *to++ = (char)byte;
            continue;
        }
        *to++ = '\\';
        switch (byte) {
        case '"':
        case '\\':
            *to++ = (char)byte;
            break;
        case '\n':
            *to++ = 'n';
            break;
        case '\r':
            *to++ = 'r';
            break;
        case '\t':
            *to++ = 't';
            break;
        case '\b':
            *to++ = 'b';
            break;
        case '\f':
            *to++ = 'f';
            break;
        default:
            memcpy(to, "u00", 3);
            to[3] = digits[byte >> 4];
            to[4] = digits[byte & 15];
            to += 5;
        }
    }
    *to++ = '"';
    text->size = to - text->at;
    return 1;
}

/* Takes the escapes out of a string that was checked. */
static int sv_plain(sv_scan *s, sv_string *string)
{
    if (!string->is_escaped)
        return 1;
    s->plain.size = 0;
    char *to = sv_room(s, &s->plain, string->size);
    if (!to)
        return 0;
    string->size = (uint32_t)json_unescape(string->at, string->size, to);
    string->at = to;
    string->is_escaped = 0;
    return 1;
}

static int sv_put_string(sv_scan *s, sv_text *text, sv_string string)
{
    if (string.is_escaped) {
        if (!sv_plain(s, &string))
            return 0;
        return sv_put_quoted(s, text, string.at, string.size);
    }
    char *to = sv_room(s, text, (size_t)string.size + 2);
    if (!to)
        return 0;
    *to++ = '"';
    memcpy(to, string.at, string.size);
    to[string.size] = '"';
    text->size += (int64_t)string.size + 2;
    return 1;
}

/* Writes a double as Python does, by its text or its value; 0 if it is infinite or no number. */
static int sv_put_double(sv_scan *s, sv_text *text, const char *at, size_t size, double value)
{
    char copy[SV_LONGEST_DOUBLE + 1];
    int done = 0;
    if (size > SV_LONGEST_DOUBLE)
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    if (at) {
        memcpy(copy, at, size);
        copy[size] = 0;
        value = PyOS_string_to_double(copy, NULL, NULL);
    }
    if (PyErr_Occurred())
        PyErr_Clear();
    else if (value - value == 0) {
        char *shortest = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
        if (shortest) {
            done = sv_put(s, text, shortest, strlen(shortest));
            PyMem_Free(shortest);
        } else
            PyErr_Clear();
    }
    PyGILState_Release(state);
    return done;
}

/* Whether a number that was checked is written as Python would: 15 digits distinguish doubles. */
static int sv_is_shortest(const char *at, const char *end)
{
    at += *at == '-';
    const char *point = memchr(at, '.', (size_t)(end - at));
    if (!point || end - at > 16 || memchr(at, 'e', (size_t)(end - at))
        || memchr(at, 'E', (size_t)(end - at)))
        return 0;
    if (end[-1] == '0' && end - point > 2)
        return 0;
    if (*at != '0')
        return 1;
    if (end - point > 4 && !memcmp(point, ".0000", 5 < end - point ? 5 : (size_t)(end - point)))
        return 0;
    return 1;
}

static void sv_begin(sv_scan *s, int is_message, int64_t size)
{
    memset(s->seen, 0, sizeof s->seen);
    s->level = is_message ? SV_TOP : SV_START;
    s->is_first = 1;
    s->is_message = is_message;
    s->end_of[SV_TOP] = size;
    s->resource = s->category = s->last_key = -1;
    s->position = 0;
}

static sv_mark sv_marked(const sv_scan *s)
{
    sv_mark mark = {s->rows.count, s->points.count, s->links.count, s->text.size, s->is_private,
                    s->dropped, s->scanned};
    return mark;
}

/* Takes back what was added since a mark. */
static void sv_back(sv_scan *s, const sv_mark *mark)
{
    s->rows.count = mark->rows;
    s->points.count = mark->points;
    s->links.count = mark->links;
    s->text.size = mark->text;
    s->is_private = mark->is_private;
    s->dropped = mark->dropped;
    s->scanned = mark->scanned;
}

typedef struct {
    int count;
    uint64_t low; /* which codes below 64 there are */
    int32_t codes[SV_MOST_KEYS];
} sv_keys;

static inline void sv_no_keys(sv_keys *keys)
{
    keys->count = 0;
    keys->low = 0;
}

/* Adds a key; 0 if it is there already, or there are too many. */
static inline int sv_add_key(sv_keys *keys, int32_t code)
{
    if (keys->count == SV_MOST_KEYS)
        return 0;
    if (LIKELY(code < 64)) {
        const uint64_t bit = 1ULL << code;
        if (keys->low & bit)
            return 0;
        keys->low |= bit;
    } else
        for (int i = 0; i < keys->count; i++)
            if (keys->codes[i] == code)
                return 0;
    keys->codes[keys->count++] = code;
    return 1;
}

static int sv_key_is(const sv_scan *s, sv_string key)
{
    int is = 0;
    for (int i = 0; i < s->private_count; i++)
        if (is_private_name(s->private_words[i].at, key.at, key.at + key.size))
            is |= SV_PRIVATE;
    for (int i = 0; i < s->own_count; i++)
        if (key.size == s->own_words[i].size && !memcmp(key.at, s->own_words[i].at, key.size))
            is |= SV_OWN;
    if (SV_IS(key, "status.message"))
        is |= SV_STATUS_MESSAGE;
    if (SV_IS(key, "thread.id"))
        is |= SV_THREAD_ID;
    return is;
}

/* Forgets the keys if there are too many; never between those of one span. */
static int sv_limit_keys(sv_scan *s)
{
    if (LIKELY(s->keys.count < SV_MOST_KEY_CODES && s->key_texts.size < SV_MOST_CACHED))
        return 1;
    uint64_t seed = s->keys.seed;
    intern_free(&s->keys);
    s->known_keys.count = s->key_texts.size = 0;
    s->last_key = -1;
    if (strings_init(&s->keys, seed))
        return 1;
    s->no_memory = 1;
    return 0;
}

static inline sv_key *sv_key_of(const sv_scan *s, int32_t code)
{
    return (sv_key *)s->known_keys.items + code;
}

static inline int sv_is_same(const char *a, const char *b, size_t size)
{
    if (size < 8)
        return intern_load(a, size) == intern_load(b, size);
    for (size_t at = 0; at + 8 < size; at += 8)
        if (json_load8(a + at) != json_load8(b + at))
            return 0;
    return json_load8(a + size - 8) == json_load8(b + size - 8);
}

/* Returns the code of a key if it is the one that came after the last key before; otherwise -1. Most
 * spans have the same keys in the same order. */
static inline int32_t sv_next_key(const sv_scan *s, const char *at, size_t size)
{
    if (UNLIKELY(s->last_key < 0))
        return -1;
    const int32_t next = sv_key_of(s, s->last_key)->next;
    if (UNLIKELY(next < 0))
        return -1;
    const uint64_t *offset = &s->keys.offsets[next];
    return offset[1] - offset[0] == size && sv_is_same(s->keys.bytes + offset[0], at, size) ? next : -1;
}

/* Returns the code of a key without escapes; -1 if it is not UTF-8. */
static int32_t sv_key_code(sv_scan *s, sv_string key)
{
    const int32_t last = s->last_key;
    int32_t code = sv_next_key(s, key.at, key.size);
    if (LIKELY(code >= 0))
        return s->last_key = code;
    intern_text text = intern_text_of(key.at, key.size);
    code = intern_find(&s->keys, &text, 0);
    if (UNLIKELY(code < 0)) {
        sv_key known = {s->key_texts.size, 0, sv_key_is(s, key), -1};
        if (!SV_PUT(s, &s->key_texts, ",") || !sv_put_quoted(s, &s->key_texts, key.at, key.size)
            || !SV_PUT(s, &s->key_texts, ":") || s->key_texts.size - known.offset > INT32_MAX) {
            s->key_texts.size = known.offset;
            return -1;
        }
        known.size = (int32_t)(s->key_texts.size - known.offset);
        sv_key *added = sv_room(s, &s->key_texts, SV_KEY_BYTES) ? sv_push(&s->known_keys, sizeof known) : NULL;
        if (!added || (code = intern_add(&s->keys, &text, 0)) < 0) {
            s->no_memory = 1;
            return -1;
        }
        *added = known;
    }
    if (last >= 0)
        sv_key_of(s, last)->next = code;
    return s->last_key = code;
}

/* Writes a key with the comma before it and the colon after it. */
static inline int sv_put_key(sv_scan *s, sv_text *text, int32_t code)
{
    const sv_key *key = sv_key_of(s, code);
    const size_t size = (size_t)key->size;
    char *to = sv_room(s, text, size > SV_KEY_BYTES ? size : SV_KEY_BYTES);
    if (!to)
        return 0;
    if (LIKELY(size <= SV_KEY_BYTES))
        memcpy(to, s->key_texts.at + key->offset, SV_KEY_BYTES);
    else
        memcpy(to, s->key_texts.at + key->offset, size);
    text->size += (int64_t)size;
    return 1;
}

static inline int32_t sv_code(sv_scan *s, intern_table *table, sv_string string, uint32_t context)
{
    intern_text text = intern_text_of(string.at, string.size);
    int32_t code = intern_find(table, &text, context);
    if (UNLIKELY(code < 0) && (code = intern_add(table, &text, context)) < 0)
        s->no_memory = 1;
    return code;
}

/* Returns the code of a resource or a scope that the caller knows; -1 for a new one. */
static int32_t sv_known(const intern_table *table, const sv_table *codes, const char *at, size_t size)
{
    intern_text text = intern_text_of(at, size);
    int32_t found = size > INT32_MAX ? -1 : intern_find(table, &text, 0);
    return found < 0 ? -1 : ((const int32_t *)codes->items)[found];
}

static int sv_forget(intern_table *table, sv_table *codes)
{
    uint64_t seed = table->seed;
    intern_free(table);
    codes->count = 0;
    return strings_init(table, seed);
}

static int sv_learn(intern_table *table, sv_table *codes, const char *at, size_t size, int32_t code)
{
    if (size > INT32_MAX)
        return 0;
    if (table->offsets[table->count] > SV_MOST_CACHED && !sv_forget(table, codes))
        return 0;
    intern_text text = intern_text_of(at, size);
    int32_t *to = sv_push(codes, sizeof code);
    if (!to || intern_add(table, &text, 0) < 0)
        return 0;
    *to = code;
    return 1;
}

/* What a span says, while it is read. */
typedef struct {
    sv_row row;
    uint32_t seen;
    sv_string name, message, thread;
    char digits[SV_LONGEST_INTEGER]; /* of the thread, in protobuf */
} sv_span;

enum {
    SV_TRACE_ID = 1 << 0,
    SV_SPAN_ID = 1 << 1,
    SV_PARENT_ID = 1 << 2,
    SV_NAME = 1 << 3,
    SV_KIND = 1 << 4,
    SV_BEGIN = 1 << 5,
    SV_END = 1 << 6,
    SV_ATTRIBUTES = 1 << 7,
    SV_EVENTS = 1 << 8,
    SV_LINKS = 1 << 9,
    SV_STATUS = 1 << 10,
    SV_DROPPED = 1 << 11,
    SV_DROPPED_EVENTS = 1 << 12,
    SV_DROPPED_LINKS = 1 << 13,
    SV_MESSAGE = 1 << 14,
    SV_CODE = 1 << 15,
};

/* Whether a field of a span is the first with its name. */
static inline int sv_first(uint32_t *seen, uint32_t bit)
{
    if (*seen & bit)
        return 0;
    *seen |= bit;
    return 1;
}

/* Writes the 16 hexadecimal digits of a word. */
static inline char *sv_put_hex(char *to, uint64_t word)
{
    for (int half = 0; half < 2; half++) {
        uint64_t nibbles = half ? word & UINT32_MAX : word >> 32;
        nibbles = (nibbles | nibbles << 16) & 0x0000FFFF0000FFFFULL;
        nibbles = (nibbles | nibbles << 8) & 0x00FF00FF00FF00FFULL;
        nibbles = (nibbles | nibbles << 4) & 0x0F0F0F0F0F0F0F0FULL;
        const uint64_t letters = (nibbles + 0x0606060606060606ULL) >> 4 & 0x0101010101010101ULL;
        nibbles += 0x3030303030303030ULL + letters * ('a' - '0' - 10);
        nibbles = __builtin_bswap64(nibbles);
        memcpy(to, &nibbles, 8);
        to += 8;
    }
    return to;
}

/* Writes an id of one word or two; nothing between the quotes for none. */
static inline char *sv_put_id(char *to, const char *before, size_t size, const uint64_t *words, int count)
{
    uint64_t any = 0;
    memcpy(to, before, size);
    to += size;
    for (int i = 0; i < count; i++)
        any |= words[i];
    for (int i = 0; any && i < count; i++)
        to = sv_put_hex(to, words[i]);
    *to++ = '"';
    return to;
}

static inline void sv_no_span(sv_span *span)
{
    static const sv_row none;
    const sv_string empty = {NULL, 0, 0};
    span->row = none;
    span->seen = 0;
    span->name = span->message = span->thread = empty;
}

/* Adds a span that was read, with its arguments; 0 if it is not usual. */
static int sv_add_span(sv_scan *s, sv_span *span)
{
    static const char kinds[SV_MOST_KINDS][9] = {"", "internal", "server", "client", "producer", "consumer"};
    static const uint8_t kind_sizes[SV_MOST_KINDS] = {0, 8, 6, 6, 8, 8};
    sv_row *row = &span->row;
    if ((span->seen & (SV_TRACE_ID | SV_SPAN_ID | SV_BEGIN | SV_END))
            != (SV_TRACE_ID | SV_SPAN_ID | SV_BEGIN | SV_END)
        || row->end_ns < row->start_ns)
        return 0;
    const uint64_t trace_id[2] = {row->trace_high, row->trace_low};
    int64_t begin = s->text.size;
    char *to = sv_room(s, &s->text, 256 + (size_t)s->attributes.size);
    if (!to)
        return 0;
    to = sv_put_id(to, "{\"trace_id\":\"", 13, trace_id, 2);
    to = sv_put_id(to, ",\"span_id\":\"", 12, &row->span, 1);
    if (row->parent)
        to = sv_put_id(to, ",\"parent_id\":\"", 14, &row->parent, 1);
    if (row->kind) {
        memcpy(to, ",\"kind\":\"", 9);
        memcpy(to + 9, kinds[row->kind], 8);
        to += 9 + kind_sizes[row->kind];
        *to++ = '"';
    }
    if (row->is_error) {
        memcpy(to, ",\"status\":\"error\"", 17);
        to += 17;
    }
    if (s->attributes.size)
        memcpy(to, s->attributes.at, (size_t)s->attributes.size);
    s->text.size = to - s->text.at + s->attributes.size;
    if (span->message.size
        && !(SV_PUT(s, &s->text, ",\"status.message\":") && sv_plain(s, &span->message)
             && sv_put_quoted(s, &s->text, span->message.at, span->message.size)))
        return 0;
    if (!SV_PUT(s, &s->text, "}") || s->text.size - begin > INT32_MAX)
        return 0;
    int32_t thread = -1, name;
    if (span->thread.size) {
        if (!sv_plain(s, &span->thread))
            return 0;
        thread = sv_code(s, &s->threads, span->thread, (uint32_t)s->resource);
        if (thread < 0)
            return 0;
    }
    if (!sv_plain(s, &span->name) || (name = sv_code(s, &s->names, span->name, 0)) < 0)
        return 0;
    sv_row *added = sv_push(&s->rows, sizeof *row);
    if (!added) {
        s->no_memory = 1;
        return 0;
    }
    *added = *row;
    added->offset = begin;
    added->length = (int32_t)(s->text.size - begin);
    added->resource = s->resource;
    added->thread = thread;
    added->name = name;
    added->category = s->category;
    s->scanned++;
    return 1;
}

/* Adds an event of the span that will be the next row. Its text begins at `begin`. */
static int sv_add_point(sv_scan *s, sv_string name, int64_t time_ns, int64_t begin)
{
    int64_t length = s->text.size - begin;
    if (!sv_plain(s, &name) || length > INT32_MAX)
        return 0;
    int32_t code = sv_code(s, &s->names, name, 0);
    sv_point *point = code < 0 ? NULL : sv_push(&s->points, sizeof *point);
    if (!point) {
        s->no_memory = 1;
        return 0;
    }
    point->row = s->rows.count;
    point->time_ns = time_ns;
    point->name = code;
    point->offset = length ? begin : 0;
    point->length = (int32_t)length;
    return 1;
}

static int sv_add_link(sv_scan *s, const sv_link *link)
{
    sv_link *added = sv_push(&s->links, sizeof *link);
    if (!added) {
        s->no_memory = 1;
        return 0;
    }
    *added = *link;
    added->row = s->rows.count;
    return 1;
}

/* Ends a list or an object, of which each item was written with a comma before it. */
static int sv_close_list(sv_scan *s, sv_text *out, int64_t begin, int is_list)
{
    if (out->size > begin)
        out->at[begin] = is_list ? '[' : '{';
    else if (!sv_put(s, out, is_list ? "[" : "{", 1))
        return 0;
    return sv_put(s, out, is_list ? "]" : "}", 1);
}

/* JSON. What reads something returns what follows it; NULL if it is unusual or cut. */

#define SV_SKIP(at, end)                                                                           \
    do {                                                                                           \
        if (((at) = json_skip_blanks(at, end)) == (end))                                           \
            return NULL;                                                                           \
    } while (0)

static inline const char *sv_json_string(const char *at, const char *end, sv_string *string)
{
    json_fault fault;
    if (*at != '"')
        return NULL;
    string->at = at + 1;
    if (!(at = json_string(at + 1, end, &string->is_escaped, &fault)) || at - string->at > INT32_MAX)
        return NULL;
    string->size = (uint32_t)(at - string->at);
    return at + 1;
}

/* Reads a key without escapes, and returns where its value begins. */
static inline const char *sv_json_key(const char *at, const char *end, sv_string *key)
{
    if (!(at = sv_json_string(at, end, key)) || key->is_escaped)
        return NULL;
    SV_SKIP(at, end);
    if (*at++ != ':')
        return NULL;
    SV_SKIP(at, end);
    return at;
}

/* Goes to the next key of an object, or item of an array; what `closing` closes is done if `*done`. */
static inline const char *sv_json_next(
    const char *at, const char *end, char closing, int *is_first, int *done)
{
    *done = 0;
    SV_SKIP(at, end);
    if (*at == closing) {
        *done = 1;
        return at + 1;
    }
    if (!*is_first) {
        if (*at++ != ',')
            return NULL;
        SV_SKIP(at, end);
    }
    *is_first = 0;
    return at;
}

/* Takes the underscores out of the name of a field that is not known; 0 if there are none. */
static int sv_in_camel_case(sv_scan *s, sv_string *key)
{
    uint32_t size = 0;
    if (key->size > sizeof s->camel || !memchr(key->at, '_', key->size))
        return 0;
    for (uint32_t i = 0; i < key->size; i++) {
        char c = key->at[i];
        if (c == '_') {
            if (!i || ++i == key->size || key->at[i] < 'a' || key->at[i] > 'z')
                return 0;
            c = (char)(key->at[i] - 'a' + 'A');
        }
        s->camel[size++] = c;
    }
    key->at = s->camel;
    key->size = size;
    return 1;
}

/* Skips a field that is not used; NULL if it may be one that is, in another spelling. */
static const char *sv_json_other(const char *at, const char *end, sv_string key)
{
    json_fault fault;
    if (memchr(key.at, '_', key.size))
        return NULL;
    return json_value(at, end, 16, &fault);
}

static const char *sv_json_digits(const char *at, const char *end, uint64_t *number)
{
    const char *begin = at;
    while (at < end && json_is_digit(*at))
        at++;
    return at < end && at - begin < 20 && json_unsigned(begin, at, number) ? at : NULL;
}

/* Reads a number of JSON without sign, fraction and exponent. */
static const char *sv_json_natural(const char *at, const char *end, uint64_t *number)
{
    const char *begin = at;
    if (!(at = sv_json_digits(at, end, number)) || (*begin == '0' && at - begin > 1)
        || *at == '.' || (*at | 0x20) == 'e')
        return NULL;
    return at;
}

/* Reads a time, as a number or its digits in quotes. */
static const char *sv_json_time(const char *at, const char *end, int64_t *time_ns)
{
    uint64_t number;
    if (*at == '"') {
        if (!(at = sv_json_digits(at + 1, end, &number)) || *at++ != '"')
            return NULL;
    } else if (!(at = sv_json_natural(at, end, &number)))
        return NULL;
    *time_ns = (int64_t)number;
    return number < INT64_MAX ? at : NULL;
}

/* Reads 8 hexadecimal digits; 0 if another character is among them. */
static inline int sv_hex8(const char *at, uint64_t *number)
{
    const uint64_t text = json_load8(at), lower = text | 0x2020202020202020ULL;
    if (text & JSON_HIGHS)
        return 0;
    /* no sum exceeds its byte; digits had the bit that makes letters lower case */
    const uint64_t digit = (lower + 0x5050505050505050ULL) & ~(lower + 0x4646464646464646ULL) & text << 2;
    const uint64_t letter = (lower + 0x1F1F1F1F1F1F1F1FULL) & ~(lower + 0x1919191919191919ULL) & JSON_HIGHS;
    if (((digit | letter) & JSON_HIGHS) != JSON_HIGHS)
        return 0;
    uint64_t nibbles = __builtin_bswap64((lower & 0x0F0F0F0F0F0F0F0FULL) + (letter >> 7) * 9);
    nibbles = (nibbles | nibbles >> 4) & 0x00FF00FF00FF00FFULL;
    nibbles = (nibbles | nibbles >> 8) & 0x0000FFFF0000FFFFULL;
    *number = (nibbles | nibbles >> 16) & UINT32_MAX;
    return 1;
}

/* Reads one word or two in base64; `size` characters without the padding. */
static int sv_base64(const char *at, int size, uint64_t *words)
{
    uint64_t bits = 0;
    int count = 0, bytes = 0;
    for (int i = 0; i < size; i++) {
        const char c = at[i];
        const int value = c >= 'A' && c <= 'Z' ? c - 'A'
            : c >= 'a' && c <= 'z' ? c - 'a' + 26
            : c >= '0' && c <= '9' ? c - '0' + 52
            : c == '+' ? 62 : c == '/' ? 63 : -1;
        if (value < 0)
            return 0;
        bits = bits << 6 | (uint64_t)value;
        if ((count += 6) >= 8) {
            count -= 8;
            words[bytes / 8] = words[bytes / 8] << 8 | (bits >> count & 255);
            bytes++;
        }
    }
    return !(bits & ((1U << count) - 1));
}

/* Reads an id of one word or two in quotes, in hexadecimal digits, or in base64 as dumps of protobuf
 * have it; with `or_none` also no digits. */
static const char *sv_json_id(const char *at, const char *end, uint64_t *words, int count, int or_none)
{
    const int short_size = count == 2 ? 22 : 11; /* in base64, without its padding */
    if (end - at < 2 || *at++ != '"')
        return NULL;
    for (int i = 0; i < count; i++)
        words[i] = 0;
    if (or_none && *at == '"')
        return at + 1;
    if (end - at >= short_size + 3 && at[short_size] == '=') {
        const char *after = at + short_size + count;
        return after[-1] == '=' && *after == '"' && sv_base64(at, short_size, words) ? after + 1 : NULL;
    }
    if (end - at < 16 * count + 1)
        return NULL;
    for (int i = 0; i < count; i++) {
        uint64_t high, low;
        if (!sv_hex8(at, &high) || !sv_hex8(at + 8, &low))
            return NULL;
        words[i] = high << 32 | low;
        at += 16;
    }
    return *at == '"' ? at + 1 : NULL;
}

static const char *sv_json_dropped(sv_scan *s, const char *at, const char *end)
{
    uint64_t number;
    if (!(at = sv_json_natural(at, end, &number)) || number > UINT32_MAX)
        return NULL;
    s->dropped += (int64_t)number;
    return at;
}

/* Reads an integer as Python would write it. */
static const char *sv_json_integer(const char *at, const char *end, sv_string *number)
{
    const char *digits = at + (*at == '-');
    uint64_t value;
    number->at = at;
    number->is_escaped = 0;
    if (!(at = sv_json_natural(digits, end, &value)) || (digits > number->at && *digits == '0'))
        return NULL;
    number->size = (uint32_t)(at - number->at);
    return at;
}

/* Takes what a span says of itself by the key of an attribute; 0 if that is not usual. */
static inline int sv_take_key(sv_scan *s, int is, sv_span *span, const sv_string *scalar)
{
    if (LIKELY(!is || !span))
        return 1;
    if (is & SV_OWN)
        return 0;
    if (is & SV_STATUS_MESSAGE) {
        if (span->message.size)
            return 0;
        span->seen |= SV_MESSAGE;
    }
    if (is & SV_THREAD_ID) {
        if (!scalar)
            return 0;
        span->thread = *scalar;
        if (scalar->at == s->digits) {
            memcpy(span->digits, scalar->at, scalar->size);
            span->thread.at = span->digits;
        }
    }
    return 1;
}

static const char *sv_json_any(
    sv_scan *, sv_text *, const char *, const char *, int, sv_string *, int *);

/* Reads attributes, and writes them with a comma before each; `span` is of whom they are, if any. */
static const char *sv_json_attributes(
    sv_scan *s, sv_text *out, const char *at, const char *end, int depth, sv_span *span, int is_public)
{
    sv_keys keys;
    int first = 1, done;
    sv_no_keys(&keys);
    if (*at++ != '[')
        return NULL;
    while ((at = sv_json_next(at, end, ']', &first, &done)) && !done) {
        sv_string name, key, scalar;
        int inner = 1, has_value = 0, is_scalar = 0;
        int32_t code = -1;
        int64_t begin = out->size;
        if (*at++ != '{')
            return NULL;
        while ((at = sv_json_next(at, end, '}', &inner, &done)) && !done) {
            if (!(at = sv_json_key(at, end, &name)))
                return NULL;
            if (SV_IS(name, "key") && code < 0) {
                if (!(at = sv_json_string(at, end, &key)) || key.is_escaped
                    || (code = sv_key_code(s, key)) < 0 || !sv_put_key(s, out, code))
                    return NULL;
            } else if (SV_IS(name, "value") && code >= 0 && !has_value) {
                has_value = 1;
                if (!(at = sv_json_any(s, out, at, end, depth, &scalar, &is_scalar)))
                    return NULL;
            } else
                return NULL;
        }
        if (!at || !has_value || !sv_add_key(&keys, code)
            || !sv_take_key(s, sv_key_of(s, code)->is, span, is_scalar ? &scalar : NULL))
            return NULL;
        if (!is_public && (sv_key_of(s, code)->is & SV_PRIVATE)) {
            s->is_private++;
            out->size = begin;
        }
    }
    return at;
}

/* Reads {"values": [...]}. */
static const char *sv_json_values(
    sv_scan *s, sv_text *out, const char *at, const char *end, int depth, int is_list)
{
    int first = 1, done, is_scalar;
    sv_string key, scalar;
    if (*at++ != '{')
        return NULL;
    if (!(at = sv_json_next(at, end, '}', &first, &done)))
        return NULL;
    if (done)
        return (is_list ? SV_PUT(s, out, "[]") : SV_PUT(s, out, "{}")) ? at : NULL;
    if (!(at = sv_json_key(at, end, &key)) || !SV_IS(key, "values"))
        return NULL;
    int64_t begin = out->size;
    if (!is_list) {
        if (!(at = sv_json_attributes(s, out, at, end, depth, NULL, 1)))
            return NULL;
    } else {
        if (*at++ != '[')
            return NULL;
        for (int inner = 1; (at = sv_json_next(at, end, ']', &inner, &done)) && !done;)
            if (!SV_PUT(s, out, ",")
                || !(at = sv_json_any(s, out, at, end, depth, &scalar, &is_scalar)))
                return NULL;
        if (!at)
            return NULL;
    }
    if (!sv_close_list(s, out, begin, is_list))
        return NULL;
    at = sv_json_next(at, end, '}', &first, &done);
    return at && done ? at : NULL;
}

/* Reads the value of an attribute; `scalar` becomes the text of a string or an integer. */
static const char *sv_json_any(sv_scan *s, sv_text *out, const char *at, const char *end, int depth,
                               sv_string *scalar, int *is_scalar)
{
    sv_string key;
    json_fault fault;
    int first = 1, done;
    *is_scalar = 0;
    if (depth >= SV_DEEPEST || *at++ != '{' || !(at = sv_json_next(at, end, '}', &first, &done)))
        return NULL;
    if (done)
        return SV_PUT(s, out, "null") ? at : NULL;
    if (!(at = sv_json_key(at, end, &key)))
        return NULL;
again:
    if (SV_IS(key, "stringValue") || ((SV_IS(key, "bytesValue") || SV_IS(key, "doubleValue")) && *at == '"')) {
        *is_scalar = 1;
        if (!(at = sv_json_string(at, end, scalar)) || !sv_put_string(s, out, *scalar))
            return NULL;
    } else if (SV_IS(key, "intValue")) {
        const int quoted = *at == '"';
        *is_scalar = 1;
        if (!(at = sv_json_integer(at + quoted, end, scalar)) || (quoted && *at++ != '"')
            || !sv_put(s, out, scalar->at, scalar->size))
            return NULL;
    } else if (SV_IS(key, "boolValue")) {
        if (end - at > 4 && !memcmp(at, "true", 4)) {
            at += 4;
            if (!SV_PUT(s, out, "true"))
                return NULL;
        } else if (end - at > 5 && !memcmp(at, "false", 5)) {
            at += 5;
            if (!SV_PUT(s, out, "false"))
                return NULL;
        } else
            return NULL;
    } else if (SV_IS(key, "doubleValue")) {
        const char *begin = at, *after = sv_json_integer(at, end, scalar);
        if (after) {
            if (!sv_put(s, out, begin, (size_t)(after - begin)))
                return NULL;
            at = after;
        } else {
            if (!(at = json_number(at, end, &fault)))
                return NULL;
            const size_t size = (size_t)(at - begin);
            /* an integer that is long is one in Python too */
            if (!memchr(begin, '.', size) && !memchr(begin, 'e', size) && !memchr(begin, 'E', size))
                return NULL;
            if (!(sv_is_shortest(begin, at) ? sv_put(s, out, begin, size)
                                            : sv_put_double(s, out, begin, size, 0)))
                return NULL;
        }
    } else if (SV_IS(key, "arrayValue") || SV_IS(key, "kvlistValue")) {
        if (!(at = sv_json_values(s, out, at, end, depth + 1, SV_IS(key, "arrayValue"))))
            return NULL;
    } else if (sv_in_camel_case(s, &key))
        goto again;
    else
        return NULL;
    at = sv_json_next(at, end, '}', &first, &done);
    return at && done ? at : NULL;
}

static const char *sv_json_event(sv_scan *s, const char *at, const char *end)
{
    sv_string key, name = {"", 0, 0};
    int first = 1, done;
    uint32_t seen = 0;
    int64_t time_ns = 0, begin = s->text.size;
    if (*at++ != '{')
        return NULL;
    while ((at = sv_json_next(at, end, '}', &first, &done)) && !done) {
        if (!(at = sv_json_key(at, end, &key)))
            return NULL;
    again:
        if (SV_IS(key, "timeUnixNano"))
            at = sv_first(&seen, SV_BEGIN) ? sv_json_time(at, end, &time_ns) : NULL;
        else if (SV_IS(key, "name"))
            at = sv_first(&seen, SV_NAME) ? sv_json_string(at, end, &name) : NULL;
        else if (SV_IS(key, "attributes"))
            at = sv_first(&seen, SV_ATTRIBUTES)
                ? sv_json_attributes(s, &s->text, at, end, 0, NULL, 0) : NULL;
        else if (SV_IS(key, "droppedAttributesCount"))
            at = sv_first(&seen, SV_DROPPED) ? sv_json_dropped(s, at, end) : NULL;
        else if (sv_in_camel_case(s, &key))
            goto again;
        else
            at = sv_json_other(at, end, key);
        if (!at)
            return NULL;
    }
    if (!at || (s->text.size > begin && !sv_close_list(s, &s->text, begin, 0)))
        return NULL;
    return sv_add_point(s, name, time_ns, begin) ? at : NULL;
}

static const char *sv_json_link(sv_scan *s, const char *at, const char *end)
{
    sv_string key;
    sv_link link = {0, 0, 0, 0, 0};
    uint64_t words[2];
    uint32_t seen = 0;
    int first = 1, done;
    if (*at++ != '{')
        return NULL;
    while ((at = sv_json_next(at, end, '}', &first, &done)) && !done) {
        if (!(at = sv_json_key(at, end, &key)))
            return NULL;
    again:
        if (SV_IS(key, "traceId")) {
            if (!sv_first(&seen, SV_TRACE_ID) || !(at = sv_json_id(at, end, words, 2, 0)))
                return NULL;
            link.trace_high = words[0];
            link.trace_low = words[1];
        } else if (SV_IS(key, "spanId"))
            at = sv_first(&seen, SV_SPAN_ID) ? sv_json_id(at, end, &link.span, 1, 0) : NULL;
        else if (sv_in_camel_case(s, &key))
            goto again;
        else
            at = sv_json_other(at, end, key);
        if (!at)
            return NULL;
    }
    if (!at || seen != (SV_TRACE_ID | SV_SPAN_ID) || !sv_add_link(s, &link))
        return NULL;
    return at;
}

static const char *sv_json_status(const char *at, const char *end, sv_span *span)
{
    sv_string key, code;
    int first = 1, done;
    if (*at++ != '{')
        return NULL;
    while ((at = sv_json_next(at, end, '}', &first, &done)) && !done) {
        if (!(at = sv_json_key(at, end, &key)))
            return NULL;
        if (SV_IS(key, "code")) {
            uint64_t number = 0;
            if (!sv_first(&span->seen, SV_CODE))
                return NULL;
            if (*at != '"')
                at = sv_json_natural(at, end, &number);
            else if ((at = sv_json_string(at, end, &code)))
                number = SV_IS(code, "STATUS_CODE_ERROR") ? 2 : 0;
            span->row.is_error = number == 2;
        } else if (SV_IS(key, "message")) {
            /* once: only a message has text */
            if (span->message.at || !(at = sv_json_string(at, end, &span->message))
                || (span->message.size && (span->seen & SV_MESSAGE)))
                return NULL;
        } else
            at = sv_json_other(at, end, key);
        if (!at)
            return NULL;
    }
    return at;
}

static const char *sv_json_kind(const char *at, const char *end, uint8_t *kind)
{
    static const char *const names[SV_MOST_KINDS] = {
        "UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"};
    sv_string name;
    uint64_t number;
    if (*at != '"') {
        if (!(at = sv_json_natural(at, end, &number)) || number >= SV_MOST_KINDS)
            return NULL;
        *kind = (uint8_t)number;
        return at;
    }
    if (!(at = sv_json_string(at, end, &name)) || name.size < 10 || memcmp(name.at, "SPAN_KIND_", 10))
        return NULL;
    for (uint8_t i = 0; i < SV_MOST_KINDS; i++)
        if (strlen(names[i]) == name.size - 10 && !memcmp(names[i], name.at + 10, name.size - 10)) {
            *kind = i;
            return at;
        }
    return NULL;
}

/* Reads a span at its brace. */
static const char *sv_json_span(sv_scan *s, const char *at, const char *end)
{
    sv_span span;
    sv_string key;
    uint64_t words[2];
    int first = 1, done;
    sv_no_span(&span);
    span.name.at = "";
    s->attributes.size = 0;
    if (!sv_limit_keys(s))
        return NULL;
    at++;
    while ((at = sv_json_next(at, end, '}', &first, &done)) && !done) {
        uint32_t bit = 0;
        if (!(at = sv_json_key(at, end, &key)))
            return NULL;
    again:
        if (SV_IS(key, "traceId")) {
            bit = SV_TRACE_ID;
            if ((at = sv_json_id(at, end, words, 2, 0))) {
                span.row.trace_high = words[0];
                span.row.trace_low = words[1];
            }
        } else if (SV_IS(key, "spanId")) {
            bit = SV_SPAN_ID;
            at = sv_json_id(at, end, &span.row.span, 1, 0);
        } else if (SV_IS(key, "parentSpanId")) {
            bit = SV_PARENT_ID;
            at = sv_json_id(at, end, &span.row.parent, 1, 1);
        } else if (SV_IS(key, "name")) {
            bit = SV_NAME;
            at = sv_json_string(at, end, &span.name);
        } else if (SV_IS(key, "kind")) {
            bit = SV_KIND;
            at = sv_json_kind(at, end, &span.row.kind);
        } else if (SV_IS(key, "startTimeUnixNano")) {
            bit = SV_BEGIN;
            at = sv_json_time(at, end, &span.row.start_ns);
        } else if (SV_IS(key, "endTimeUnixNano")) {
            bit = SV_END;
            at = sv_json_time(at, end, &span.row.end_ns);
        } else if (SV_IS(key, "attributes")) {
            bit = SV_ATTRIBUTES;
            at = sv_json_attributes(s, &s->attributes, at, end, 0, &span, 0);
        } else if (SV_IS(key, "status")) {
            bit = SV_STATUS;
            at = sv_json_status(at, end, &span);
        } else if (SV_IS(key, "droppedAttributesCount")) {
            bit = SV_DROPPED;
            at = sv_json_dropped(s, at, end);
        } else if (SV_IS(key, "droppedEventsCount")) {
            bit = SV_DROPPED_EVENTS;
            at = sv_json_dropped(s, at, end);
        } else if (SV_IS(key, "droppedLinksCount")) {
            bit = SV_DROPPED_LINKS;
            at = sv_json_dropped(s, at, end);
        } else if (SV_IS(key, "events") || SV_IS(key, "links")) {
            const int is_event = key.size == 6;
            bit = is_event ? SV_EVENTS : SV_LINKS;
            int inner = 1;
            if (*at++ != '[')
                return NULL;
            while ((at = sv_json_next(at, end, ']', &inner, &done)) && !done)
                if (!(at = is_event ? sv_json_event(s, at, end) : sv_json_link(s, at, end)))
                    return NULL;
            done = 0;
        } else if (sv_in_camel_case(s, &key))
            goto again;
        else
            at = sv_json_other(at, end, key);
        if (!at || (bit && !sv_first(&span.seen, bit)))
            return NULL;
    }
    /* a time of 0 is none */
    if (!at || !span.row.start_ns || !span.row.end_ns || !sv_add_span(s, &span))
        return NULL;
    return at;
}

static int sv_stop(sv_scan *s, int why, const char *block, const char *from, const char *to)
{
    s->stop_offset = from - block;
    s->stop_length = to - from;
    return why;
}

/* Reads a resource or a scope that was seen before; otherwise stops for the caller to learn it. */
static int sv_refer(sv_scan *s, const char *block, const char *from, const char *to, int is_scope)
{
    const int32_t code = is_scope ? sv_known(&s->scopes, &s->scope_codes, from, (size_t)(to - from))
                                  : sv_known(&s->resources, &s->resource_codes, from, (size_t)(to - from));
    if (code == -1)
        return sv_stop(s, is_scope ? SV_SCOPE : SV_RESOURCE, block, from, to);
    if (is_scope)
        s->category = code - 1;
    else
        s->resource = code;
    return SV_MORE;
}

static int sv_open(sv_scan *s, int level)
{
    s->level = level;
    s->is_first = 1;
    s->seen[level] = 0;
    return SV_MORE;
}

/* What each level has once, in `seen`. */
enum { SV_HAS_HEAD = 1, SV_HAS_LIST = 2 };

/* Reads a field of the document, a group or a scope; SV_MORE if it was read, and `*next` is behind. */
static int sv_json_field(sv_scan *s, const char *block, const char *at, const char *end, const char **next)
{
    sv_string key;
    json_fault fault;
    uint32_t *seen = &s->seen[s->level];
    int status;
    if (!(at = sv_json_key(at, end, &key)))
        return SV_REFUSED;
    sv_in_camel_case(s, &key);
    int is_list = 0, is_head = 0;
    switch (s->level) {
    case SV_TOP:
        is_list = SV_IS(key, "resourceSpans") || SV_IS(key, "batches");
        if (!is_list)
            return SV_REFUSED;
        break;
    case SV_GROUP:
        is_list = SV_IS(key, "scopeSpans") || SV_IS(key, "instrumentationLibrarySpans");
        is_head = SV_IS(key, "resource");
        break;
    default:
        is_list = SV_IS(key, "spans");
        is_head = SV_IS(key, "scope") || SV_IS(key, "instrumentationLibrary");
    }
    if (is_list) {
        if ((*seen & SV_HAS_LIST) || *at != '[')
            return SV_REFUSED;
        if (s->level == SV_GROUP && !(*seen & SV_HAS_HEAD)) {
            static const char none[] = "{}";
            s->resource = sv_known(&s->resources, &s->resource_codes, none, 2);
            if (s->resource < 0) {
                s->stop_offset = s->stop_length = 0;
                return SV_RESOURCE;
            }
        }
        if (s->level == SV_SCOPE_OF && !(*seen & SV_HAS_HEAD))
            s->category = -1;
        *seen |= SV_HAS_LIST;
        *next = at + 1;
        return sv_open(s, s->level + 1);
    }
    if (is_head) {
        if ((*seen & (SV_HAS_HEAD | SV_HAS_LIST)) || *at != '{')
            return SV_REFUSED;
        if (!(*next = json_value(at, end, 8, &fault)))
            return SV_REFUSED;
        if ((status = sv_refer(s, block, at, *next, s->level == SV_SCOPE_OF)) == SV_MORE)
            *seen |= SV_HAS_HEAD;
        return status;
    }
    if (!(*next = sv_json_other(at, end, key)))
        return SV_REFUSED;
    return SV_MORE;
}

/* Reads on in a document of JSON, of which a block has the bytes from `position` on. */
static int sv_json_scan(sv_scan *s, const char *block, int64_t size, int is_last)
{
    const char *end = block + size, *at = block, *next;
    json_fault fault;
    int status;
    for (;;) {
        s->position = at - block;
        const char *p = json_skip_blanks(at, end);
        if (p == end)
            return !is_last ? SV_MORE : s->level == SV_DONE ? SV_DOCUMENT : SV_REFUSED;
        if (s->level == SV_DONE)
            return SV_REFUSED;
        if (s->level == SV_START) {
            if (*p != '{')
                return SV_REFUSED;
            sv_open(s, SV_TOP);
            at = p + 1;
            continue;
        }
        const int is_array = s->level == SV_GROUPS || s->level == SV_SCOPES || s->level == SV_SPANS;
        if (*p == (is_array ? ']' : '}')) {
            if (s->level == SV_TOP && !s->seen[SV_TOP])
                return SV_REFUSED;
            s->level = s->level == SV_TOP ? SV_DONE : s->level - 1;
            s->is_first = 0;
            at = p + 1;
            continue;
        }
        if (!s->is_first) {
            if (*p != ',')
                return SV_REFUSED;
            p = json_skip_blanks(p + 1, end);
            if (p == end)
                return is_last ? SV_REFUSED : SV_MORE;
        }
        if (s->level == SV_SPANS) {
            const sv_mark mark = sv_marked(s);
            if (*p != '{')
                return SV_REFUSED;
            if ((next = sv_json_span(s, p, end))) {
                s->is_first = 0;
                at = next;
                continue;
            }
            if (s->no_memory)
                return SV_NO_MEMORY;
            sv_back(s, &mark);
            if ((next = json_value(p, end, 7, &fault))) {
                s->is_first = 0;
                s->position = next - block;
                return sv_stop(s, SV_SPAN, block, p, next);
            }
            return fault.kind == JSON_CUT && !is_last ? SV_MORE : SV_REFUSED;
        }
        if (is_array) {
            if (*p != '{')
                return SV_REFUSED;
            sv_open(s, s->level + 1);
            at = p + 1;
            continue;
        }
        const int level = s->level;
        status = sv_json_field(s, block, p, end, &next);
        if (status == SV_REFUSED && !is_last) {
            /* is it only cut? */
            const char *value = json_key(p, end, &fault);
            if (value && !json_value(value, end, 7, &fault) && fault.kind == JSON_CUT)
                return SV_MORE;
            if (!value && fault.kind == JSON_CUT)
                return SV_MORE;
        }
        if (status != SV_MORE)
            return status;
        if (s->level == level)
            s->is_first = 0;
        at = next;
    }
}

/* Protobuf. A message is complete. */

typedef const uint8_t *sv_bytes;

/* A field: its number, how it is encoded, and its number or its bytes. */
typedef struct {
    uint64_t tag, value;
    sv_bytes at, end;
} sv_field;

#define SV_TAG(number, wire) ((uint64_t)(number) << 3 | (wire))
enum { SV_VARINT = 0, SV_FIXED64 = 1, SV_BYTES = 2, SV_FIXED32 = 5 };

/* Reads a number, and returns what follows it; NULL if it is damaged. */
static inline __attribute__((always_inline)) sv_bytes sv_pb_number(sv_bytes at, sv_bytes end, uint64_t *number)
{
    if (LIKELY(at < end && *at < 128)) {
        *number = *at;
        return at + 1;
    }
    if (LIKELY(end - at >= 2 && at[1] < 128)) {
        *number = (at[0] & 127u) | (uint32_t)at[1] << 7;
        return at + 2;
    }
    uint64_t longer;
    at = get_varint(at, end, &longer);
    *number = at ? longer : 0;
    return at;
}

/* Reads the field at a position, and returns what follows it; NULL if it is damaged. */
static inline __attribute__((always_inline)) sv_bytes sv_pb_field(sv_bytes at, sv_bytes end, sv_field *field)
{
    field->value = 0;
    field->at = field->end = NULL;
    if (!(at = sv_pb_number(at, end, &field->tag)) || field->tag < 8)
        return NULL;
    switch (field->tag & 7) {
    case SV_BYTES:
        if (!(at = sv_pb_number(at, end, &field->value)))
            return NULL;
        if (field->value > (uint64_t)(end - at) || field->value > INT32_MAX)
            return NULL;
        field->at = at;
        field->end = at + field->value;
        return field->end;
    case SV_VARINT:
        return sv_pb_number(at, end, &field->value);
    case SV_FIXED64:
        if (end - at < 8)
            return NULL;
        field->value = json_load8((const char *)at);
        return at + 8;
    case SV_FIXED32:
        return end - at < 4 ? NULL : at + 4;
    default:
        return NULL;
    }
}

#define SV_EACH(at, end, field) while (at && at < end && (at = sv_pb_field(at, end, &field)))

static int sv_pb_any(sv_scan *, sv_text *, sv_bytes, sv_bytes, int, sv_string *, int *);

static inline sv_string sv_pb_string(const sv_field *field)
{
    sv_string string = {(const char *)field->at, (uint32_t)(field->end - field->at), 0};
    return string;
}

/* Finds the key and the value of a KeyValue, which are its only fields; 0 if there are others. */
static inline int sv_pb_pair(const sv_field *message, sv_string *key, sv_field *value)
{
    sv_field field;
    sv_bytes at = message->at, end = message->end;
    const size_t size = (size_t)(end - at);
    key->at = NULL;
    key->is_escaped = 0;
    value->at = NULL;
    /* as programs write it: the key, then the value, both short */
    if (LIKELY(size >= 4 && at[0] == SV_TAG(1, SV_BYTES) && at[1] < 128)) {
        const size_t length = at[1];
        if (LIKELY(length + 4 <= size && at[length + 2] == SV_TAG(2, SV_BYTES) && at[length + 3] < 128
                   && length + 4 + at[length + 3] == size)) {
            key->at = (const char *)at + 2;
            key->size = (uint32_t)length;
            value->at = at + length + 4;
            value->end = end;
            return 1;
        }
    }
    SV_EACH(at, end, field) {
        if (field.tag == SV_TAG(1, SV_BYTES) && !key->at)
            *key = sv_pb_string(&field);
        else if (field.tag == SV_TAG(2, SV_BYTES) && !value->at)
            *value = field;
        else
            return 0;
    }
    return at && key->at;
}

/* Reads a KeyValue, and writes it with a comma before it; `span` is of whom it is, if any. */
static int sv_pb_attribute(sv_scan *s, sv_text *out, const sv_field *message, int depth, sv_keys *keys,
                           sv_span *span, int is_public, int wants_value)
{
    sv_field value = {0, 0, NULL, NULL};
    sv_string key, scalar;
    int is_scalar = 0;
    int32_t code;
    int64_t begin = out->size;
    if (!sv_pb_pair(message, &key, &value) || (wants_value && !value.at)
        || (code = sv_key_code(s, key)) < 0 || !sv_add_key(keys, code) || !sv_put_key(s, out, code))
        return 0;
    if (LIKELY(value.at && value.end - value.at >= 2 && value.at[0] == SV_TAG(1, SV_BYTES) && value.at[1] < 128
               && value.end - value.at == 2 + value.at[1] && depth < SV_DEEPEST)) {
        /* a short text */
        scalar.at = (const char *)value.at + 2;
        scalar.size = value.at[1];
        scalar.is_escaped = 0;
        is_scalar = 1;
        if (!sv_put_quoted(s, out, scalar.at, scalar.size))
            return 0;
    } else if (!(value.at ? sv_pb_any(s, out, value.at, value.end, depth, &scalar, &is_scalar)
                          : SV_PUT(s, out, "null")))
        return 0;
    const int is = sv_key_of(s, code)->is;
    if (!sv_take_key(s, is, span, is_scalar ? &scalar : NULL))
        return 0;
    if (!is_public && (is & SV_PRIVATE)) {
        s->is_private++;
        out->size = begin;
    }
    return 1;
}

/* Reads a KeyValue as most are: the key that is expected, and a short text without escapes or a small
 * number. Returns 0, and changes nothing, if it is another one. */
static inline int sv_pb_usual_attribute(sv_scan *s, sv_text *out, sv_bytes at, size_t size, sv_keys *keys)
{
    if (size < 6 || at[0] != SV_TAG(1, SV_BYTES) || at[1] + (size_t)6 > size)
        return 0;
    const size_t key_size = at[1];
    const char *key = (const char *)at + 2;
    const sv_bytes value = at + key_size + 4; /* of two bytes at least */
    const size_t value_size = size - key_size - 4;
    if (value[-2] != SV_TAG(2, SV_BYTES) || value[-1] != value_size || value_size > 127)
        return 0;
    const int32_t code = sv_next_key(s, key, key_size);
    if (code < 0)
        return 0;
    const sv_key *known = sv_key_of(s, code);
    if (known->is || known->size > SV_KEY_BYTES)
        return 0;
    char *to = sv_room(s, out, SV_KEY_BYTES + 128 + 10);
    if (!to)
        return 0;
    memcpy(to, s->key_texts.at + known->offset, SV_KEY_BYTES);
    to += known->size;
    if (value[0] == SV_TAG(1, SV_BYTES) && value[1] + (size_t)2 == value_size) {
        const char *from = (const char *)value + 2, *const end = from + value[1];
        *to++ = '"';
        for (; end - from >= 8; from += 8, to += 8) {
            const uint64_t word = json_load8(from);
            if (json_special_bytes(word))
                return 0;
            memcpy(to, &word, 8);
        }
        const size_t left = (size_t)(end - from);
        const uint64_t word = intern_load(from, left);
        if (json_special_bytes(word) & ((1ULL << 8 * left) - 1))
            return 0;
        memcpy(to, &word, 8);
        to += left;
        *to++ = '"';
    } else if (value[0] == SV_TAG(3, SV_VARINT) && value_size <= 3 && value[value_size - 1] < 128
               && (value_size == 2 || value[1] >= 128)) {
        unsigned number = value_size == 2 ? value[1] : (value[1] & 127u) | (unsigned)value[2] << 7;
        char digits[8];
        int first = 8;
        do
            digits[--first] = (char)('0' + number % 10);
        while (number /= 10);
        memcpy(to, digits + first, (size_t)(8 - first));
        to += 8 - first;
    } else {
        return 0;
    }
    if (!sv_add_key(keys, code))
        return 0;
    s->last_key = code;
    out->size = to - out->at;
    return 1;
}

static int sv_pb_values(sv_scan *s, sv_text *out, const sv_field *message, int depth, int is_list)
{
    sv_field field;
    sv_keys keys;
    sv_string scalar;
    int is_scalar;
    int64_t begin = out->size;
    sv_bytes at = message->at;
    sv_no_keys(&keys);
    SV_EACH(at, message->end, field) {
        if (field.tag != SV_TAG(1, SV_BYTES))
            return 0;
        if (is_list ? !SV_PUT(s, out, ",")
                    || !sv_pb_any(s, out, field.at, field.end, depth, &scalar, &is_scalar)
                    : !sv_pb_attribute(s, out, &field, depth, &keys, NULL, 1, 1))
            return 0;
    }
    return at && sv_close_list(s, out, begin, is_list);
}

/* Reads an AnyValue of one field at most. */
static int sv_pb_any(sv_scan *s, sv_text *out, sv_bytes at, sv_bytes end, int depth, sv_string *scalar,
                     int *is_scalar)
{
    static const char digits[] = "0123456789abcdef";
    sv_field field;
    char number[SV_LONGEST_INTEGER];
    double real;
    *is_scalar = 0;
    if (depth >= SV_DEEPEST)
        return 0;
    if (at == end)
        return SV_PUT(s, out, "null");
    if (!(at = sv_pb_field(at, end, &field)) || at != end)
        return 0;
    switch (field.tag) {
    case SV_TAG(1, SV_BYTES):
        *is_scalar = 1;
        *scalar = sv_pb_string(&field);
        return sv_put_quoted(s, out, scalar->at, scalar->size);
    case SV_TAG(2, SV_VARINT):
        return field.value ? SV_PUT(s, out, "true") : SV_PUT(s, out, "false");
    case SV_TAG(3, SV_VARINT): {
        char *to = number + sizeof number;
        const int is_negative = field.value >> 63;
        uint64_t left = is_negative ? 0 - field.value : field.value;
        do
            *--to = (char)('0' + left % 10);
        while (left /= 10);
        if (is_negative)
            *--to = '-';
        *is_scalar = 1;
        scalar->at = s->digits;
        scalar->size = (uint32_t)(number + sizeof number - to);
        scalar->is_escaped = 0;
        memcpy(s->digits, to, scalar->size);
        return sv_put(s, out, to, scalar->size);
    }
    case SV_TAG(4, SV_FIXED64):
        memcpy(&real, &field.value, 8);
        return sv_put_double(s, out, NULL, 0, real);
    case SV_TAG(5, SV_BYTES):
    case SV_TAG(6, SV_BYTES):
        return sv_pb_values(s, out, &field, depth + 1, field.tag == SV_TAG(5, SV_BYTES));
    case SV_TAG(7, SV_BYTES): {
        char *to = sv_room(s, out, 2 * field.value + 2);
        if (!to)
            return 0;
        *to++ = '"';
        for (sv_bytes byte = field.at; byte < field.end; byte++) {
            *to++ = digits[*byte >> 4];
            *to++ = digits[*byte & 15];
        }
        *to = '"';
        out->size += 2 * (int64_t)field.value + 2;
        return 1;
    }
    default:
        return 0;
    }
}

/* Reads an id of one word or two; with `or_none` also no bytes. */
static int sv_pb_id(const sv_field *field, uint64_t *words, int count, int or_none)
{
    for (int i = 0; i < count; i++)
        words[i] = 0;
    if (or_none && field->at == field->end)
        return 1;
    if (field->end - field->at != 8 * count)
        return 0;
    for (int i = 0; i < count; i++)
        words[i] = __builtin_bswap64(json_load8((const char *)field->at + 8 * i));
    return 1;
}

/* Whether bytes are UTF-8. */
static int sv_is_utf8(sv_string string)
{
    const char *at = string.at, *end = at + string.size;
    json_fault fault;
    while (at < end) {
        if (end - at >= 8 && !(json_load8(at) & JSON_HIGHS))
            at += 8;
        else if (!(*at & 0x80))
            at++;
        else if (!(at = json_utf8(at, end, &fault)))
            return 0;
    }
    return 1;
}

static int sv_pb_event(sv_scan *s, const sv_field *message)
{
    sv_field field;
    sv_keys keys;
    sv_string name = {"", 0, 0};
    uint32_t seen = 0;
    int64_t time_ns = 0, begin = s->text.size;
    sv_bytes at = message->at;
    sv_no_keys(&keys);
    SV_EACH(at, message->end, field) {
        switch (field.tag) {
        case SV_TAG(1, SV_FIXED64):
            if (!sv_first(&seen, SV_BEGIN) || field.value >= INT64_MAX)
                return 0;
            time_ns = (int64_t)field.value;
            break;
        case SV_TAG(2, SV_BYTES):
            if (!sv_first(&seen, SV_NAME))
                return 0;
            name = sv_pb_string(&field);
            break;
        case SV_TAG(3, SV_BYTES):
            if (!sv_pb_attribute(s, &s->text, &field, 0, &keys, NULL, 0, 0))
                return 0;
            break;
        case SV_TAG(4, SV_VARINT):
            if (!sv_first(&seen, SV_DROPPED) || field.value > UINT32_MAX)
                return 0;
            s->dropped += (int64_t)field.value;
            break;
        default:
            if (field.tag >> 3 <= 4)
                return 0;
        }
    }
    return at && sv_is_utf8(name) && (s->text.size == begin || sv_close_list(s, &s->text, begin, 0))
        && sv_add_point(s, name, time_ns, begin);
}

static int sv_pb_link(sv_scan *s, const sv_field *message)
{
    sv_field field;
    sv_link link = {0, 0, 0, 0, 0};
    uint64_t words[2];
    uint32_t seen = 0;
    sv_bytes at = message->at;
    SV_EACH(at, message->end, field) {
        if (field.tag == SV_TAG(1, SV_BYTES)) {
            if (!sv_first(&seen, SV_TRACE_ID) || !sv_pb_id(&field, words, 2, 0))
                return 0;
            link.trace_high = words[0];
            link.trace_low = words[1];
        } else if (field.tag == SV_TAG(2, SV_BYTES)) {
            if (!sv_first(&seen, SV_SPAN_ID) || !sv_pb_id(&field, &link.span, 1, 0))
                return 0;
        } else if (field.tag >> 3 <= 2)
            return 0;
    }
    return at && seen == (SV_TRACE_ID | SV_SPAN_ID) && sv_add_link(s, &link);
}

static int sv_pb_status(sv_span *span, const sv_field *message)
{
    sv_field field;
    sv_bytes at = message->at;
    SV_EACH(at, message->end, field) {
        if (field.tag == SV_TAG(3, SV_VARINT)) {
            if (!sv_first(&span->seen, SV_CODE))
                return 0;
            span->row.is_error = field.value == 2;
        } else if (field.tag == SV_TAG(2, SV_BYTES)) {
            if (span->message.at)
                return 0;
            span->message = sv_pb_string(&field);
        } else if (field.tag >> 3 == 2 || field.tag >> 3 == 3)
            return 0;
    }
    return at != NULL;
}

/* Reads the first fields of a span as far as they are in the order of their numbers, as programs write
 * them, and returns what follows them. */
static inline sv_bytes sv_pb_head(sv_span *span, sv_bytes at, sv_bytes end)
{
    if (end - at < 28 || at[0] != SV_TAG(1, SV_BYTES) || at[1] != 16 || at[18] != SV_TAG(2, SV_BYTES) || at[19] != 8)
        return at;
    span->row.trace_high = __builtin_bswap64(json_load8((const char *)at + 2));
    span->row.trace_low = __builtin_bswap64(json_load8((const char *)at + 10));
    span->row.span = __builtin_bswap64(json_load8((const char *)at + 20));
    span->seen = SV_TRACE_ID | SV_SPAN_ID;
    at += 28;
    if (end - at >= 10 && at[0] == SV_TAG(4, SV_BYTES) && at[1] == 8) {
        span->row.parent = __builtin_bswap64(json_load8((const char *)at + 2));
        span->seen |= SV_PARENT_ID;
        at += 10;
    }
    if (end - at >= 2 && at[0] == SV_TAG(5, SV_BYTES) && at[1] < 128 && end - at >= 2 + at[1]) {
        span->name.at = (const char *)at + 2;
        span->name.size = at[1];
        span->seen |= SV_NAME;
        at += 2 + at[1];
    }
    if (end - at >= 2 && at[0] == SV_TAG(6, SV_VARINT) && at[1] < SV_MOST_KINDS) {
        span->row.kind = at[1];
        span->seen |= SV_KIND;
        at += 2;
    }
    if (end - at >= 18 && at[0] == SV_TAG(7, SV_FIXED64) && at[9] == SV_TAG(8, SV_FIXED64)) {
        const uint64_t start = json_load8((const char *)at + 1), over = json_load8((const char *)at + 10);
        if (start && over && start < INT64_MAX && over < INT64_MAX) {
            span->row.start_ns = (int64_t)start;
            span->row.end_ns = (int64_t)over;
            span->seen |= SV_BEGIN | SV_END;
            at += 18;
        }
    }
    return at;
}

static int sv_pb_span(sv_scan *s, sv_bytes at, sv_bytes end)
{
    sv_field field;
    sv_keys keys;
    sv_span span;
    uint64_t words[2];
    sv_no_span(&span);
    span.name.at = "";
    s->attributes.size = 0;
    sv_no_keys(&keys);
    if (!sv_limit_keys(s))
        return 0;
    at = sv_pb_head(&span, at, end);
    SV_EACH(at, end, field) {
        uint32_t bit = 0;
        switch (field.tag) {
        case SV_TAG(1, SV_BYTES):
            bit = SV_TRACE_ID;
            if (!sv_pb_id(&field, words, 2, 0))
                return 0;
            span.row.trace_high = words[0];
            span.row.trace_low = words[1];
            break;
        case SV_TAG(2, SV_BYTES):
            bit = SV_SPAN_ID;
            if (!sv_pb_id(&field, &span.row.span, 1, 0))
                return 0;
            break;
        case SV_TAG(4, SV_BYTES):
            bit = SV_PARENT_ID;
            if (!sv_pb_id(&field, &span.row.parent, 1, 1))
                return 0;
            break;
        case SV_TAG(5, SV_BYTES):
            bit = SV_NAME;
            span.name = sv_pb_string(&field);
            break;
        case SV_TAG(6, SV_VARINT):
            bit = SV_KIND;
            if (field.value >= SV_MOST_KINDS)
                return 0;
            span.row.kind = (uint8_t)field.value;
            break;
        case SV_TAG(7, SV_FIXED64):
        case SV_TAG(8, SV_FIXED64):
            bit = field.tag == SV_TAG(7, SV_FIXED64) ? SV_BEGIN : SV_END;
            if (!field.value || field.value >= INT64_MAX)
                return 0;
            *(bit == SV_BEGIN ? &span.row.start_ns : &span.row.end_ns) = (int64_t)field.value;
            break;
        case SV_TAG(9, SV_BYTES):
            if (!sv_pb_usual_attribute(s, &s->attributes, field.at, (size_t)field.value, &keys)
                && !sv_pb_attribute(s, &s->attributes, &field, 0, &keys, &span, 0, 0))
                return 0;
            break;
        case SV_TAG(10, SV_VARINT):
        case SV_TAG(12, SV_VARINT):
        case SV_TAG(14, SV_VARINT):
            bit = field.tag == SV_TAG(10, SV_VARINT) ? SV_DROPPED
                : field.tag == SV_TAG(12, SV_VARINT) ? SV_DROPPED_EVENTS : SV_DROPPED_LINKS;
            if (field.value > UINT32_MAX)
                return 0;
            s->dropped += (int64_t)field.value;
            break;
        case SV_TAG(11, SV_BYTES):
            if (!sv_pb_event(s, &field))
                return 0;
            break;
        case SV_TAG(13, SV_BYTES):
            if (!sv_pb_link(s, &field))
                return 0;
            break;
        case SV_TAG(15, SV_BYTES):
            bit = SV_STATUS;
            if (!sv_pb_status(&span, &field))
                return 0;
            break;
        default:
            if (field.tag >> 3 <= 15 && field.tag >> 3 != 3)
                return 0;
        }
        if (bit && !sv_first(&span.seen, bit))
            return 0;
    }
    if (!at || !sv_is_utf8(span.name) || (span.message.size && (span.seen & SV_MESSAGE)))
        return 0;
    return sv_add_span(s, &span);
}

/* Reads on in a message, from `position` on. */
static int sv_pb_scan(sv_scan *s, const char *block, int64_t size)
{
    const sv_bytes begin = (sv_bytes)block;
    sv_field field;
    int status;
    if (size != s->end_of[SV_TOP])
        return SV_REFUSED;
    for (;;) {
        sv_bytes at = begin + s->position;
        uint32_t *seen = &s->seen[s->level];
        if (s->position == s->end_of[s->level]) {
            if (s->level == SV_TOP)
                return *seen ? SV_DOCUMENT : SV_REFUSED;
            s->level -= 2; /* lists have no end of their own */
            continue;
        }
        if (!(at = sv_pb_field(at, begin + s->end_of[s->level], &field)))
            return SV_REFUSED;
        const int64_t next = at - begin;
        const int is_span = s->level == SV_SCOPE_OF && field.tag == SV_TAG(2, SV_BYTES);
        const int is_group = s->level == SV_TOP && field.tag == SV_TAG(1, SV_BYTES);
        const int is_scope = s->level == SV_GROUP && field.tag == SV_TAG(2, SV_BYTES);
        const int is_head = s->level != SV_TOP && field.tag == SV_TAG(1, SV_BYTES);
        if (is_head) {
            if (*seen)
                return SV_REFUSED;
            status = sv_refer(s, block, (const char *)field.at, (const char *)field.end,
                              s->level == SV_SCOPE_OF);
            if (status != SV_MORE)
                return status;
            *seen |= SV_HAS_HEAD;
        } else if (is_span) {
            const sv_mark mark = sv_marked(s);
            *seen |= SV_HAS_LIST;
            if (!sv_pb_span(s, field.at, field.end)) {
                if (s->no_memory)
                    return SV_NO_MEMORY;
                sv_back(s, &mark);
                s->position = next;
                return sv_stop(s, SV_SPAN, block, (const char *)field.at, (const char *)field.end);
            }
        } else if (is_group || is_scope) {
            if (is_scope && !*seen) {
                if ((s->resource = sv_known(&s->resources, &s->resource_codes, block, 0)) < 0) {
                    s->stop_offset = s->stop_length = 0;
                    return SV_RESOURCE;
                }
            }
            *seen |= SV_HAS_LIST;
            s->category = -1;
            sv_open(s, s->level + 2);
            s->end_of[s->level] = next;
            s->position = field.at - begin;
            continue;
        } else if (field.tag >> 3 <= (s->level == SV_TOP ? 1 : 2) || field.tag >> 3 == 1000)
            return SV_REFUSED;
        s->position = next;
    }
}

/* What spans are to each other. */

/* Rows that wait in the order of a number, the least first: a heap. */
typedef struct {
    int64_t key;
    int32_t lane;
} sv_waiting;

static inline int sv_before(const sv_waiting *a, const sv_waiting *b)
{
    return a->key < b->key || (a->key == b->key && a->lane < b->lane);
}

static void sv_heap_push(sv_waiting *heap, int64_t *count, sv_waiting item)
{
    int64_t at = (*count)++;
    while (at > 0 && sv_before(&item, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static sv_waiting sv_heap_pop(sv_waiting *heap, int64_t *count)
{
    const sv_waiting least = heap[0], item = heap[--*count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < *count) {
        if (child + 1 < *count && sv_before(&heap[child + 1], &heap[child]))
            child++;
        if (!sv_before(&heap[child], &item))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return least;
}

/* See `lanes_of` in readers/services/lanes.py. The lanes are at most the rows. 0 without memory. */
static int sv_lanes(const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count,
                    int32_t *lane_of, int32_t *level_of)
{
    int64_t busy_count = 0, free_count = 0, lanes = 0;
    const size_t room = (size_t)count + 1;
    sv_waiting *busy = malloc(room * sizeof *busy), *unused = malloc(room * sizeof *unused);
    int64_t *top = malloc(room * sizeof *top), *below = malloc(room * sizeof *below);
    const int done = busy && unused && top && below;
    for (int64_t row = 0; done && row < count; row++) {
        while (busy_count && busy[0].key <= start[row]) {
            sv_waiting over = sv_heap_pop(busy, &busy_count);
            top[over.lane] = -1;
            over.key = over.lane;
            sv_heap_push(unused, &free_count, over);
        }
        const int64_t above = parent[row];
        if (above >= 0 && above < row) {
            const int32_t lane = lane_of[above];
            while (top[lane] >= 0 && end[top[lane]] <= start[row])
                top[lane] = below[top[lane]];
            if (top[lane] == above && end[row] <= end[above]) {
                lane_of[row] = lane;
                level_of[row] = level_of[above] + 1;
                below[row] = above;
                top[lane] = row;
                continue;
            }
        }
        const int32_t lane = free_count ? sv_heap_pop(unused, &free_count).lane : (int32_t)lanes++;
        lane_of[row] = lane;
        level_of[row] = 0;
        below[row] = -1;
        top[lane] = row;
        sv_waiting item = {end[row], lane};
        sv_heap_push(busy, &busy_count, item);
    }
    free(busy);
    free(unused);
    free(top);
    free(below);
    return done;
}

/* Lays out the spans at some rows, in their order, whose parents among them count; `local` is -1 for all
 * rows, and again afterwards. 0 without memory. */
static int sv_lanes_of(const int64_t *rows, int64_t count, const int64_t *start, const int64_t *end,
                       const int64_t *parent, int64_t *local, int32_t *lane_of, int32_t *level)
{
    const size_t room = (size_t)count + 1;
    int64_t *own = malloc(room * 3 * sizeof *own);
    int32_t *level_of = malloc(room * sizeof *level_of);
    int done = own && level_of;
    if (done) {
        int64_t *own_end = own + room, *own_parent = own_end + room;
        for (int64_t i = 0; i < count; i++)
            local[rows[i]] = i;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = rows[i];
            own[i] = start[row];
            own_end[i] = end[row];
            own_parent[i] = parent[row] < 0 ? -1 : local[parent[row]];
        }
        done = sv_lanes(own, own_end, own_parent, count, lane_of, level_of);
        for (int64_t i = 0; done && i < count; i++)
            level[rows[i]] = level_of[i];
        for (int64_t i = 0; i < count; i++)
            local[rows[i]] = -1;
    }
    free(own);
    free(level_of);
    return done;
}

/* Sorts rows by their codes, those of a code in their order; `edges` has where each code begins, and 0s
 * before. 0 if a row or a code is not there. */
static int sv_grouped(const int32_t *codes, int64_t count, const int64_t *order, int64_t chosen, int64_t groups,
                      int64_t *rows, int64_t *edges)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (order[i] < 0 || order[i] >= count || codes[order[i]] < 0 || codes[order[i]] >= groups)
            return 0;
        edges[codes[order[i]] + 1]++;
    }
    for (int64_t group = 0; group < groups; group++)
        edges[group + 1] += edges[group];
    for (int64_t i = 0; i < chosen; i++)
        rows[edges[codes[order[i]]]++] = order[i];
    /* each is where the next one begins now */
    for (int64_t group = groups; group > 0; group--)
        edges[group] = edges[group - 1];
    edges[0] = 0;
    return 1;
}

/* How many ancestors each row has. A cycle is cut where it is met; returns how many were, or -1
 * without memory. Parents must be rows, or -1. */
static int64_t sv_generations(int64_t *parent, int64_t *generation, int64_t count)
{
    enum { UNKNOWN = -1, IN_CHAIN = -2 };
    int64_t cycles = 0;
    int64_t *chain = malloc(((size_t)count + 1) * sizeof *chain);
    if (!chain)
        return -1;
    for (int64_t row = 0; row < count; row++)
        generation[row] = UNKNOWN;
    for (int64_t row = 0; row < count; row++) {
        int64_t at = row, length = 0;
        while (at >= 0 && generation[at] == UNKNOWN) {
            generation[at] = IN_CHAIN;
            chain[length++] = at;
            at = parent[at];
        }
        if (at >= 0 && generation[at] == IN_CHAIN) {
            cycles++;
            parent[chain[length - 1]] = -1;
            at = -1;
        }
        int64_t next = at >= 0 ? generation[at] + 1 : 0;
        while (length)
            generation[chain[--length]] = next++;
    }
    free(chain);
    return cycles;
}

typedef struct {
    uint64_t trace_high, trace_low, span;
    unsigned forms;
} sv_id;

enum { SV_MOST_OF_AN_ID = 4, SV_AHEAD = 32, SV_ROW_BITS = 40 };

/* Slots have a row plus one, and some bits of its id's hash above that; 0 is empty. */
typedef struct {
    const sv_row *rows;
    uint64_t *slots;
    int64_t *next; /* by row, the next one with the same id; -1 for none */
    uint64_t mask, seed;
} sv_ids;

#define SV_ROW_OF(slot) ((int64_t)((slot) & (((uint64_t)1 << SV_ROW_BITS) - 1)) - 1)

static inline uint64_t sv_hash(const sv_ids *ids, const sv_id *id)
{
    uint64_t hash = intern_fold(id->trace_high ^ ids->seed, id->trace_low ^ 0xA0761D6478BD642FULL);
    return intern_fold(hash ^ id->span, ids->seed ^ (id->forms + 0xE7037ED1A0B428DBULL));
}

/* Returns the slot of an id, which is empty if no row has it. */
static inline uint64_t *sv_slot(const sv_ids *ids, const sv_id *id, uint64_t hash)
{
    for (uint64_t at = hash & ids->mask;; at = (at + 1) & ids->mask) {
        const uint64_t slot = ids->slots[at];
        if (!slot)
            return &ids->slots[at];
        if ((slot ^ hash) >> SV_ROW_BITS)
            continue;
        const sv_row *other = &ids->rows[SV_ROW_OF(slot)];
        if (other->trace_high == id->trace_high && other->trace_low == id->trace_low
            && other->span == id->span && (other->forms & 3u) == id->forms)
            return &ids->slots[at];
    }
}

static inline sv_id sv_own_id(const sv_row *row)
{
    const sv_id id = {row->trace_high, row->trace_low, row->span, row->forms & 3u};
    return id;
}

static inline sv_id sv_parent_id(const sv_row *row)
{
    /* whether the trace's id is of the other form, and the parent's */
    const sv_id id = {row->trace_high, row->trace_low, row->parent,
                      (row->forms & 1u) | (row->forms >> 1 & 2u)};
    return id;
}

static inline int sv_has_parent(const sv_row *row)
{
    return row->parent || (row->forms & 4u);
}

/* Reads ahead the slots of some rows, or of their parents; their hashes are in `hashes`. */
static void sv_read_ahead(const sv_ids *ids, int64_t first, int64_t last, int is_parent, uint64_t *hashes)
{
    for (int64_t row = first; row < last; row++) {
        const sv_id id = is_parent ? sv_parent_id(&ids->rows[row]) : sv_own_id(&ids->rows[row]);
        hashes[row - first] = sv_hash(ids, &id);
        __builtin_prefetch(&ids->slots[hashes[row - first] & ids->mask]);
    }
}

/* Finds the row of each row's parent, -1 for none, and the first row of each id that links lead to;
 * counts ids and parents without a row. See `rows_by_id` and `parents` in service_spans.py. */
static int sv_relate(const sv_row *rows, int64_t count, const sv_link *links, int64_t link_count,
                     uint64_t seed, int64_t *parent, int64_t *linked, int64_t *ids_found,
                     int64_t *missing)
{
    sv_ids ids = {rows, NULL, NULL, 1, seed};
    uint64_t hashes[SV_AHEAD];
    while (ids.mask < 2 * (uint64_t)count)
        ids.mask *= 2;
    *ids_found = *missing = 0;
    if ((uint64_t)count >= (uint64_t)1 << (SV_ROW_BITS - 1)
        || !column_grow((void **)&ids.slots, (int64_t)ids.mask, sizeof *ids.slots))
        return 0;
    memset(ids.slots, 0, ids.mask * sizeof *ids.slots);
    ids.mask--;
    if (!column_grow((void **)&ids.next, count + 1, sizeof *ids.next)) {
        free(ids.slots);
        return 0;
    }
    for (int64_t row = 0; row < count; row++) {
        if (row % SV_AHEAD == 0)
            sv_read_ahead(&ids, row, row + SV_AHEAD < count ? row + SV_AHEAD : count, 0, hashes);
        const sv_id id = sv_own_id(&rows[row]);
        const uint64_t hash = hashes[row % SV_AHEAD];
        uint64_t *slot = sv_slot(&ids, &id, hash);
        ids.next[row] = -1;
        if (!*slot) {
            *slot = (hash >> SV_ROW_BITS << SV_ROW_BITS) | (uint64_t)(row + 1);
            ++*ids_found;
            continue;
        }
        int64_t *to = &ids.next[SV_ROW_OF(*slot)];
        int known = 1;
        while (*to >= 0 && ++known < SV_MOST_OF_AN_ID)
            to = &ids.next[*to];
        if (*to < 0)
            *to = row;
    }
    for (int64_t row = 0; row < count; row++) {
        if (row % SV_AHEAD == 0)
            sv_read_ahead(&ids, row, row + SV_AHEAD < count ? row + SV_AHEAD : count, 1, hashes);
        parent[row] = -1;
        if (!sv_has_parent(&rows[row]))
            continue;
        const sv_id id = sv_parent_id(&rows[row]);
        int64_t other = -1;
        for (int64_t at = SV_ROW_OF(*sv_slot(&ids, &id, hashes[row % SV_AHEAD])); at >= 0; at = ids.next[at]) {
            if (at == row)
                continue;
            if (rows[at].resource == rows[row].resource) {
                other = at;
                break;
            }
            if (other < 0)
                other = at;
        }
        *missing += other < 0;
        parent[row] = other;
    }
    for (int64_t i = 0; i < link_count; i++) {
        const sv_id id = {links[i].trace_high, links[i].trace_low, links[i].span,
                          (unsigned)links[i].forms & 3u};
        linked[i] = SV_ROW_OF(*sv_slot(&ids, &id, sv_hash(&ids, &id)));
    }
    free(ids.slots);
    free(ids.next);
    return 1;
}

/* Writes how many of some spans are open, wherever that changes, and at `first` in any case; returns
 * how often that is. Both columns ascend; there is room for all their times and one more. */
static int64_t sv_open_counts(const int64_t *start, const int64_t *end, int64_t count, int64_t first,
                              int64_t *time_ns, int64_t *open)
{
    int64_t begun = 0, ended = 0, found = 0;
    for (int64_t now = first;;) {
        while (begun < count && start[begun] <= now)
            begun++;
        while (ended < count && end[ended] <= now)
            ended++;
        if (!found || open[found - 1] != begun - ended) {
            time_ns[found] = now;
            open[found++] = begun - ended;
        }
        if (ended == count && begun == count)
            return found;
        now = begun < count && (ended == count || start[begun] < end[ended]) ? start[begun] : end[ended];
    }
}

/* Writes columns of spans. */
static void sv_split(const sv_row *rows, int64_t count, int64_t *start_ns, int64_t *end_ns, int32_t *resource,
                     int32_t *thread, uint8_t *kind, uint8_t *is_unfinished)
{
    for (int64_t i = 0; i < count; i++) {
        start_ns[i] = rows[i].start_ns;
        end_ns[i] = rows[i].end_ns;
        resource[i] = rows[i].resource;
        thread[i] = rows[i].thread;
        kind[i] = rows[i].kind;
        is_unfinished[i] = rows[i].is_unfinished;
    }
}

/* Writes columns of some spans, in their order; 0 if a row or a name is not there. */
static int sv_chosen(const sv_row *rows, int64_t count, const int64_t *order, int64_t chosen,
                     const int32_t *names, int64_t codes, int32_t *name, int32_t *category,
                     int64_t *offset, int32_t *length)
{
    for (int64_t i = 0; i < chosen; i++) {
        if (i + SV_AHEAD < chosen && order[i + SV_AHEAD] >= 0 && order[i + SV_AHEAD] < count)
            __builtin_prefetch(&rows[order[i + SV_AHEAD]].offset);
        if (order[i] < 0 || order[i] >= count)
            return 0;
        const sv_row *row = &rows[order[i]];
        if (row->name < 0 || row->name >= codes)
            return 0;
        name[i] = names[row->name];
        category[i] = row->category;
        offset[i] = row->offset;
        length[i] = row->length;
    }
    return 1;
}

static void sv_free(sv_scan *s)
{
    free(s->rows.items);
    free(s->points.items);
    free(s->links.items);
    free(s->resource_codes.items);
    free(s->scope_codes.items);
    free(s->known_keys.items);
    free(s->key_texts.at);
    free(s->text.at);
    free(s->attributes.at);
    free(s->plain.at);
    intern_free(&s->names);
    intern_free(&s->threads);
    intern_free(&s->resources);
    intern_free(&s->scopes);
    intern_free(&s->keys);
}

#endif
