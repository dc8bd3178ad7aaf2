/* Integers as decimal digits, two at a time. A number of 64 bits has at most 20. */
#ifndef MEANTIME_DECIMAL_H
#define MEANTIME_DECIMAL_H

#include <stdint.h>
#include <string.h>

static const char decimal_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* Writes a number before `end`; returns where it begins. */
static inline char *decimal_before(char *end, uint64_t number)
{
    for (; number >= 100; number /= 100)
        memcpy(end -= 2, decimal_pairs + 2 * (number % 100), 2);
    if (number >= 10)
        return memcpy(end - 2, decimal_pairs + 2 * number, 2);
    *--end = (char)('0' + number);
    return end;
}

static inline char *signed_decimal_before(char *end, int64_t number)
{
    end = decimal_before(end, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    if (number < 0)
        *--end = '-';
    return end;
}

static inline int decimal_size(uint64_t number)
{
    static const uint64_t least[] = {
        0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
        10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000,
        1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
        10000000000000000000u,
    };
    /* 1233 / 4096 is the logarithm of 2: the digits of a number of so many bits, or one fewer */
    int size = (64 - __builtin_clzll(number | 1)) * 1233 >> 12;
    return size + (number >= least[size]);
}

/* Writes a number; returns what follows it. */
static inline char *put_decimal(char *out, uint64_t number)
{
    char *end = out + decimal_size(number);
    decimal_before(end, number);
    return end;
}

#endif
