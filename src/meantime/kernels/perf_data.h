/* The records of perf.data: what is queued until their order is known, and where the code of
 * processes is mapped.
 *
 *     record = u32 type, u16 misc, u16 size (with these 8 bytes), content
 *
 * Definition: include/uapi/linux/perf_event.h and tools/perf/Documentation/perf.data-file-format.txt
 * of Linux. All numbers are checked against the size of their record.
 */
#ifndef MEANTIME_PERF_DATA_H
#define MEANTIME_PERF_DATA_H

#include "growing.h"
#include "raw_numbers.h"
#include "timed_rows.h"
#include "tracepoint_raw.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PD_MMAP = 1, PD_LOST, PD_COMM, PD_EXIT, PD_THROTTLE, PD_UNTHROTTLE, PD_FORK, PD_READ, PD_SAMPLE,
    PD_MMAP2, PD_AUX, PD_ITRACE_START, PD_LOST_SAMPLES, PD_SWITCH, PD_SWITCH_CPU_WIDE, PD_NAMESPACES,
    PD_KSYMBOL, PD_KINDS = 24,
    PD_OF_PERF = 64, /* from here on records are of perf itself, not of the kernel */
    PD_ROUND = 68,
};

/* Which fields samples have. */
enum {
    PD_IP = 1, PD_TID = 2, PD_TIME = 4, PD_ADDR = 8, PD_READS = 16, PD_CALLCHAIN = 32, PD_ID = 64,
    PD_CPU = 128, PD_PERIOD = 256, PD_STREAM_ID = 512, PD_RAW = 1024, PD_REGS_USER = 4096,
    PD_STACK_USER = 8192, PD_IDENTIFIER = 65536,
};

enum { PD_READ_ENABLED = 1, PD_READ_RUNNING = 2, PD_READ_ID = 4, PD_READ_GROUP = 8, PD_READ_LOST = 16 };

/* What identifies a file of code, before its name: the size of its build id, that, and the device and
 * the inode. */
enum { PD_HEADER = 8, PD_BUILD_ID = 20, PD_IDENTITY = 1 + PD_BUILD_ID + 16 };
enum { PD_MOST_COMM = 64, PD_MOST_FILE = 4096 };

/* As many maps as Linux allows a process, and what all may have: 256 MiB. */
enum { PD_MOST_MAPS = 65530, PD_MOST_MAPS_IN_ALL = 1 << 23 };

/* In `misc`: the mode of the processor, and what else is in a record. */
enum {
    PD_MODE = 7, PD_MODE_KERNEL = 1, PD_MODE_USER = 2, PD_MODE_GUEST_KERNEL = 4, PD_MODE_GUEST_USER = 5,
    PD_FORK_EXEC = 1 << 13, PD_HAS_BUILD_ID = 1 << 14,
};

/* In call chains: above this, an address is the mode of those behind it. */
#define PD_CONTEXT_MOST ((uint64_t)-4095)
#define PD_CONTEXT_KERNEL ((uint64_t)-128)
#define PD_CONTEXT_USER ((uint64_t)-512)

typedef struct {
    uint64_t sample_type, read_format, period;
    int32_t event;   /* where its name is in the names of events */
    int32_t format;  /* of the raw data; -1 if they are none of a tracepoint */
    int has_ids_at_end; /* whether all records end with the fields that identify samples */
    int is_tracepoint;
} pd_attr;

/* What the fields of a sample, or those at the end of another record, say. */
typedef struct {
    uint64_t id, ip, time, period;
    int32_t pid, tid, cpu;
    const uint8_t *chain, *raw;
    uint64_t chain_count;
    uint32_t raw_bytes;
    int has_time, has_tid, is_unwound_later;
} pd_sample;

/* Code from `start` on; an address plus `shift` is its place in the file. */
typedef struct {
    uint64_t start, end, shift;
    int32_t file, unused;
} pd_map;

/* The maps of a process in order of their addresses, which processes share until one changes them. */
typedef struct {
    pd_map *maps;
    int32_t count, room, last, users;
} pd_maps;

typedef struct {
    int32_t pid, tid;
    uint32_t comm_bytes, bytes;
    int is_named, has_exited;
    char text[PD_MOST_COMM + 32]; /* the name, a blank, and the ids: pid/tid */
} pd_thread;

/* Reads the identifying fields that come last in records, backwards. Returns 0 if they do not fit. */
static inline int pd_read_end(const uint8_t *record, const uint8_t *end, uint64_t type, int is_swapped,
                              pd_sample *found)
{
    const uint8_t *at = end;
    const uint64_t fields[] = {PD_IDENTIFIER, PD_CPU, PD_STREAM_ID, PD_ID, PD_TIME, PD_TID};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!(type & fields[i]))
            continue;
        if (at - record < PD_HEADER + 8)
            return 0;
        at -= 8;
        switch (fields[i]) {
        case PD_IDENTIFIER: case PD_ID: found->id = raw_u64(at, is_swapped); break;
        case PD_CPU: found->cpu = (int32_t)raw_u32(at, is_swapped); break;
        case PD_TIME: found->time = raw_u64(at, is_swapped); found->has_time = 1; break;
        case PD_TID:
            found->pid = (int32_t)raw_u32(at, is_swapped);
            found->tid = (int32_t)raw_u32(at + 4, is_swapped);
            found->has_tid = 1;
            break;
        default: break;
        }
    }
    return 1;
}

/* Reads a sample up to its raw data; what comes behind them is not needed. Returns 0 if its fields do
 * not fit into it. */
static inline int pd_read_sample(const uint8_t *record, const uint8_t *end, const pd_attr *attr,
                                 int is_swapped, pd_sample *found)
{
    const uint8_t *at = record + PD_HEADER;
    uint64_t type = attr->sample_type, format = attr->read_format;
#define PD_TAKE(field) \
    do { \
        if (end - at < 8) \
            return 0; \
        field; \
        at += 8; \
    } while (0)
    if (type & PD_IDENTIFIER)
        PD_TAKE(found->id = raw_u64(at, is_swapped));
    if (type & PD_IP)
        PD_TAKE(found->ip = raw_u64(at, is_swapped));
    if (type & PD_TID)
        PD_TAKE(found->pid = (int32_t)raw_u32(at, is_swapped); found->has_tid = 1;
                found->tid = (int32_t)raw_u32(at + 4, is_swapped));
    if (type & PD_TIME)
        PD_TAKE(found->time = raw_u64(at, is_swapped); found->has_time = 1);
    if (type & PD_ADDR)
        PD_TAKE((void)0);
    if (type & PD_ID)
        PD_TAKE(found->id = raw_u64(at, is_swapped));
    if (type & PD_STREAM_ID)
        PD_TAKE((void)0);
    if (type & PD_CPU)
        PD_TAKE(found->cpu = (int32_t)raw_u32(at, is_swapped));
    if (type & PD_PERIOD)
        PD_TAKE(found->period = raw_u64(at, is_swapped));
    if (type & PD_READS) {
        uint64_t count = 1, words = 1;
        words += !!(format & PD_READ_ID) + !!(format & PD_READ_LOST);
        if (format & PD_READ_GROUP)
            PD_TAKE(count = raw_u64(at, is_swapped));
        uint64_t rest = (uint64_t)(end - at) / 8;
        uint64_t before = !!(format & PD_READ_ENABLED) + !!(format & PD_READ_RUNNING);
        if (before > rest || count > (rest - before) / words)
            return 0;
        at += 8 * (before + count * words);
    }
    if (type & PD_CALLCHAIN) {
        PD_TAKE(found->chain_count = raw_u64(at, is_swapped));
        if (found->chain_count > (uint64_t)(end - at) / 8)
            return 0;
        found->chain = at;
        at += 8 * found->chain_count;
    }
    if (type & PD_RAW) {
        if (end - at < 4)
            return 0;
        found->raw_bytes = raw_u32(at, is_swapped);
        at += 4;
        if (found->raw_bytes > (uint64_t)(end - at))
            return 0;
        found->raw = at;
    }
    found->is_unwound_later = (type & PD_STACK_USER) && (type & PD_REGS_USER);
    return 1;
#undef PD_TAKE
}

/* Returns the index of the first map that ends behind an address. */
static inline int32_t pd_first_behind(const pd_maps *maps, uint64_t address)
{
    int32_t low = 0, high = maps->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (maps->maps[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline const pd_map *pd_find_map(pd_maps *maps, uint64_t address)
{
    if (!maps || !maps->count)
        return NULL;
    if (maps->last >= maps->count || address < maps->maps[maps->last].start
        || address >= maps->maps[maps->last].end)
        maps->last = pd_first_behind(maps, address);
    if (maps->last == maps->count || address < maps->maps[maps->last].start)
        return NULL;
    return &maps->maps[maps->last];
}

/* Adds a map in place of what it overlaps. Returns 1, 0 if there are too many, -1 without memory. */
static inline int pd_add_map(pd_maps *maps, const pd_map *added, int64_t *in_all)
{
    pd_map before = {0, 0, 0, 0, 0}, after = {0, 0, 0, 0, 0};
    int32_t first = pd_first_behind(maps, added->start), behind = first, place = 0;
    if (first < maps->count && maps->maps[first].start < added->start) {
        before = maps->maps[first];
        before.end = added->start;
    }
    while (behind < maps->count && maps->maps[behind].start < added->end)
        behind++;
    if (behind > first && maps->maps[behind - 1].end > added->end) {
        after = maps->maps[behind - 1];
        after.start = added->end;
    }
    int32_t count = 1 + (before.end > before.start) + (after.end > after.start);
    int64_t total = (int64_t)maps->count - (behind - first) + count;
    if (total > PD_MOST_MAPS)
        return 0;
    if (total > maps->room) {
        int32_t room = 2 * (int32_t)total + 16;
        if (*in_all + (room - maps->room) > PD_MOST_MAPS_IN_ALL)
            return 0;
        pd_map *grown = realloc(maps->maps, (size_t)room * sizeof *grown);
        if (!grown)
            return -1;
        *in_all += room - maps->room;
        maps->maps = grown;
        maps->room = room;
    }
    if (behind < maps->count)
        memmove(maps->maps + first + count, maps->maps + behind,
                (size_t)(maps->count - behind) * sizeof *maps->maps);
    if (before.end > before.start)
        maps->maps[first + place++] = before;
    maps->maps[first + place++] = *added;
    if (after.end > after.start)
        maps->maps[first + place++] = after;
    maps->count = (int32_t)total;
    maps->last = first;
    return 1;
}

static inline void pd_leave_maps(pd_maps *maps, int64_t *in_all)
{
    if (!maps || --maps->users)
        return;
    *in_all -= maps->room;
    free(maps->maps);
    free(maps);
}

/* Returns maps that only this process has: its own, a copy, or new ones; NULL if there is no room. */
static inline pd_maps *pd_own_maps(pd_maps *maps, int64_t *in_all)
{
    if (maps && maps->users == 1)
        return maps;
    if (maps && *in_all + maps->count > PD_MOST_MAPS_IN_ALL)
        return NULL;
    pd_maps *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->users = 1;
    if (maps && maps->count) {
        own->maps = malloc((size_t)maps->count * sizeof *own->maps);
        if (!own->maps) {
            free(own);
            return NULL;
        }
        memcpy(own->maps, maps->maps, (size_t)maps->count * sizeof *own->maps);
        own->count = own->room = maps->count;
        *in_all += own->room;
    }
    if (maps)
        maps->users--;
    return own;
}

/* Writes the ids behind the name of a thread. */
static inline void pd_write_ids(pd_thread *thread)
{
    char digits[24];
    int32_t ids[2] = {thread->pid, thread->tid};
    uint32_t used = thread->comm_bytes;
    thread->text[used++] = ' ';
    for (int i = 0; i < 2; i++) {
        uint32_t value = ids[i] < 0 ? 0 - (uint32_t)ids[i] : (uint32_t)ids[i];
        int at = sizeof digits;
        if (i)
            thread->text[used++] = '/';
        do {
            digits[--at] = (char)('0' + value % 10);
            value /= 10;
        } while (value);
        if (ids[i] < 0)
            digits[--at] = '-';
        memcpy(thread->text + used, digits + at, sizeof digits - (size_t)at);
        used += (uint32_t)(sizeof digits - (size_t)at);
    }
    thread->bytes = used;
}

#endif
