/* One packed row of a segment: `width` bytes, little-endian, the relative time above the payload. */
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Always 8 bytes, of which the mask keeps `width`: one unaligned load is faster than a switch. So 8
 * bytes must follow the last row: `_READ_BEYOND` in history/segment.py. */
static inline uint64_t load_row(const uint8_t *rows, int64_t row, int width, uint64_t mask) {
    uint64_t word;
    memcpy(&word, rows + row * width, 8);
    return word & mask;
}

/* Exactly `width` bytes: rows are written in order of arrival, so the next may be there already. */
static inline void store_row(uint8_t *rows, int64_t row, int width, uint64_t word) {
    uint8_t *to = rows + row * width;
    switch (width) {
    case 8: memcpy(to, &word, 8); return;
    case 7: memcpy(to, &word, 4); word >>= 32; memcpy(to + 4, &word, 2); to[6] = (uint8_t)(word >> 16); return;
    case 6: memcpy(to, &word, 4); word >>= 32; memcpy(to + 4, &word, 2); return;
    case 5: memcpy(to, &word, 4); to[4] = (uint8_t)(word >> 32); return;
    case 4: memcpy(to, &word, 4); return;
    case 3: memcpy(to, &word, 2); to[2] = (uint8_t)(word >> 16); return;
    case 2: memcpy(to, &word, 2); return;
    default: to[0] = (uint8_t)word; return;
    }
}

/* Memory that will be used some dozen rows later: arrays by quark are read in random order. */
static inline void prefetch(const void *at) {
    __builtin_prefetch(at);
}

/* A count that one thread publishes after what it counts, while others read without the GIL. */
static inline void publish_count(Py_ssize_t *count, Py_ssize_t value) {
    __atomic_store_n(count, value, __ATOMIC_RELEASE);
}

static inline Py_ssize_t published_count(const Py_ssize_t *count) {
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static inline int64_t double_bits(double value) {
    int64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static inline double bits_double(int64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
