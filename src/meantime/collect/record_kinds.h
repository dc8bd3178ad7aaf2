/* The numbers of the recording format that its writer and its readers share.

   docs/reference/recording-format.md describes them. The recorder and the kernels include this
   file, and Python modules import the numbers from these: a kind is defined nowhere else. */

#ifndef MEANTIME_RECORD_KINDS_H
#define MEANTIME_RECORD_KINDS_H

/* X(name, number); a record of a kind from RECORD_FIRST_PAYLOAD on has `aux` bytes of payload,
   padded to whole slots. Numbers are part of the file format: never reuse or change one. */
#define RECORD_KINDS(X)  \
    X(SPAWN, 1)          \
    X(KNOWN, 2)          \
    X(START, 3)          \
    X(THROW, 4)          \
    X(WAIT, 5)           \
    X(CANCELLING, 6)     \
    X(COMPLETED, 7)      \
    X(FAILED, 8)         \
    X(CANCELLED, 9)      \
    X(DROPPED, 10)       \
    X(WAKE, 11)          \
    X(DUE, 12)           \
    X(TIMER, 13)         \
    X(LOOP_BEGIN, 16)    \
    X(LOOP_END, 17)      \
    X(PARK, 18)          \
    X(UNPARK, 19)        \
    X(LOOP_KNOWN, 20)    \
    X(TURN, 21)          \
    X(CALLBACK, 22)      \
    X(SUBMIT, 24)        \
    X(ITEM_BEGIN, 25)    \
    X(ITEM_END, 26)      \
    X(GIL_WAIT, 32)      \
    X(GIL_HANDOFF, 33)   \
    X(LOCK_WAIT, 34)     \
    X(POLL, 35)          \
    X(RESUMED, 36)       \
    X(CPU_WAIT, 37)      \
    X(ASLEEP, 38)        \
    X(OFF_CPU, 39)       \
    X(SAMPLE, 40)        \
    X(ON_CPU, 41)        \
    X(TICK, 42)          \
    X(NOT_ON_CPU, 43)    \
    X(BLOCKED, 44)       \
    X(ASLEEP_OR_LATE, 45) \
    X(THREAD_END, 49)    \
    X(FLUSH, 50)         \
    X(CLOCK, 51)         \
    X(DUMP, 52)          \
    X(THREAD_BEGIN, 64)  \
    X(SLEEP, 66)         \
    X(IO_WAIT, 67)       \
    X(CHILD_WAIT, 68)    \
    X(ITEM_AWAITED, 69)  \
    X(ITEM_POOL, 70)     \
    X(ITEM_DROPPED, 71)  \
    X(REQUEST_END, 120)  \
    X(NAME, 128)         \
    X(LABEL, 129)        \
    X(THREAD, 130)       \
    X(LOCATION, 131)     \
    X(FRAME, 132)        \
    X(STACK, 133)        \
    X(LOST, 134)         \
    X(ROTATED, 135)      \
    X(CLOSED, 136)       \
    X(SAMPLER, 137)      \
    X(CALLED, 138)       \
    X(BLOCKED_STACK, 139) \
    X(POOL, 200)         \
    X(REQUEST, 250)      \
    X(RESPONSE, 251)     \
    X(PHASE, 252)        \
    X(UNRECOGNISED, 253) \
    X(UNWATCHED, 254)

#define RECORD_KIND_ENUM(name, number) KIND_##name = number,
enum kind { RECORD_KINDS(RECORD_KIND_ENUM) };

/* The kind of object that a location's innermost coroutine awaits; those from LEAF_SPAWN on are not
   waits. */
#define LOCATION_LEAVES(X) \
    X(NONE, 0)          \
    X(FUTURE, 1)        \
    X(TASK, 2)          \
    X(OTHER, 3)         \
    X(SPAWN, 4)         \
    X(NAME, 5)          \
    X(LOOP, 6)          \
    X(BLOCKED, 7)       \
    X(ITEM, 9)          \
    X(READ, 10)         \
    X(WRITE, 11)

#define LOCATION_LEAF_ENUM(name, number) LEAF_##name = number,
enum leaf { LOCATION_LEAVES(LOCATION_LEAF_ENUM) };

#define RECORD_POLICIES(X) \
    X(BLOCK, 0)            \
    X(DROP, 1)             \
    X(RING, 2)

#define RECORD_POLICY_ENUM(name, number) POLICY_##name = number,
enum policy { RECORD_POLICIES(RECORD_POLICY_ENUM) };

#define RECORD_SIZES(X)                  \
    X(FORMAT_VERSION, 1)                 \
    X(RECORD_FIRST_PAYLOAD, 128)         \
    X(SLOT_BYTES, 16)                    \
    X(HEADER_BYTES, 64)                  \
    X(TAIL_HEADER_BYTES, 4096)           \
    X(CHUNK_BYTES, (64 * 1024))          \
    X(MAX_CHUNKS, 240)

#define RECORD_SIZE_ENUM(name, number) name = number,
enum { RECORD_SIZES(RECORD_SIZE_ENUM) };

/* The same numbers as tables, from which the compiled modules build dictionaries for Python. */
typedef struct {
    const char *name;
    int number;
} record_number;

#define RECORD_NUMBER_ROW(name, number) {#name, number},
static const record_number record_kinds[] = {RECORD_KINDS(RECORD_NUMBER_ROW) {0, 0}};
static const record_number location_leaves[] = {LOCATION_LEAVES(RECORD_NUMBER_ROW) {0, 0}};
static const record_number record_policies[] = {RECORD_POLICIES(RECORD_NUMBER_ROW) {0, 0}};
static const record_number record_sizes[] = {RECORD_SIZES(RECORD_NUMBER_ROW) {0, 0}};

#endif
