/* The pages of the kernel's ring buffer, which trace-cmd copies as they are.
 *
 *     page = u64 time, long commit (the bytes behind it, and flags), events
 *     event = u32 with 5 bits of a length or a kind and 27 bits of nanoseconds since the one before
 *
 * Definition: include/linux/ring_buffer.h of Linux. All lengths are checked against the page.
 */
#ifndef MEANTIME_RING_BUFFER_H
#define MEANTIME_RING_BUFFER_H

#include "raw_numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RING_PADDING = 29, RING_EXTEND = 30, RING_STAMP = 31, RING_DELTA_BITS = 27 };
enum { RING_MISSED = 1U << 31, RING_MISSED_STORED = 1 << 30, RING_SIZE = (1 << 27) - 1 };

/* Where a reader is in the pages of one CPU. */
typedef struct {
    uint8_t *pages; /* a copy of those that were fed */
    int64_t used, room;
    int64_t page;        /* where the page is that is read, -1 before the first one */
    int64_t at, end;     /* in it, where the next event begins, and where they end */
    uint64_t page_ns, time_ns;
    const uint8_t *event; /* the next event that has data; NULL if there is none in these pages */
    uint32_t event_bytes;
    int64_t missed;      /* events that were lost before it */
    int32_t cpu;
    int is_last;         /* whether no further pages follow */
} ring_cursor;

typedef struct {
    int64_t page_bytes, commit_bytes;
    int is_swapped, is_big;
} ring_form;

/* Begins the next page; returns 0 if there is none, -1 if it is malformed. */
static inline int ring_begin_page(ring_cursor *cursor, const ring_form *form)
{
    int64_t header = 8 + form->commit_bytes;
    int64_t next = cursor->page < 0 ? 0 : cursor->page + form->page_bytes;
    if (cursor->used - next < form->page_bytes)
        return 0;
    const uint8_t *page = cursor->pages + next;
    uint64_t commit = form->commit_bytes == 8 ? raw_u64(page + 8, form->is_swapped)
                                              : raw_u32(page + 8, form->is_swapped);
    int64_t size = (int64_t)(commit & RING_SIZE);
    cursor->page = next;
    cursor->page_ns = cursor->time_ns = raw_u64(page, form->is_swapped);
    cursor->at = header;
    cursor->end = header;
    if (size > form->page_bytes - header)
        return -1;
    cursor->end = header + size;
    if (commit & RING_MISSED) {
        int64_t missed = 1;
        if (commit & RING_MISSED_STORED && cursor->end + form->commit_bytes <= form->page_bytes) {
            uint64_t stored = form->commit_bytes == 8
                ? raw_u64(page + cursor->end, form->is_swapped)
                : raw_u32(page + cursor->end, form->is_swapped);
            missed = stored && stored < (1ULL << 50) ? (int64_t)stored : 1;
        }
        cursor->missed += missed;
    }
    return 1;
}

/* Finds the next event with data. Returns 1, 0 if further pages are needed, -1 if the rest of a page
 * is malformed: it is left. */
static inline int ring_next(ring_cursor *cursor, const ring_form *form)
{
    cursor->event = NULL;
    for (;;) {
        if (cursor->page < 0 || cursor->end - cursor->at < 4) {
            int got = ring_begin_page(cursor, form);
            if (got <= 0)
                return got;
            continue;
        }
        const uint8_t *page = cursor->pages + cursor->page, *at = page + cursor->at;
        int64_t rest = cursor->end - cursor->at - 4;
        uint32_t word = raw_u32(at, form->is_swapped);
        uint32_t kind = form->is_big ? word >> RING_DELTA_BITS : word & 31;
        uint64_t delta = form->is_big ? word & ((1U << RING_DELTA_BITS) - 1) : word >> 5;
        int64_t size, data = 4;
        if (kind == RING_EXTEND || kind == RING_STAMP) {
            if (rest < 4)
                goto malformed;
            delta += (uint64_t)raw_u32(at + 4, form->is_swapped) << RING_DELTA_BITS;
            /* the upper bits of a time are those of the page */
            if (kind == RING_STAMP)
                cursor->time_ns = delta | (cursor->page_ns & 31ULL << 59);
            else
                cursor->time_ns += delta;
            cursor->at += 8;
            continue;
        }
        if (kind == RING_PADDING) {
            if (!delta || rest < 4) {
                cursor->at = cursor->end;
                continue;
            }
            size = (int64_t)raw_u32(at + 4, form->is_swapped);
            if (size > rest)
                goto malformed;
            cursor->time_ns += delta;
            cursor->at += 4 + size;
            continue;
        }
        if (kind) {
            size = 4 * (int64_t)kind;
        } else {
            if (rest < 4)
                goto malformed;
            size = (int64_t)raw_u32(at + 4, form->is_swapped) - 4;
            if (size < 0)
                goto malformed;
            data = 8;
            rest -= 4;
        }
        if (size > rest)
            goto malformed;
        cursor->time_ns += delta;
        cursor->event = at + data;
        cursor->event_bytes = (uint32_t)size;
        /* events are filled up to words */
        cursor->at += data + (size + 3) / 4 * 4;
        if (cursor->at > cursor->end)
            cursor->at = cursor->end;
        return 1;
    }
malformed:
    cursor->at = cursor->end;
    return -1;
}

#endif
