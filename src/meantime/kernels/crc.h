/* CRC-32 as in zlib, of many bytes: folded with carry-less multiplication, which processors for
 * x86-64 have had since 2010. The method is that of Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction" (Intel, 2009). */
#ifndef MEANTIME_CRC_H
#define MEANTIME_CRC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <wmmintrin.h>

static inline int crc_folds(void) { return __builtin_cpu_supports("pclmul") != 0; }

/* Returns `sum` moved on by the distance of the two factors, plus the next bytes. */
__attribute__((target("pclmul"))) static inline __m128i crc_moved(__m128i sum, __m128i factors,
                                                                  __m128i next) {
    __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00);
    __m128i high = _mm_clmulepi64_si128(sum, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Writes 16 bytes to `folded`. With a register of 0 before them, they leave the register that all
 * the bytes leave with `crc` before them. There are a multiple of 64 bytes, and at least 64. */
__attribute__((target("pclmul"))) static void crc_fold(const uint8_t *bytes, size_t count,
                                                       uint32_t crc, uint8_t *folded) {
    /* With the bits reversed, and shifted by one: x^(512 + 32) and x^(512 - 32) modulo the
     * polynomial, and the same with 128 instead of 512. */
    const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i *at = (const __m128i *)bytes, *end = (const __m128i *)(bytes + count);
    __m128i one = _mm_loadu_si128(at), two = _mm_loadu_si128(at + 1);
    __m128i three = _mm_loadu_si128(at + 2), four = _mm_loadu_si128(at + 3);
    one = _mm_xor_si128(one, _mm_cvtsi32_si128((int)~crc));
    for (at += 4; at < end; at += 4) {
        one = crc_moved(one, far, _mm_loadu_si128(at));
        two = crc_moved(two, far, _mm_loadu_si128(at + 1));
        three = crc_moved(three, far, _mm_loadu_si128(at + 2));
        four = crc_moved(four, far, _mm_loadu_si128(at + 3));
    }
    one = crc_moved(crc_moved(crc_moved(one, near, two), near, three), near, four);
    _mm_storeu_si128((__m128i *)folded, one);
}

#else

static inline int crc_folds(void) { return 0; }

static inline void crc_fold(const uint8_t *bytes, size_t count, uint32_t crc, uint8_t *folded) {
    (void)bytes, (void)count, (void)crc, (void)folded;
}

#endif
#endif
