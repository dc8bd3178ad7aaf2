/* The raw data of tracepoints, as the text of their fields: see tracepoint_text.h.
 *
 * The formats are those that the kernel describes in events/GROUP/NAME/format. The events that
 * tracepoint_text.h reads are written as perf prints them, all others as `name=value`.
 */
#ifndef MEANTIME_TRACEPOINT_RAW_H
#define MEANTIME_TRACEPOINT_RAW_H

#include "growing.h"
#include "raw_numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    RAW_UNSIGNED,
    RAW_SIGNED,
    RAW_POINTER,
    RAW_TEXT,      /* characters in place, until the end of the data if the size is 0 */
    RAW_DYNAMIC,   /* where the characters are: an offset in the lower 16 bits, a size in the upper */
    RAW_RELATIVE,  /* the same, from the end of the field */
    RAW_ARRAY,     /* numbers of `item` bytes */
};

/* How the fields of an event are written; the others that tracepoint_text.h reads need no more. */
enum {
    RAW_FIELDS,
    RAW_SWITCH, /* prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio */
    RAW_SOFTIRQ, /* vec */
    RAW_REQUEST, /* dev, rwbs, cmd, sector, nr_sector */
    RAW_ENTER, /* id, args */
    RAW_EXIT, /* id, ret */
    RAW_MARK, /* buf */
    RAW_FUNCTION, /* ip, parent_ip */
    RAW_GRAPH, /* func */
};

enum { RAW_NAMED = 8, RAW_MOST_ITEMS = 32, RAW_MOST_TEXT = 1 << 16 };

typedef struct {
    uint32_t offset, size, name, name_bytes; /* the name is in the names of all formats */
    int32_t kind, item;
} raw_field;

typedef struct {
    int64_t first, count; /* of its fields */
    int32_t spelling;
    int32_t named[RAW_NAMED]; /* the fields that the spelling needs, from `first` on */
    char letters[16];         /* of the states of threads, by their bits */
    int32_t letter_count;
} raw_format;

typedef struct {
    char *data;
    size_t used, room;
    int no_memory;
} raw_text;

typedef struct {
    const uint8_t *data;
    uint32_t size;
    int is_swapped;
} raw_event;

static inline int raw_room(raw_text *text, size_t size)
{
    if (text->used + size <= text->room)
        return 1;
    size_t room = 2 * (text->used + size) + 4096;
    char *grown = realloc(text->data, room);
    if (!grown) {
        text->no_memory = 1;
        return 0;
    }
    text->data = grown;
    text->room = room;
    return 1;
}

static inline void raw_put(raw_text *text, const char *at, size_t size)
{
    if (!raw_room(text, size))
        return;
    memcpy(text->data + text->used, at, size);
    text->used += size;
}

static inline void raw_say(raw_text *text, const char *words)
{
    raw_put(text, words, strlen(words));
}

static inline void raw_number(raw_text *text, uint64_t value, unsigned base)
{
    char digits[20];
    int at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    raw_put(text, digits + at, sizeof digits - (size_t)at);
}

static inline void raw_signed(raw_text *text, int64_t value)
{
    if (value < 0)
        raw_put(text, "-", 1);
    raw_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

/* Returns a number of 1, 2, 4 or 8 bytes, extended to 64 bits; 0 if it is not in the data. */
static inline uint64_t raw_value(const raw_event *event, uint32_t offset, uint32_t size, int is_signed)
{
    if (size > event->size || offset > event->size - size)
        return 0;
    const uint8_t *at = event->data + offset;
    switch (size) {
    case 1: return is_signed ? (uint64_t)(int64_t)(int8_t)*at : *at;
    case 2: {
        uint16_t value = raw_u16(at, event->is_swapped);
        return is_signed ? (uint64_t)(int64_t)(int16_t)value : value;
    }
    case 4: {
        uint32_t value = raw_u32(at, event->is_swapped);
        return is_signed ? (uint64_t)(int64_t)(int32_t)value : value;
    }
    case 8: return raw_u64(at, event->is_swapped);
    default: return 0;
    }
}

static inline int64_t raw_of(const raw_event *event, const raw_field *fields, int32_t which)
{
    if (which < 0)
        return 0;
    const raw_field *field = &fields[which];
    return (int64_t)raw_value(event, field->offset, field->size, field->kind == RAW_SIGNED);
}

/* Writes characters until the first zero byte, without a line feed at their end. */
static inline void raw_characters(raw_text *text, const raw_event *event, const raw_field *field)
{
    uint64_t offset = field->offset, size = field->size;
    if (field->kind == RAW_DYNAMIC || field->kind == RAW_RELATIVE) {
        uint64_t place = raw_value(event, field->offset, field->size, 0);
        offset = place & 0xffff;
        if (field->kind == RAW_RELATIVE)
            offset += field->offset + field->size;
        size = place >> 16 & 0xffff;
    }
    if (offset >= event->size)
        return;
    if (size > event->size - offset || (!size && field->kind == RAW_TEXT))
        size = event->size - offset;
    const char *at = (const char *)event->data + offset;
    const char *zero = size ? memchr(at, 0, size) : NULL;
    if (zero)
        size = (uint64_t)(zero - at);
    while (size && at[size - 1] == '\n')
        size--;
    if (size > RAW_MOST_TEXT)
        size = RAW_MOST_TEXT;
    if (!raw_room(text, size))
        return;
    /* a line of text has one line */
    for (uint64_t i = 0; i < size; i++)
        text->data[text->used++] = at[i] == '\n' || at[i] == '\r' ? ' ' : at[i];
}

static inline void raw_field_text(raw_text *text, const raw_event *event, const raw_field *field)
{
    switch (field->kind) {
    case RAW_TEXT: case RAW_DYNAMIC: case RAW_RELATIVE:
        raw_characters(text, event, field);
        break;
    case RAW_ARRAY:
        raw_say(text, "{");
        for (uint32_t i = 0, count = field->item ? field->size / (uint32_t)field->item : 0;
             i < count; i++) {
            if (i == RAW_MOST_ITEMS) {
                raw_say(text, ",...");
                break;
            }
            if (i)
                raw_say(text, ",");
            raw_say(text, "0x");
            raw_number(text, raw_value(event, field->offset + i * (uint32_t)field->item,
                                       (uint32_t)field->item, 0), 16);
        }
        raw_say(text, "}");
        break;
    case RAW_SIGNED:
        raw_signed(text, (int64_t)raw_value(event, field->offset, field->size, 1));
        break;
    default: {
        uint64_t value = raw_value(event, field->offset, field->size, 0);
        /* what is that large is an address */
        if (field->kind == RAW_POINTER || value > INT64_MAX) {
            raw_say(text, "0x");
            raw_number(text, value, 16);
        } else {
            raw_number(text, value, 10);
        }
    }
    }
}

static inline void raw_switch(raw_text *text, const raw_event *event, const raw_format *format,
                              const raw_field *fields)
{
    const int32_t *named = format->named;
    uint64_t state = (uint64_t)raw_of(event, fields, named[3]);
    int is_first = 1;
    raw_say(text, "prev_comm=");
    raw_characters(text, event, &fields[named[0]]);
    raw_say(text, " prev_pid=");
    raw_signed(text, raw_of(event, fields, named[1]));
    raw_say(text, " prev_prio=");
    raw_signed(text, raw_of(event, fields, named[2]));
    raw_say(text, " prev_state=");
    for (int32_t bit = 0; bit < format->letter_count; bit++) {
        if (!(state >> bit & 1) || !format->letters[bit])
            continue;
        if (!is_first)
            raw_say(text, "|");
        raw_put(text, &format->letters[bit], 1);
        is_first = 0;
    }
    if (is_first)
        raw_say(text, "R");
    if (state >> format->letter_count & 1)
        raw_say(text, "+");
    raw_say(text, " ==> next_comm=");
    raw_characters(text, event, &fields[named[4]]);
    raw_say(text, " next_pid=");
    raw_signed(text, raw_of(event, fields, named[5]));
    raw_say(text, " next_prio=");
    raw_signed(text, raw_of(event, fields, named[6]));
}

/* Appends the fields of an event. */
static inline void raw_event_text(raw_text *text, const raw_event *event, const raw_format *format,
                                  const raw_field *all, const char *names)
{
    static const char *const softirqs[] = {"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL",
                                           "TASKLET", "SCHED", "HRTIMER", "RCU"};
    const raw_field *fields = all + format->first;
    const int32_t *named = format->named;
    switch (format->spelling) {
    case RAW_SWITCH:
        raw_switch(text, event, format, fields);
        return;
    case RAW_SOFTIRQ: {
        uint64_t vector = (uint64_t)raw_of(event, fields, named[0]);
        raw_say(text, "vec=");
        raw_number(text, vector, 10);
        raw_say(text, " [action=");
        raw_say(text, vector < 10 ? softirqs[vector] : "");
        raw_say(text, "]");
        return;
    }
    case RAW_REQUEST: {
        uint64_t device = (uint64_t)raw_of(event, fields, named[0]);
        raw_number(text, device >> 20, 10);
        raw_say(text, ",");
        raw_number(text, device & 0xfffff, 10);
        raw_say(text, " ");
        raw_characters(text, event, &fields[named[1]]);
        raw_say(text, " (");
        if (named[2] >= 0)
            raw_characters(text, event, &fields[named[2]]);
        raw_say(text, ") ");
        raw_number(text, (uint64_t)raw_of(event, fields, named[3]), 10);
        raw_say(text, " + ");
        raw_number(text, (uint64_t)raw_of(event, fields, named[4]), 10);
        return;
    }
    case RAW_ENTER: case RAW_EXIT:
        raw_say(text, "NR ");
        raw_signed(text, raw_of(event, fields, named[0]));
        if (format->spelling == RAW_EXIT) {
            raw_say(text, " = ");
            raw_signed(text, raw_of(event, fields, named[1]));
            return;
        }
        raw_say(text, " (");
        for (uint32_t i = 0; i < 6 && (i + 1) * 8 <= fields[named[1]].size; i++) {
            if (i)
                raw_say(text, ", ");
            raw_number(text, raw_value(event, fields[named[1]].offset + 8 * i, 8, 0), 16);
        }
        raw_say(text, ")");
        return;
    case RAW_MARK:
        raw_characters(text, event, &fields[named[0]]);
        return;
    default:
        for (int64_t i = 0; i < format->count; i++) {
            if (i)
                raw_say(text, " ");
            raw_put(text, names + fields[i].name, fields[i].name_bytes);
            raw_say(text, "=");
            raw_field_text(text, event, &fields[i]);
        }
    }
}

#endif
