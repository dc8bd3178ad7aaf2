/* Rows in order of time. */
#ifndef MEANTIME_TIMED_ROWS_H
#define MEANTIME_TIMED_ROWS_H

#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int64_t time_ns, row;
} timed_row;

static int timed_row_compare(const void *one, const void *other)
{
    const timed_row *a = one, *b = other;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Puts rows in order of time, those of one time in order of their numbers, from `rows` into `sorted`.
 * They come in few ascending sequences, so they are dealt out by the upper bits of their times into
 * buckets of some rows, which is nearly sequential. Returns 0 without memory. */
static int timed_rows_sort(const timed_row *rows, int64_t count, timed_row *sorted)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        low = rows[i].time_ns < low ? rows[i].time_ns : low;
        high = rows[i].time_ns > high ? rows[i].time_ns : high;
    }
    uint64_t span = count ? (uint64_t)high - (uint64_t)low : 0;
    int shift = 0;
    while (shift < 63 && span >> shift > (uint64_t)count / 4)
        shift++;
    int64_t buckets = (int64_t)(span >> shift) + 1, begin = 0;
    int64_t *ends = calloc((size_t)buckets, sizeof *ends);
    if (!ends)
        return 0;
    for (int64_t i = 0; i < count; i++)
        ends[((uint64_t)rows[i].time_ns - (uint64_t)low) >> shift]++;
    for (int64_t i = 0; i < buckets; i++) {
        int64_t size = ends[i];
        ends[i] = begin;
        begin += size;
    }
    for (int64_t i = 0; i < count; i++)
        sorted[ends[((uint64_t)rows[i].time_ns - (uint64_t)low) >> shift]++] = rows[i];
    begin = 0;
    for (int64_t i = 0; i < buckets; begin = ends[i++]) {
        if (ends[i] - begin > 32) {
            qsort(sorted + begin, (size_t)(ends[i] - begin), sizeof *sorted, timed_row_compare);
            continue;
        }
        for (int64_t at = begin + 1; at < ends[i]; at++) {
            timed_row row = sorted[at];
            int64_t to = at;
            for (; to > begin && timed_row_compare(&row, &sorted[to - 1]) < 0; to--)
                sorted[to] = sorted[to - 1];
            sorted[to] = row;
        }
    }
    free(ends);
    return 1;
}

#endif
