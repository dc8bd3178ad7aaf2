/* Packets of CTF 1.8, decoded and merged in order of time into ftrace text.
 *
 * What the metadata describe is a program: trees of nodes, one for each part of a packet or event.
 * The children of a node are next to each other, and after it. `ctf_check` has checked all numbers in
 * a program before one is used; a number from a packet is only used after a comparison with the
 * content that is left. Positions and sizes are in bits, counted from the begin of a packet.
 */
#ifndef MEANTIME_CTF_PACKETS_H
#define MEANTIME_CTF_PACKETS_H

#include "ctf_event.h"

#include <stdio.h>

enum {
    CTF_INTEGER,
    CTF_FLOAT,
    CTF_STRING,
    CTF_ENUM,
    CTF_STRUCT,
    CTF_VARIANT,
    CTF_ARRAY,        /* of as many elements as `value` says */
    CTF_SEQUENCE,     /* of as many as the register `value` says */
    CTF_TEXT,         /* as above, of bytes that are text */
    CTF_TEXT_SEQUENCE,
    CTF_KINDS
};

/* What the value of a node is used for, beyond its text. */
enum {
    CTF_NOTHING,
    CTF_MAGIC,
    CTF_STREAM_ID,
    CTF_INSTANCE,
    CTF_PACKET_BITS,
    CTF_CONTENT_BITS,
    CTF_BEGIN_TIME,
    CTF_END_TIME,
    CTF_DISCARDED,
    CTF_SEQUENCE_NUMBER,
    CTF_EVENT_ID,
    CTF_MEANINGS
};

enum { CTF_IS_SIGNED = 1, CTF_IS_BIG = 2, CTF_IS_KEPT = 4, CTF_IS_CLOCK = 8, CTF_ALL_FLAGS = 15 };

enum {
    CTF_MOST_ALIGN = 1 << 16,
    CTF_MOST_DEPTH = 64,
    CTF_MOST_TEXT = 1 << 24,  /* bytes of an event's nested values */
    CTF_KEPT = 8,             /* fields of a packet's context */
    CTF_UUID_BYTES = 16
};

/* Columns of the arrays that a program is given as. */
enum { CTF_NODE_COLUMNS = 14, CTF_RANGE_COLUMNS = 4, CTF_CLASS_COLUMNS = 9, CTF_EVENT_COLUMNS = 5 };

struct ctf_node {
    int kind, align, bits, flags, base;
    int64_t name, name_bytes; /* in the names */
    int32_t first, count;     /* the children */
    int32_t reg;              /* the register that its value is stored in; -1 if none is */
    uint64_t value;
    int meaning;
    int32_t range, ranges; /* names of an enumeration's values, options of a variant */
};

/* Values from `low` to `high`, in their order as signed or unsigned numbers. */
struct ctf_range {
    uint64_t low, high;
    int64_t at, bytes; /* text in the names; or the child of a variant, and 0 */
};

struct ctf_class {
    uint64_t id;
    int32_t context, header, event_context; /* nodes; -1 if there is none */
    int32_t event, events;
    int64_t frequency, offset_s, offset;
};

struct ctf_event_class {
    uint64_t id;
    int32_t context, payload;
    int64_t name, name_bytes;
};

struct ctf_program {
    struct ctf_node *nodes;
    struct ctf_range *ranges;
    struct ctf_class *classes;
    struct ctf_event_class *events;
    int64_t node_count, range_count, class_count, event_count, name_bytes, registers;
    const char *names;
};

enum {
    CTF_OK,
    CTF_BEYOND,      /* a field ends after the content */
    CTF_NO_EVENT,    /* an id that no event has */
    CTF_NO_OPTION,   /* a tag that no option of a variant has */
    CTF_TOO_LONG,    /* text of an event beyond CTF_MOST_TEXT */
    CTF_NO_PROGRESS, /* an event without a bit, or too many fields without one */
    CTF_NO_MEMORY
};

struct ctf_stream {
    const uint8_t *data; /* the current packet; NULL between packets */
    uint64_t at, end;
    uint64_t begin;      /* where the current event begins */
    uint64_t body;       /* where the current event's contexts begin; 0 if it has no header yet */
    uint64_t clock;
    int64_t seconds;
    long nanoseconds;
    int is_beyond;       /* whether its time does not fit */
    int32_t class_, event;
    uint64_t spare;      /* how many more fields may have no bits */
    uint64_t *registers;
    struct ctf_field kept[CTF_KEPT];
    int kept_count;
};

struct ctf_decoder {
    struct ctf_program program;
    struct ctf_stream *streams;
    int32_t *heap; /* streams with an event, the earliest first */
    int32_t stream_count, heap_count;
    struct ctf_state state;
    uint64_t meanings[CTF_MEANINGS];
    int has[CTF_MEANINGS];
    char *text; /* values that differ from the bytes of a packet */
    size_t text_bytes, text_room;
    struct ctf_field fields[CTF_FIELDS];
    int field_count;
    size_t needed; /* room that the next event needs */
};

/* ------------------------------------------------------------------ values */

/* Align, and read an integer of 1 to 64 bits; return 0 beyond the content. */
static inline int ctf_bits(
    struct ctf_stream *stream, unsigned align, unsigned bits, int is_big, uint64_t *value
) {
    uint64_t at = (stream->at + align - 1) & ~(uint64_t)(align - 1);
    if (at > stream->end || stream->end - at < bits) return 0;
    const uint8_t *byte = stream->data + (at >> 3);
    unsigned shift = at & 7;
    stream->at = at + bits;
    if (!shift && !(bits & 7)) {
        uint64_t found = 0;
        unsigned bytes = bits >> 3;
        if (is_big) {
            for (unsigned each = 0; each < bytes; each++) found = found << 8 | byte[each];
        } else if (bytes == 4) {
            uint8_t four[4];
            memcpy(four, byte, 4);
            found = (uint64_t)four[0] | (uint64_t)four[1] << 8 | (uint64_t)four[2] << 16 |
                    (uint64_t)four[3] << 24;
        } else {
            for (unsigned each = 0; each < bytes; each++) found |= (uint64_t)byte[each] << 8 * each;
        }
        *value = found;
        return 1;
    }
    uint64_t found = 0;
    unsigned done = 0;
    while (done < bits) {
        unsigned room = 8 - shift, part = bits - done < room ? bits - done : room;
        unsigned mask = (1u << part) - 1;
        if (is_big) found = found << part | (*byte >> (room - part) & mask);
        else found |= (uint64_t)(*byte >> shift & mask) << done;
        done += part;
        shift = 0;
        byte++;
    }
    *value = found;
    return 1;
}

static inline uint64_t ctf_extended(uint64_t value, unsigned bits) {
    if (bits < 64 && value >> (bits - 1) & 1) value |= ~(uint64_t)0 << bits;
    return value;
}

/* Return the range that has a value, or NULL. */
static const struct ctf_range *ctf_range_of(
    const struct ctf_program *program, const struct ctf_node *node, uint64_t value
) {
    uint64_t flip = node->flags & CTF_IS_SIGNED ? (uint64_t)1 << 63 : 0;
    const struct ctf_range *ranges = program->ranges + node->range;
    int32_t low = 0, high = node->ranges;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((ranges[middle].high ^ flip) < (value ^ flip)) low = middle + 1;
        else high = middle;
    }
    if (low == node->ranges || (ranges[low].low ^ flip) > (value ^ flip)) return NULL;
    return &ranges[low];
}

static void ctf_set_clock(struct ctf_stream *stream, uint64_t value, unsigned bits) {
    if (bits < 64) {
        uint64_t mask = ((uint64_t)1 << bits) - 1, above = stream->clock & ~mask;
        /* a value below the last one: the counter has wrapped */
        if (value < (stream->clock & mask)) above += mask + 1;
        value |= above;
    }
    stream->clock = value;
}

/* Read an integer, sign-extended, and use it for what it means. */
static inline int ctf_integer_of(
    struct ctf_decoder *decoder, struct ctf_stream *stream, const struct ctf_node *node,
    uint64_t *value
) {
    unsigned bits = (unsigned)node->bits;
    if (!ctf_bits(stream, (unsigned)node->align, bits, node->flags & CTF_IS_BIG, value)) return 0;
    if (node->flags & CTF_IS_CLOCK) ctf_set_clock(stream, *value, bits);
    if (node->flags & CTF_IS_SIGNED) *value = ctf_extended(*value, bits);
    if (node->reg >= 0) stream->registers[node->reg] = *value;
    if (node->meaning) {
        decoder->meanings[node->meaning] = *value;
        decoder->has[node->meaning] = 1;
    }
    return 1;
}

/* Find a text up to its zero, or of so many bytes; return what went wrong. */
static int ctf_bytes_of(
    struct ctf_stream *stream, const struct ctf_node *node, struct ctf_text *found
) {
    uint64_t align = (uint64_t)node->align, at = (stream->at + align - 1) & ~(align - 1);
    if (at > stream->end) return CTF_BEYOND;
    uint64_t left = (stream->end - at) >> 3, count = left;
    const char *text = (const char *)stream->data + (at >> 3), *zero;
    if (node->kind != CTF_STRING) {
        count = node->kind == CTF_TEXT ? node->value : stream->registers[node->value];
        if (count > left) return CTF_BEYOND;
    }
    zero = count ? memchr(text, 0, (size_t)count) : NULL;
    found->at = text;
    found->size = zero ? (size_t)(zero - text) : (size_t)count;
    if (node->kind == CTF_STRING) {
        if (!zero) return CTF_BEYOND;
        count = found->size + 1;
    }
    stream->at = at + 8 * count;
    return CTF_OK;
}

/* -------------------------------------------------------------------- text */

/* Make room for more text; return 0 if there is none. */
static inline int ctf_text_room(struct ctf_decoder *decoder, size_t more) {
    size_t needed = decoder->text_bytes + more;
    if (needed <= decoder->text_room) return 1;
    if (needed > 2 * (size_t)CTF_MOST_TEXT) return 0;
    char *grown = realloc(decoder->text, 2 * needed);
    if (!grown) return 0;
    decoder->text = grown;
    decoder->text_room = 2 * needed;
    return 1;
}

static int ctf_append(struct ctf_decoder *decoder, const char *at, size_t size) {
    if (decoder->text_bytes + size > CTF_MOST_TEXT) return CTF_TOO_LONG;
    if (!ctf_text_room(decoder, size + 1)) return CTF_NO_MEMORY;
    memcpy(decoder->text + decoder->text_bytes, at, size);
    decoder->text_bytes += size;
    return CTF_OK;
}

static int ctf_append_word(struct ctf_decoder *decoder, const char *word) {
    return ctf_append(decoder, word, strlen(word));
}

/* Append an integer in its base; bases other than 10 have a number's own bits. */
static int ctf_append_integer(
    struct ctf_decoder *decoder, const struct ctf_node *node, uint64_t value
) {
    char text[72], *end = text + sizeof text, *begin = end;
    unsigned bits = (unsigned)node->bits, shift = 0;
    if (node->base == 10) {
        int is_negative = node->flags & CTF_IS_SIGNED && value >> 63;
        begin = decimal_before(end, is_negative ? -value : value);
        if (is_negative) *--begin = '-';
        return ctf_append(decoder, begin, (size_t)(end - begin));
    }
    shift = node->base == 16 ? 4 : node->base == 8 ? 3 : 1;
    /* the sign's copies fill the last digit */
    unsigned whole = (bits + shift - 1) / shift * shift;
    if (whole < 64) value &= ((uint64_t)1 << whole) - 1;
    do {
        *--begin = "0123456789ABCDEF"[value & ((1u << shift) - 1)];
        value >>= shift;
    } while (value || (shift == 1 && (unsigned)(end - begin) < bits));
    if (shift == 4) *--begin = 'x';
    if (shift == 1) *--begin = 'b';
    *--begin = '0';
    return ctf_append(decoder, begin, (size_t)(end - begin));
}

/* Append a text without what is not printable; `is_nested` as a quoted one without blanks. */
static int ctf_append_text(struct ctf_decoder *decoder, struct ctf_text text, int is_nested) {
    if (text.size > CTF_MOST_TEXT) return CTF_TOO_LONG;
    if (!ctf_text_room(decoder, 2 * text.size + 3)) return CTF_NO_MEMORY;
    char *begin = decoder->text + decoder->text_bytes, *to = begin;
    if (is_nested) *to++ = '"';
    for (size_t each = 0; each < text.size; each++) {
        unsigned char c = (unsigned char)text.at[each];
        if (c < ' ' || c == 127) c = ' ';
        if (is_nested && c == ' ') continue;
        if (is_nested && strchr("\\\"'?", c)) *to++ = '\\';
        *to++ = (char)c;
    }
    if (is_nested) *to++ = '"';
    decoder->text_bytes += (size_t)(to - begin);
    return decoder->text_bytes > CTF_MOST_TEXT ? CTF_TOO_LONG : CTF_OK;
}

static int ctf_append_float(
    struct ctf_decoder *decoder, const struct ctf_node *node, uint64_t bits
) {
    char text[40];
    double value;
    if (node->bits == 32) {
        uint32_t half = (uint32_t)bits;
        float single;
        memcpy(&single, &half, 4);
        value = single;
    } else {
        memcpy(&value, &bits, 8);
    }
    int size = snprintf(text, sizeof text, "%g", value);
    /* in the numbers of some languages a comma is the point */
    for (int each = 0; each < size; each++)
        if (text[each] == ',') text[each] = '.';
    return ctf_append(decoder, text, (size_t)size);
}

static int ctf_append_enum(
    struct ctf_decoder *decoder, const struct ctf_node *node, uint64_t value
) {
    const struct ctf_range *range = ctf_range_of(&decoder->program, node, value);
    int failed = ctf_append_word(decoder, "(");
    if (!failed && range)
        failed = ctf_append(decoder, decoder->program.names + range->at, (size_t)range->bytes);
    else if (!failed) failed = ctf_append_word(decoder, "<unknown>");
    if (!failed) failed = ctf_append_word(decoder, ":container=");
    if (!failed) failed = ctf_append_integer(decoder, node, value);
    return failed ? failed : ctf_append_word(decoder, ")");
}

/* Read what a node describes; with `is_text` append it as babeltrace2 prints it, without blanks. */
static int ctf_walk(
    struct ctf_decoder *decoder, struct ctf_stream *stream, const struct ctf_node *node,
    int is_text, int depth
) {
    const struct ctf_program *program = &decoder->program;
    uint64_t value, align = (uint64_t)node->align, before = stream->at, count;
    struct ctf_text text;
    int failed = CTF_OK;
    if (depth > CTF_MOST_DEPTH) return CTF_TOO_LONG;
    switch (node->kind) {
    case CTF_INTEGER:
    case CTF_ENUM:
        if (!ctf_integer_of(decoder, stream, node, &value)) return CTF_BEYOND;
        if (!is_text) return CTF_OK;
        return node->kind == CTF_ENUM ? ctf_append_enum(decoder, node, value)
                                      : ctf_append_integer(decoder, node, value);
    case CTF_FLOAT:
        if (!ctf_bits(
                stream, (unsigned)node->align, (unsigned)node->bits, node->flags & CTF_IS_BIG, &value
            ))
            return CTF_BEYOND;
        return is_text ? ctf_append_float(decoder, node, value) : CTF_OK;
    case CTF_STRING:
    case CTF_TEXT:
    case CTF_TEXT_SEQUENCE:
        failed = ctf_bytes_of(stream, node, &text);
        return failed || !is_text ? failed : ctf_append_text(decoder, text, 1);
    case CTF_STRUCT:
        stream->at = (stream->at + align - 1) & ~(align - 1);
        if (is_text) failed = ctf_append_word(decoder, "{");
        for (int32_t each = 0; each < node->count && !failed; each++) {
            const struct ctf_node *child = program->nodes + node->first + each;
            if (is_text) {
                if (each) failed = ctf_append_word(decoder, ",");
                if (!failed)
                    failed = ctf_append(
                        decoder, program->names + child->name, (size_t)child->name_bytes
                    );
                if (!failed) failed = ctf_append_word(decoder, "=");
            }
            if (!failed) failed = ctf_walk(decoder, stream, child, is_text, depth + 1);
        }
        if (is_text && !failed) failed = ctf_append_word(decoder, "}");
        break;
    case CTF_VARIANT: {
        const struct ctf_range *range =
            ctf_range_of(program, node, stream->registers[node->value]);
        if (!range) return CTF_NO_OPTION;
        if (is_text) failed = ctf_append_word(decoder, "{");
        if (!failed)
            failed = ctf_walk(
                decoder, stream, program->nodes + node->first + range->at, is_text, depth + 1
            );
        if (is_text && !failed) failed = ctf_append_word(decoder, "}");
        break;
    }
    default: /* an array or a sequence */
        stream->at = (stream->at + align - 1) & ~(align - 1);
        count = node->kind == CTF_ARRAY ? node->value : stream->registers[node->value];
        if (is_text) failed = ctf_append_word(decoder, "[");
        for (uint64_t each = 0; each < count && !failed; each++) {
            if (is_text) {
                char index[32], *end = index + sizeof index, *begin = end - 2;
                memcpy(begin, "]=", 2);
                begin = decimal_before(begin, each);
                *--begin = '[';
                if (each) *--begin = ',';
                failed = ctf_append(decoder, begin, (size_t)(end - begin));
            }
            if (!failed)
                failed =
                    ctf_walk(decoder, stream, program->nodes + node->first, is_text, depth + 1);
        }
        if (is_text && !failed) failed = ctf_append_word(decoder, "]");
    }
    if (stream->at > stream->end && !failed) return CTF_BEYOND;
    /* what has no bits must not be repeated without end */
    if (stream->at == before && !failed && !stream->spare--) {
        stream->spare = 0;
        return CTF_NO_PROGRESS;
    }
    return failed;
}

/* Read one field of an event into `fields`. */
static int ctf_field_of(
    struct ctf_decoder *decoder, struct ctf_stream *stream, const struct ctf_node *node
) {
    struct ctf_field *field = &decoder->fields[decoder->field_count];
    size_t begin = decoder->text_bytes;
    uint64_t value;
    int failed;
    field->key.at = decoder->program.names + node->name;
    field->key.size = (size_t)node->name_bytes;
    field->has_number = 0;
    field->form = CTF_PLAIN;
    field->value.at = NULL;
    if (node->kind == CTF_INTEGER || node->kind == CTF_ENUM) {
        if (!ctf_integer_of(decoder, stream, node, &value)) return CTF_BEYOND;
        field->has_number = 1;
        field->number = value;
        if (node->kind == CTF_INTEGER && node->base == 10) {
            field->form = node->flags & CTF_IS_SIGNED ? CTF_SIGNED : CTF_UNSIGNED;
            field->value.size = 20;
            decoder->field_count++;
            return CTF_OK;
        }
        failed = node->kind == CTF_ENUM ? ctf_append_enum(decoder, node, value)
                                        : ctf_append_integer(decoder, node, value);
    } else if (node->kind == CTF_STRING || node->kind == CTF_TEXT ||
               node->kind == CTF_TEXT_SEQUENCE) {
        struct ctf_text text;
        if ((failed = ctf_bytes_of(stream, node, &text))) return failed;
        size_t each = 0;
        while (each < text.size && (unsigned char)text.at[each] >= ' ' && text.at[each] != 127) each++;
        if (each == text.size) {
            if (text.size > CTF_MOST_TEXT) return CTF_TOO_LONG;
            field->value = text;
            decoder->field_count++;
            return CTF_OK;
        }
        failed = ctf_append_text(decoder, text, 0);
    } else {
        failed = ctf_walk(decoder, stream, node, 1, 0);
    }
    if (failed) return failed;
    /* the text may move until all fields are read; this is where it is in it */
    field->value.size = decoder->text_bytes - begin;
    decoder->field_count++;
    return CTF_OK;
}

/* Read the fields of a struct; those of a context only if they are kept. */
static int ctf_fields_of(
    struct ctf_decoder *decoder, struct ctf_stream *stream, int32_t at, int is_context
) {
    if (at < 0) return CTF_OK;
    const struct ctf_node *root = decoder->program.nodes + at;
    uint64_t align = (uint64_t)root->align;
    int failed = CTF_OK;
    stream->at = (stream->at + align - 1) & ~(align - 1);
    for (int32_t each = 0; each < root->count && !failed; each++) {
        const struct ctf_node *child = decoder->program.nodes + root->first + each;
        if (is_context ? !(child->flags & CTF_IS_KEPT) : decoder->field_count == CTF_FIELDS) {
            decoder->state.dropped_fields += !is_context;
            failed = ctf_walk(decoder, stream, child, 0, 0);
        } else if (decoder->field_count < CTF_FIELDS) {
            failed = ctf_field_of(decoder, stream, child);
        } else {
            failed = ctf_walk(decoder, stream, child, 0, 0);
        }
    }
    return !failed && stream->at > stream->end ? CTF_BEYOND : failed;
}

/* ----------------------------------------------------------------- streams */

static inline int ctf_is_before(const struct ctf_decoder *decoder, int32_t one, int32_t other) {
    const struct ctf_stream *a = decoder->streams + one, *b = decoder->streams + other;
    if (a->seconds != b->seconds) return a->seconds < b->seconds;
    if (a->nanoseconds != b->nanoseconds) return a->nanoseconds < b->nanoseconds;
    return one < other;
}

static void ctf_sift(struct ctf_decoder *decoder, int32_t at) {
    int32_t *heap = decoder->heap, moved = heap[at];
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= decoder->heap_count) break;
        if (child + 1 < decoder->heap_count && ctf_is_before(decoder, heap[child + 1], heap[child]))
            child++;
        if (!ctf_is_before(decoder, heap[child], moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void ctf_enter(struct ctf_decoder *decoder, int32_t stream) {
    int32_t *heap = decoder->heap, at = decoder->heap_count++;
    while (at > 0 && ctf_is_before(decoder, stream, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = stream;
}

static void ctf_leave_first(struct ctf_decoder *decoder) {
    decoder->heap[0] = decoder->heap[--decoder->heap_count];
    if (decoder->heap_count) ctf_sift(decoder, 0);
}

/* Set a stream's time from its clock. */
static void ctf_set_time(const struct ctf_class *class_, struct ctf_stream *stream) {
    uint64_t frequency = (uint64_t)class_->frequency;
    uint64_t cycles = stream->clock % frequency + (uint64_t)class_->offset;
    uint64_t whole = stream->clock / frequency;
    int64_t seconds = whole > INT64_MAX ? INT64_MAX : (int64_t)whole;
    if (cycles >= frequency) {
        cycles -= frequency;
        seconds += seconds < INT64_MAX;
    }
    stream->nanoseconds =
        (long)(frequency == 1000000000 ? cycles : cycles * UINT64_C(1000000000) / frequency);
    if (class_->offset_s > 0 && seconds > INT64_MAX - class_->offset_s) seconds = INT64_MAX;
    else seconds += class_->offset_s;
    stream->seconds = seconds;
    /* the last second of 64-bit nanoseconds is not complete */
    stream->is_beyond = seconds < 0 || seconds >= INT64_MAX / 1000000000;
}

/* Read the next event's header; return what went wrong. `body` is 0 at the end of the packet. */
static int ctf_read_header(struct ctf_decoder *decoder, struct ctf_stream *stream) {
    const struct ctf_program *program = &decoder->program;
    const struct ctf_class *class_ = program->classes + stream->class_;
    stream->body = 0;
    stream->begin = stream->at;
    if (stream->at >= stream->end) return CTF_OK;
    decoder->has[CTF_EVENT_ID] = 0;
    int failed = ctf_walk(decoder, stream, program->nodes + class_->header, 0, 0);
    if (failed) return failed;
    const struct ctf_event_class *events = program->events + class_->event;
    uint64_t id = decoder->has[CTF_EVENT_ID] ? decoder->meanings[CTF_EVENT_ID] : 0;
    /* mostly the events are numbered */
    if (id < (uint64_t)class_->events && events[id].id == id) {
        stream->event = (int32_t)id;
    } else {
        int32_t low = 0, high = class_->events;
        while (low < high) {
            int32_t middle = low + (high - low) / 2;
            if (events[middle].id < id) low = middle + 1;
            else high = middle;
        }
        if (low == class_->events || events[low].id != id) return CTF_NO_EVENT;
        stream->event = low;
    }
    ctf_set_time(class_, stream);
    stream->body = stream->at;
    return CTF_OK;
}

/* Read and write the current event of a stream. `*is_full` is set if the output has no room. */
static int ctf_write_event(
    struct ctf_decoder *decoder, struct ctf_stream *stream, struct ctf_out *out, int *is_full
) {
    const struct ctf_program *program = &decoder->program;
    const struct ctf_class *class_ = program->classes + stream->class_;
    const struct ctf_event_class *event = program->events + class_->event + stream->event;
    long long dropped = decoder->state.dropped_fields;
    uint64_t clock = stream->clock;
    int failed, contexts;
    decoder->text_bytes = 0;
    memcpy(decoder->fields, stream->kept, (size_t)stream->kept_count * sizeof *stream->kept);
    decoder->field_count = stream->kept_count;
    stream->at = stream->body;
    if ((failed = ctf_fields_of(decoder, stream, class_->event_context, 1))) return failed;
    if ((failed = ctf_fields_of(decoder, stream, event->context, 1))) return failed;
    contexts = decoder->field_count;
    if ((failed = ctf_fields_of(decoder, stream, event->payload, 0))) return failed;
    if (stream->at == stream->begin) return CTF_NO_PROGRESS;
    size_t needed = 512 + (size_t)event->name_bytes, at = 0;
    for (int each = 0; each < decoder->field_count; each++) {
        struct ctf_field *field = &decoder->fields[each];
        needed += field->key.size + field->value.size + 64;
        if (field->form == CTF_PLAIN && !field->value.at) {
            field->value.at = decoder->text + at;
            at += field->value.size;
        }
    }
    if ((size_t)(out->end - out->at) < needed) {
        decoder->needed = needed;
        decoder->state.dropped_fields = dropped;
        stream->clock = clock;
        *is_full = 1;
        return CTF_OK;
    }
    struct ctf_event found = {
        .seconds = stream->seconds,
        .nanoseconds = stream->nanoseconds,
        .name = {program->names + event->name, (size_t)event->name_bytes},
        .fields = decoder->fields,
        .contexts = contexts,
        .count = decoder->field_count,
        .is_perf = !contexts,
    };
    char *before = out->at;
    if (stream->is_beyond || !ctf_write(out, &found, &decoder->state)) {
        out->at = before;
        decoder->state.unread_lines++;
    }
    return CTF_OK;
}

enum { CTF_ENDED, CTF_FULL, CTF_NEEDS_PACKET, CTF_IS_DAMAGED };

/* Write events until the output is full, or a stream, `*which`, has no more events in its packet. */
static int ctf_run(
    struct ctf_decoder *decoder, struct ctf_out *out, int32_t *which, int *failed
) {
    while (decoder->heap_count) {
        int32_t index = decoder->heap[0];
        struct ctf_stream *stream = decoder->streams + index;
        int is_full = 0;
        *which = index;
        *failed = ctf_write_event(decoder, stream, out, &is_full);
        if (is_full) return CTF_FULL;
        if (!*failed) *failed = ctf_read_header(decoder, stream);
        if (*failed || !stream->body) {
            ctf_leave_first(decoder);
            stream->data = NULL;
            return *failed ? CTF_IS_DAMAGED : CTF_NEEDS_PACKET;
        }
        ctf_sift(decoder, 0);
    }
    return CTF_ENDED;
}

/* Read the header and the context of a packet. The stream has its data, its end and its class. */
static int ctf_read_part(struct ctf_decoder *decoder, struct ctf_stream *stream, int32_t at) {
    return at < 0 ? CTF_OK : ctf_walk(decoder, stream, decoder->program.nodes + at, 0, 0);
}

/* Keep the fields of the packet's context that every event in it has. */
static int ctf_keep_context(struct ctf_decoder *decoder, struct ctf_stream *stream, int32_t at) {
    decoder->field_count = 0;
    decoder->text_bytes = 0;
    stream->kept_count = 0;
    int failed = ctf_fields_of(decoder, stream, at, 1);
    for (int each = 0; each < decoder->field_count && !failed; each++) {
        /* the text is gone with the next event */
        if (!decoder->fields[each].has_number || stream->kept_count == CTF_KEPT) continue;
        struct ctf_field *kept = &stream->kept[stream->kept_count++];
        *kept = decoder->fields[each];
        kept->form = kept->form == CTF_UNSIGNED ? CTF_UNSIGNED : CTF_SIGNED;
        kept->value.size = 20;
    }
    return failed;
}

#endif
