/* Exports of OpenTelemetry in JSON. What reads something returns what follows it; NULL if it is unusual
 * or cut. See `service_state.h`. */
#ifndef MEANTIME_SERVICE_JSON_H
#define MEANTIME_SERVICE_JSON_H

#include "service_state.h"

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

#endif
