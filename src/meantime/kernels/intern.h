/* Strings to small integers, in order of first appearance.
 *
 * Open addressing; a slot has the first 16 bytes, so most look-ups touch nothing else. The hash is
 * seeded, since the strings are untrusted. Equal strings with different contexts are different.
 */
#ifndef MEANTIME_INTERN_H
#define MEANTIME_INTERN_H

#include "huge_pages.h"
#include "json_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A string and its fingerprint: its first 8 bytes, and its next 8 mixed with all that follow. */
typedef struct {
    const char *at;
    uint32_t size;
    uint64_t first, second;
} intern_text;

typedef struct {
    uint64_t first, second;
    uint32_t size, context;
    int32_t code; /* negative: empty */
} intern_slot;

typedef struct {
    intern_slot *slots;
    uint64_t slot_mask, seed;
    int32_t count, room;
    uint64_t *offsets; /* count + 1 of them: the offset of each string in `bytes` */
    uint32_t *contexts;
    char *bytes;
    uint64_t bytes_room;
} intern_table;

static inline uint64_t intern_fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The first 8 bytes, the least significant first; a copy of as many bytes as there are is a call. */
static inline uint64_t intern_load(const char *at, size_t size)
{
    uint64_t word = 0;
    if (size >= 8) {
        memcpy(&word, at, 8);
    } else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + size - 4, 4);
        word = low | (uint64_t)high << 8 * (size - 4);
    } else if (size) {
        const unsigned char *bytes = (const unsigned char *)at;
        word = bytes[0] | (uint64_t)bytes[size / 2] << 8 * (size / 2)
            | (uint64_t)bytes[size - 1] << 8 * (size - 1);
    }
    return word;
}

static inline uint64_t intern_mix(uint64_t second, const char *at, size_t size)
{
    for (; size > 8; at += 8, size -= 8)
        second = intern_fold(second ^ intern_load(at, 8), 0xE7037ED1A0B428DBULL);
    return intern_fold(second ^ intern_load(at, size), 0x8EBC6AF09C88C6E3ULL);
}

static inline intern_text intern_text_of(const char *at, size_t size)
{
    intern_text text = {at, (uint32_t)size, intern_load(at, size), 0};
    if (size > 8)
        text.second = intern_load(at + 8, size - 8);
    if (size > 16)
        text.second = intern_mix(text.second, at + 16, size - 16);
    return text;
}

/* Reads the first 16 bytes of a string: sets what the fingerprint has of them, and returns how many
 * come before a quote or a backslash, 16 if neither is there. */
static inline int intern_begin_ahead(const char *at, uint64_t *first, uint64_t *second)
{
#ifdef __SSE2__
    static const char all_and_none[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    __m128i text = _mm_loadu_si128((const __m128i *)at);
    __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('"')),
                                _mm_cmpeq_epi8(text, _mm_set1_epi8('\\')));
    int size = __builtin_ctz((unsigned)_mm_movemask_epi8(ends) | 1U << 16);
    text = _mm_and_si128(text, _mm_loadu_si128((const __m128i *)(all_and_none + 16 - size)));
    *first = (uint64_t)_mm_cvtsi128_si64(text);
    *second = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(text, text));
    return size;
#else
    int size = 0;
    uint64_t *words[2] = {first, second};
    *second = 0;
    for (int i = 0; i < 2; i++, size += 8) {
        uint64_t word = json_load8(at + size);
        uint64_t ends = json_bytes_equal(word, '"') | json_bytes_equal(word, '\\');
        *words[i] = word;
        if (ends) {
            int more = json_lowest_byte(ends);
            *words[i] = word & ((1ULL << 8 * more) - 1);
            return size + more;
        }
    }
    return size;
#endif
}

/* Finds the end of a string of 16 bytes or more; NULL as below. */
static __attribute__((noinline)) const char *intern_long_ahead(const char *at, const char *end)
{
    for (at += 16; end - at >= 8; at += 8) {
        uint64_t word = json_load8(at);
        uint64_t ends = json_bytes_equal(word, '"') | json_bytes_equal(word, '\\');
        if (ends) {
            at += json_lowest_byte(ends);
            return *at == '"' ? at : NULL;
        }
    }
    return NULL;
}

/* Reads a string without escapes, from after its opening quote to its closing one; reads ahead. NULL
 * if it has escapes or does not end before `end`. Its characters are not checked. */
static inline __attribute__((always_inline)) const char *intern_text_ahead(
    const char *at, const char *end, intern_text *text)
{
    const char *after = at + intern_begin_ahead(at, &text->first, &text->second);
    text->at = at;
    if (UNLIKELY(*after != '"')) {
        after = after - at < 16 ? NULL : intern_long_ahead(at, end);
        if (!after)
            return NULL;
        if (after - at > 16)
            text->second = intern_mix(text->second, at + 16, (size_t)(after - at - 16));
    }
    text->size = (uint32_t)(after - at);
    return after;
}

static inline uint64_t intern_slot_of(const intern_table *table, const intern_text *text, uint32_t context)
{
    uint64_t more = text->size | (uint64_t)context << 32;
    return intern_fold(text->first ^ table->seed,
                       text->second ^ more * 0xD6E8FEB86659FD93ULL ^ 0xA0761D6478BD642FULL)
           & table->slot_mask;
}

/* Returns the code of a string, or -1. */
static inline int32_t intern_find(const intern_table *table, const intern_text *text, uint32_t context)
{
    for (uint64_t i = intern_slot_of(table, text, context);; i = (i + 1) & table->slot_mask) {
        const intern_slot *slot = &table->slots[i];
        if (slot->code < 0)
            return -1;
        if (slot->first == text->first && slot->second == text->second && slot->size == text->size
            && slot->context == context
            && (text->size <= 16 /* then first and second are the whole string */
                || memcmp(table->bytes + table->offsets[slot->code], text->at, text->size) == 0))
            return slot->code;
    }
}

static inline void intern_free(intern_table *table)
{
    free(table->slots);
    free(table->offsets);
    free(table->contexts);
    free(table->bytes);
    memset(table, 0, sizeof *table);
}

static inline void intern_place(intern_table *table, const intern_slot *slot)
{
    intern_text text = {NULL, slot->size, slot->first, slot->second};
    uint64_t i = intern_slot_of(table, &text, slot->context);
    while (table->slots[i].code >= 0)
        i = (i + 1) & table->slot_mask;
    table->slots[i] = *slot;
}

/* Doubles the capacity; 0 if there is no memory. */
static inline int intern_grow(intern_table *table)
{
    /* Half of the slots stay empty, so probing ends; where they are in a cache anyway, three quarters,
     * so that it ends at the first one mostly, as the processor expects. */
    int64_t room = table->room ? 2 * (int64_t)table->room : 256;
    uint64_t slots = (room > 4096 ? 2 : 4) * (uint64_t)room;
    intern_table larger = *table;
    if (room > INT32_MAX)
        return 0;
    larger.slots = malloc(slots * sizeof *larger.slots);
    larger.offsets = realloc(table->offsets, ((size_t)room + 1) * sizeof *larger.offsets);
    if (larger.offsets)
        table->offsets = larger.offsets;
    larger.contexts = realloc(table->contexts, (size_t)room * sizeof *larger.contexts);
    if (larger.contexts)
        table->contexts = larger.contexts;
    if (!larger.slots || !larger.offsets || !larger.contexts) {
        free(larger.slots);
        return 0;
    }
    use_huge_pages(larger.slots, slots * sizeof *larger.slots);
    larger.slot_mask = slots - 1;
    larger.room = (int32_t)room;
    for (uint64_t i = 0; i < slots; i++)
        larger.slots[i].code = -1;
    if (table->room)
        for (uint64_t i = 0; i <= table->slot_mask; i++)
            if (table->slots[i].code >= 0)
                intern_place(&larger, &table->slots[i]);
    if (!table->room)
        larger.offsets[0] = 0;
    free(table->slots);
    *table = larger;
    return 1;
}

/* Adds a new string; returns its code, or -1 if there is no memory. */
static inline int32_t intern_add(intern_table *table, const intern_text *text, uint32_t context)
{
    if (table->count == table->room && !intern_grow(table))
        return -1;
    int32_t code = table->count;
    uint64_t start = table->offsets[code];
    if (start + text->size > table->bytes_room) {
        uint64_t room = 2 * (start + text->size) + 4096;
        char *bytes = realloc(table->bytes, room);
        if (!bytes)
            return -1;
        table->bytes = bytes;
        table->bytes_room = room;
    }
    if (text->size)
        memcpy(table->bytes + start, text->at, text->size);
    table->offsets[code + 1] = start + text->size;
    table->contexts[code] = context;
    table->count++;
    intern_slot slot = {text->first, text->second, text->size, context, code};
    intern_place(table, &slot);
    return code;
}

#endif
