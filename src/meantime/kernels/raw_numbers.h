/* Numbers in the order of bytes of the machine that wrote them. */
#ifndef MEANTIME_RAW_NUMBERS_H
#define MEANTIME_RAW_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline uint16_t raw_u16(const uint8_t *at, int is_swapped)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return is_swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t raw_u32(const uint8_t *at, int is_swapped)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return is_swapped ? __builtin_bswap32(value) : value;
}

static inline uint64_t raw_u64(const uint8_t *at, int is_swapped)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return is_swapped ? __builtin_bswap64(value) : value;
}

#endif
