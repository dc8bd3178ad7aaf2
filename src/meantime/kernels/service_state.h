/* Spans of services into rows: what a scan of exports of OpenTelemetry holds, as `service_json.h` and
 * `service_protobuf.h` read them.
 *
 * A scan is exact or does not answer. It stops at a span that is not in the usual form, or whose
 * resource or scope is new, for the caller to read that with Python, the definition of the format;
 * and it refuses a document that is not, whose rows the caller then takes back. Usual are the names
 * and types of protobuf's mapping to JSON, in camel case or snake case, ids in hexadecimal digits or
 * base64, resources before their spans, each field once, and times that are known and in order.
 */
#ifndef MEANTIME_SERVICE_STATE_H
#define MEANTIME_SERVICE_STATE_H

#include <Python.h>

#include "growing.h"
#include "private_names.h"

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
