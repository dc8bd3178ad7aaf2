/* What the scanners of span traces share: columns that grow, and strings as codes. */
#ifndef MEANTIME_GROWING_H
#define MEANTIME_GROWING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static int column_grow(void **data, int64_t capacity, size_t width) {
  size_t size = (size_t)capacity * width;
  void *grown = realloc(*data, size);
  if (!grown) return 0;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  /* Columns are filled once from end to end: with 4 KB pages a tenth of the time went to faults. */
  if (size >= ((size_t)4 << 20)) {
    uintptr_t begin = ((uintptr_t)grown + 4095) & ~(uintptr_t)4095;
    madvise((void *)begin, ((uintptr_t)grown + size - begin) & ~(size_t)4095, MADV_HUGEPAGE);
  }
#endif
  *data = grown;
  return 1;
}

/* Strings to codes; the bytes stay where they are, so they must outlive the table. */

typedef struct {
  uint64_t first, second;
  const char *text;
  uint32_t length;
  int32_t code;
} InternEntry;

typedef struct {
  InternEntry *entries;
  const char **texts;
  uint32_t *lengths;
  uint64_t capacity, count;
} Intern;

static int intern_init(Intern *table) {
  table->capacity = 1024;
  table->count = 0;
  table->entries = malloc(table->capacity * sizeof(InternEntry));
  table->texts = malloc(table->capacity / 2 * sizeof(char *));
  table->lengths = malloc(table->capacity / 2 * sizeof(uint32_t));
  if (!table->entries || !table->texts || !table->lengths) return 0;
  memset(table->entries, 0xff, table->capacity * sizeof(InternEntry));
  return 1;
}

static void intern_free(Intern *table) {
  free(table->entries);
  free(table->texts);
  free(table->lengths);
}

static inline uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product = (__uint128_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load8(const char *p) {
  uint64_t word;
  memcpy(&word, p, 8);
  return word;
}

static inline uint64_t intern_slot(uint64_t first, uint64_t second, uint64_t length) {
  return mix(first ^ 0x9E3779B97F4A7C15ULL,
             second ^ (length * 0xD6E8FEB86659FD93ULL) ^ 0xA0761D6478BD642FULL);
}

static int intern_grow(Intern *table) {
  uint64_t capacity = table->capacity * 2, i, j;
  InternEntry *entries = malloc(capacity * sizeof(InternEntry));
  if (!entries) return 0;
  if (!column_grow((void **)&table->texts, (int64_t)capacity / 2, sizeof(char *)) ||
      !column_grow((void **)&table->lengths, (int64_t)capacity / 2, sizeof(uint32_t))) {
    free(entries);
    return 0;
  }
  memset(entries, 0xff, capacity * sizeof(InternEntry));
  for (i = 0; i < table->capacity; i++) {
    InternEntry *entry = &table->entries[i];
    if (entry->code < 0) continue;
    j = intern_slot(entry->first, entry->second, entry->length) & (capacity - 1);
    while (entries[j].code >= 0) j = (j + 1) & (capacity - 1);
    entries[j] = *entry;
  }
  free(table->entries);
  table->entries = entries;
  table->capacity = capacity;
  return 1;
}

/* The first 16 bytes stand in `first` and `second`; longer text folds its rest into `second`. */
static inline int32_t intern_words(Intern *table, const char *text, uint32_t length,
                                   uint64_t first, uint64_t second) {
  uint64_t slot = intern_slot(first, second, length) & (table->capacity - 1);
  for (;;) {
    InternEntry *entry = &table->entries[slot];
    if (entry->code < 0) {
      if (table->count * 2 >= table->capacity) {
        if (!intern_grow(table)) return -2;
        return intern_words(table, text, length, first, second);
      }
      entry->first = first;
      entry->second = second;
      entry->text = text;
      entry->length = length;
      entry->code = (int32_t)table->count;
      table->texts[table->count] = text;
      table->lengths[table->count] = length;
      return (int32_t)table->count++;
    }
    if (entry->first == first && entry->second == second && entry->length == length &&
        (length <= 16 || memcmp(entry->text, text, length) == 0))
      return entry->code;
    slot = (slot + 1) & (table->capacity - 1);
  }
}

static int32_t intern(Intern *table, const char *text, uint32_t length, const char *end) {
  uint64_t first = 0, second = 0;
  uint32_t i;
  if (length <= 16) {
    if (LIKELY(end - text >= 16)) {
      first = load8(text);
      second = load8(text + 8);
      if (length <= 8) {
        second = 0;
        first = length == 8 ? first : first & ((1ULL << (length * 8)) - 1);
      } else if (length < 16) {
        second &= (1ULL << ((length - 8) * 8)) - 1;
      }
    } else {
      char words[16] = {0};
      memcpy(words, text, length);
      first = load8(words);
      second = load8(words + 8);
    }
    return intern_words(table, text, length, first, second);
  }
  first = load8(text);
  second = load8(text + 8);
  for (i = 16; i + 8 <= length; i += 8) second = mix(second ^ load8(text + i), 0xE7037ED1A0B428DBULL);
  if (i < length) second = mix(second ^ load8(text + length - 8), 0xE7037ED1A0B428DBULL);
  return intern_words(table, text, length, first, second);
}

#endif
