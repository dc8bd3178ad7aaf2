/* Growing columns and interned strings, for the scanners of span traces. */
#ifndef MEANTIME_GROWING_H
#define MEANTIME_GROWING_H

#include "huge_pages.h"
#include "intern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Rows are numbered by 32 bits. */
#define MOST_ROWS ((int64_t)INT32_MAX)

static int column_grow(void **data, int64_t capacity, size_t width) {
  size_t size = (size_t)capacity * width;
  void *grown = realloc(*data, size);
  if (!grown) return 0;
  use_huge_pages(grown, size);
  *data = grown;
  return 1;
}

/* A larger capacity for a column of which nothing is known. What is not written takes no memory; and
 * from 64 MB on, realloc moves pages, whereas it copies what is smaller. */
static inline int64_t capacity_ahead(int64_t capacity, size_t width) {
  const int64_t mapped = (int64_t)((64 << 20) / width);
  if (capacity >= mapped) return 2 * capacity;
  capacity = capacity ? 4 * capacity : 64;
  return capacity > mapped / 64 && capacity < mapped ? mapped : capacity;
}

/* The capacity for all rows, extrapolated from `used` rows in `done` of `all` bytes, so that columns
 * grow once. */
static inline int64_t rows_expected(int64_t used, int64_t done, int64_t all) {
  int64_t more = used ? used * 3 / 2 : 4096;
  if (used < 4096 || done <= 0) return more;
  double expected = (double)used * ((double)all / (double)done) * 1.05 + 4096;
  return expected > (double)more && expected < 1e12 ? (int64_t)expected : more;
}

/* What has to do where there is no memory for more; never 0, for which realloc frees. */
static inline int64_t rows_needed(int64_t used) { return used + used / 2 + 64; }

/* Strings to codes, in the order of first appearance. */

static inline uint64_t mix(uint64_t a, uint64_t b) { return intern_fold(a, b); }

static inline uint64_t load8(const char *p) {
  uint64_t word;
  memcpy(&word, p, 8);
  return word;
}

static inline int strings_init(intern_table *table, uint64_t seed) {
  memset(table, 0, sizeof *table);
  table->seed = seed;
  return intern_grow(table);
}

/* A string with its fingerprint; memory may be read up to `end`. */
static inline intern_text intern_key(const char *text, uint32_t length, const char *end) {
  intern_text key = {text, length, 0, 0};
  uint32_t i;
  if (length <= 16) {
    if (LIKELY(end - text >= 16)) {
      key.first = load8(text);
      if (length <= 8) {
        key.first = length == 8 ? key.first : key.first & ((1ULL << (length * 8)) - 1);
      } else {
        key.second = load8(text + 8);
        if (length < 16) key.second &= (1ULL << ((length - 8) * 8)) - 1;
      }
    } else {
      char words[16] = {0};
      memcpy(words, text, length);
      key.first = load8(words);
      key.second = load8(words + 8);
    }
  } else {
    key.first = load8(text);
    key.second = load8(text + 8);
    for (i = 16; i + 8 <= length; i += 8)
      key.second = mix(key.second ^ load8(text + i), 0xE7037ED1A0B428DBULL);
    if (i < length) key.second = mix(key.second ^ load8(text + length - 8), 0xE7037ED1A0B428DBULL);
  }
  return key;
}

/* The code of a string, -2 if there is no memory. */
static inline int32_t intern_code(intern_table *table, const intern_text *key) {
  int32_t code = intern_find(table, key, 0);
  if (LIKELY(code >= 0)) return code;
  code = intern_add(table, key, 0);
  return code < 0 ? -2 : code;
}

static inline int32_t intern(intern_table *table, const char *text, uint32_t length,
                             const char *end) {
  intern_text key = intern_key(text, length, end);
  return intern_code(table, &key);
}

#endif
