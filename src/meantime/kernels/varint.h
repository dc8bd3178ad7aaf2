/* LEB128 numbers: 7 bits to a byte, the low ones first; every byte but the last has its high bit
 * set. A number of 64 bits takes at most 10 bytes. */
#ifndef MEANTIME_VARINT_H
#define MEANTIME_VARINT_H

#include <stdint.h>

static inline char *put_varint(char *out, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *out++ = (char)(value | 128);
    *out++ = (char)value;
    return out;
}

static inline int varint_bytes(uint64_t value)
{
    int size = 1;
    for (; value > 127; value >>= 7)
        size++;
    return size;
}

/* Reads a number; returns what follows it, or NULL if it is cut or has more than 64 bits. */
static inline const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t number = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        uint64_t byte = *at++;
        if (shift == 63 && byte > 1)
            return 0;
        number |= (byte & 127) << shift;
        if (byte < 128) {
            *value = number;
            return at;
        }
    }
    return 0;
}

#endif
