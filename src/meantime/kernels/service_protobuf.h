/* Exports of OpenTelemetry in protobuf, of which a message is complete. See `service_state.h`. */
#ifndef MEANTIME_SERVICE_PROTOBUF_H
#define MEANTIME_SERVICE_PROTOBUF_H

#include "decimal.h"
#include "service_state.h"
#include "varint.h"

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
        to = put_decimal(to, number);
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
        char *to = signed_decimal_before(number + sizeof number, (int64_t)field.value);
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

#endif
