/* Chrome Trace Event JSON into columns: one pass, no recursion, no copy of the text.
 *
 * The text comes in blocks: what a block cuts is scanned again from its beginning in the next one,
 * which begins there.
 *
 * Tolerant where writers are sloppy (commas, a missing end, keys in any order, numbers as strings),
 * exact where it matters (times are decimals, never floats). Offsets are bytes of the input. */
#ifndef MEANTIME_CHROME_SCAN_H
#define MEANTIME_CHROME_SCAN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "decimal.h"
#include "growing.h"
#include "private_names.h"
#include "span_flags.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* JSON text */

static inline int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The closing quote of a string whose text begins at p, or NULL. */
static inline const char *string_end(const char *p, const char *end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
  while (end - p >= 16) {
    __m128i block = _mm_loadu_si128((const __m128i *)p);
    unsigned hits = (unsigned)_mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, slash)));
    if (!hits) {
      p += 16;
      continue;
    }
    p += __builtin_ctz(hits);
    if (*p == '"') return p;
    if (end - p < 2) return NULL;
    p += 2;
  }
#endif
  while (p < end) {
    if (*p == '"') return p;
    if (*p == '\\' && ++p == end) return NULL;
    p++;
  }
  return NULL;
}

/* The end of the bracketed value at p, or NULL. The two kinds of brackets are not distinguished. */
static const char *nested_end(const char *p, const char *end) {
  int64_t depth = 0;
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), open = _mm_set1_epi8('{'),
                close = _mm_set1_epi8('}'), fold = _mm_set1_epi8(0x20);
  unsigned inside = 0; /* whether the block begins within a string */
  while (end - p >= 16) {
    __m128i block = _mm_loadu_si128((const __m128i *)p), folded = _mm_or_si128(block, fold);
    unsigned quotes = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, quote));
    unsigned slashes = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, slash));
    unsigned opens = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, open));
    unsigned closes = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, close));
    unsigned strings;
    /* An escape can hide a quote, and can reach into the next block: byte by byte. */
    if (UNLIKELY(slashes)) {
      int i = 0;
      while (i < 16) {
        char c = p[i];
        if (inside) {
          if (c == '\\') i++;
          else if (c == '"') inside = 0;
        } else if (c == '"') inside = 1;
        else if (c == '{' || c == '[') depth++;
        else if ((c == '}' || c == ']') && --depth == 0) return p + i + 1;
        i++;
      }
      if (i > end - p) return NULL; /* a backslash is the last byte */
      p += i;
      continue;
    }
    /* Prefix xor: each bit becomes the parity of the quotes up to it, set inside strings. */
    strings = quotes ^ (quotes << 1);
    strings ^= strings << 2;
    strings ^= strings << 4;
    strings ^= strings << 8;
    if (inside) strings = ~strings;
    strings &= 0xffff;
    opens &= ~strings;
    closes &= ~strings;
    inside = strings >> 15;
    /* Fewer closing brackets than are open cannot end the value, so their order does not matter. */
    if (__builtin_popcount(closes) < depth) {
      depth += __builtin_popcount(opens) - __builtin_popcount(closes);
    } else {
      unsigned both = opens | closes;
      while (both) {
        unsigned lowest = both & -both;
        if (opens & lowest) depth++;
        else if (--depth == 0) return p + __builtin_ctz(lowest) + 1;
        both &= both - 1;
      }
    }
    p += 16;
  }
  if (inside) {
    p = string_end(p, end);
    if (!p) return NULL;
    p++;
  }
#endif
  while (p < end) {
    char c = *p;
    if (c == '"') {
      p = string_end(p + 1, end);
      if (!p) return NULL;
    } else if (c == '{' || c == '[') depth++;
    else if ((c == '}' || c == ']') && --depth == 0) return p + 1;
    p++;
  }
  return NULL;
}

/* The end of a number or a word such as null. */
static inline const char *token_end(const char *p, const char *end) {
  while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != '"' && *p != '{' && *p != '[' &&
         *p != ':' && !is_space(*p))
    p++;
  return p;
}

/* The end of any value, or NULL if the input ends inside it; p itself if no value begins there. */
static const char *value_end(const char *p, const char *end) {
  if (p >= end) return NULL;
  if (*p == '"') {
    p = string_end(p + 1, end);
    return p ? p + 1 : NULL;
  }
  if (*p == '{' || *p == '[') return nested_end(p, end);
  return token_end(p, end);
}

/* Numbers */

static const uint64_t POWERS[10] = {1,      10,      100,      1000,      10000,
                                    100000, 1000000, 10000000, 100000000, 1000000000};

/* How many of 8 bytes, from the first on, are digits: those whose high half is 3 and whose low half
 * is below 10, so that adding 6 does not carry. */
static inline int leading_digits(uint64_t word) {
  uint64_t t = word ^ 0x3030303030303030ULL;
  uint64_t other = ((t + 0x0606060606060606ULL) | t) & 0xF0F0F0F0F0F0F0F0ULL;
  return other ? __builtin_ctzll(other) >> 3 : 8;
}

/* The number of 8 digits in three multiplications: pairs, then fours, then all eight. Callers shift
 * in bytes of 0, which count as leading zeros. */
static inline uint64_t eight_digits(uint64_t word) {
  word = (word & 0x0F0F0F0F0F0F0F0FULL) * 2561 >> 8;
  word = (word & 0x00FF00FF00FF00FFULL) * 6553601 >> 16;
  return (word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32;
}

/* A time in nanoseconds and billionths of one, the fraction never negative. */
typedef struct {
  int64_t ns;
  int64_t billionths;
} Decimal;

enum { NUMBER_OK = 0, NUMBER_BAD = 1, NUMBER_RANGE = 2 };

/* Converts microseconds as any decimal text: sign, exponent, any number of digits. */
static int decimal_slow(const char *p, const char *end, Decimal *out) {
  int negative = 0, exponent_sign = 1, seen = 0;
  int64_t exponent = 3, point = 0, given = 0, i;
  char digits[64]; /* significant ones; further ones cannot change a billionth */
  int count = 0;
  __int128 whole = 0;
  int64_t part = 0;
  if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    seen = 1;
    if (count == 0 && *p == '0') continue;
    if (count < 64) digits[count++] = *p;
    else point++;
  }
  if (p < end && *p == '.') {
    p++;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
      seen = 1;
      if (count == 0 && *p == '0') {
        point--;
        continue;
      }
      if (count < 64) {
        digits[count++] = *p;
        point--;
      }
    }
  }
  if (!seen) return NUMBER_BAD;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < end && (*p == '-' || *p == '+')) exponent_sign = *p++ == '-' ? -1 : 1;
    if (p >= end || *p < '0' || *p > '9') return NUMBER_BAD;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
      if (given < 100000) given = given * 10 + (*p - '0');
  }
  if (p != end) return NUMBER_BAD;
  out->ns = 0;
  out->billionths = 0;
  if (count == 0) return NUMBER_OK;
  /* value = digits x 10^(point + exponent); `point` counts the digits after the last one kept */
  exponent += point + exponent_sign * given;
  point = count + exponent; /* digits before the decimal point, in nanoseconds */
  if (point > 20) return NUMBER_RANGE;
  for (i = 0; i < point; i++) whole = whole * 10 + (i < count ? digits[i] - '0' : 0);
  for (i = point; i < point + 9; i++)
    part = part * 10 + (i >= 0 && i < count ? digits[i] - '0' : 0);
  if (negative) {
    whole = -whole;
    if (part) {
      whole -= 1;
      part = 1000000000 - part;
    }
  }
  /* One below the limits, so that rounding stays inside. */
  if (whole < -INT64_MAX || whole >= INT64_MAX - 1) return NUMBER_RANGE;
  out->ns = (int64_t)whole;
  out->billionths = part;
  return NUMBER_OK;
}

/* The number ends at `end`; memory may be read up to `limit`. */
static inline int decimal(const char *p, const char *end, const char *limit, Decimal *out) {
  const char *begin = p;
  uint64_t word, value;
  int count;
  /* The fast path reads two words of digits, a dot, and a word of the fraction, without a check. */
  if (UNLIKELY(limit - p < 32)) return decimal_slow(p, end, out);
  word = load8(p);
  count = leading_digits(word);
  if (UNLIKELY(count == 0)) return decimal_slow(begin, end, out);
  if (count < 8) {
    value = eight_digits(word << ((8 - count) * 8));
    p += count;
  } else {
    value = eight_digits(word);
    word = load8(p + 8);
    count = leading_digits(word);
    /* Up to 15 digits of microseconds cannot overflow below. */
    if (UNLIKELY(count == 8)) return decimal_slow(begin, end, out);
    if (count) value = value * POWERS[count] + eight_digits(word << ((8 - count) * 8));
    p += 8 + count;
  }
  value *= 1000;
  out->billionths = 0;
  if (p < end && *p == '.') {
    p++;
    word = load8(p);
    count = leading_digits(word);
    if (UNLIKELY(count == 8 || count == 0)) return decimal_slow(begin, end, out);
    word = eight_digits(word << ((8 - count) * 8));
    p += count;
    if (count <= 3) {
      value += word * POWERS[3 - count];
    } else {
      uint64_t unit = POWERS[count - 3];
      value += word / unit;
      out->billionths = (int64_t)(word % unit * POWERS[9 - (count - 3)]);
    }
  }
  if (UNLIKELY(p != end)) return decimal_slow(begin, end, out);
  out->ns = (int64_t)value;
  return NUMBER_OK;
}

/* Nearest nanosecond, halves up: monotone, so what was nested stays nested. */
static inline int64_t nearest(Decimal time) { return time.ns + (time.billionths >= 500000000); }

/* The scanner */

enum { RECORD_FLOW_IN = 1, RECORD_FLOW_OUT = 2 };

/* Columns have room for at most this many rows before they grow step by step: the caller takes rows
 * before there are more, unless a block has as many. */
#define CHROME_EXPECTED_ROWS ((int64_t)5 << 16)

/* How an event is handled; the caller maps phases to kinds. */
enum {
  KIND_UNKNOWN, /* counted, not kept */
  KIND_COMPLETE,
  KIND_BEGIN,
  KIND_END,
  KIND_RECORD,
  KIND_THREAD_RECORD, /* a record whose time counts as one of its thread */
  KIND_TIMELESS /* a record that may have no time */
};

enum {
  ODD_WITHOUT_TIME,
  ODD_OUT_OF_RANGE,
  ODD_WITHOUT_PHASE,
  ODD_UNKNOWN_PHASE,
  ODD_WITHOUT_DURATION,
  ODD_NEGATIVE_DURATION,
  ODD_BAD_ID,
  ODD_NOT_AN_EVENT,
  ODD_TRUNCATED,
  ODD_UNCLOSED,
  ODD_TRAILING,
  ODD_BAD_RECORD,
  ODD_FURTHER,
  ODD_COUNT
};

/* Why reading stopped. */
enum {
  FAULT_KEY_OF_EVENT,
  FAULT_COLON_OF_EVENT,
  FAULT_VALUE_OF_EVENT,
  FAULT_NO_EVENT,
  FAULT_KEY_OF_TRACE,
  FAULT_COLON_OF_TRACE,
  FAULT_VALUE_OF_TRACE,
  FAULT_EMPTY,
  FAULT_NO_TRACE
};

enum { STATE_BEFORE, STATE_TOP, STATE_EVENTS, STATE_DONE };
enum { SCAN_MORE, SCAN_DONE, SCAN_ERROR, SCAN_MEMORY, SCAN_EVENTS, SCAN_REWIND };

typedef struct {
  int32_t pid, tid;
  int64_t last_ns; /* the latest time seen on it */
  int64_t last_mark_ns; /* time of its latest begin or end */
  uint8_t backwards; /* whether begins and ends went back in time */
} ChromeThread;

typedef struct {
  int64_t offset;
  int64_t length;
  int64_t key_offset;
  int64_t key_length;
} TopValue;

typedef struct {
  const char *base, *end, *p; /* of the block */
  int64_t origin, total;      /* the block's offset in the text, and the text's size */
  int last;                   /* whether the text ends where the block does */
  int64_t first;              /* the offset of what the trace begins with, or a further one behind it */
  int64_t position;           /* the offset of the next block */
  int state, lines, lenient;
  int unbalanced; /* whether the brackets of an event are never closed */
  /* spans */
  int64_t *start_ns, *end_ns, *args_offset;
  int32_t *thread, *name, *category, *args_length;
  uint8_t *flags;
  int64_t spans, spans_capacity, spans_taken;
  /* ends of begun ones */
  int64_t *mark_ns, *mark_args_offset;
  int32_t *mark_thread, *mark_name, *mark_position, *mark_args_length;
  int64_t marks, marks_capacity, marks_taken;
  /* all other events */
  int64_t *record_ns, *record_args_offset;
  int32_t *record_thread, *record_name, *record_category, *record_id, *record_scope,
      *record_args_length;
  uint8_t *record_phase, *record_flags, *record_reach;
  int64_t records, records_capacity, records_taken;
  intern_table names, categories, ids;
  intern_text waiting; /* the last id, which begins nowhere once it has its code */
  int64_t waiting_row; /* its record; -1 for none */
  /* threads */
  ChromeThread *threads;
  int32_t *thread_slots;
  int64_t thread_count, thread_capacity;
  int32_t last_thread;
  TopValue *top;
  int64_t top_count;
  int top_has_phase;
  int64_t odd[ODD_COUNT];
  int64_t events;
  int saw_events;
  int saw_own; /* whether the trace that is read has events: there may be others before it */
  int64_t own_top; /* its first value beside them */
  int64_t fault_offset;
  int fault;
  uint8_t kinds[256]; /* by phase */
  int32_t default_id; /* of events without a pid or tid */
  /* names of private arguments, each behind a line feed, with another one at the end */
  const char *private_names;
  uint8_t private_shortest[26]; /* by letter that one begins with, the shortest; 0 for none */
  uint32_t private_last[26];    /* by the same letter, those that such a name ends with, as bits */
} Chrome;

static inline int64_t offset_of(const Chrome *s, const char *p) { return s->origin + (p - s->base); }

static int chrome_init(Chrome *s, int64_t total, uint64_t seed, const uint8_t *kinds,
                       const char *default_id, uint32_t id_length) {
  memset(s, 0, sizeof *s);
  memcpy(s->kinds, kinds, sizeof s->kinds);
  s->total = total;
  s->last_thread = -1;
  s->thread_capacity = 512;
  s->threads = malloc((size_t)s->thread_capacity * sizeof(ChromeThread));
  s->thread_slots = malloc((size_t)s->thread_capacity * 2 * sizeof(int32_t));
  if (!s->threads || !s->thread_slots) return 0;
  memset(s->thread_slots, 0xff, (size_t)s->thread_capacity * 2 * sizeof(int32_t));
  if (!strings_init(&s->names, seed) || !strings_init(&s->categories, seed) ||
      !strings_init(&s->ids, seed))
    return 0;
  s->default_id = intern(&s->ids, default_id, id_length, default_id + id_length);
  return s->default_id >= 0;
}

static void chrome_free(Chrome *s) {
  free(s->start_ns); free(s->end_ns); free(s->args_offset); free(s->thread); free(s->name);
  free(s->category); free(s->args_length); free(s->flags);
  free(s->mark_ns); free(s->mark_args_offset); free(s->mark_thread); free(s->mark_name);
  free(s->mark_position); free(s->mark_args_length);
  free(s->record_ns); free(s->record_args_offset); free(s->record_thread); free(s->record_name);
  free(s->record_category); free(s->record_id); free(s->record_scope);
  free(s->record_args_length); free(s->record_phase); free(s->record_flags); free(s->record_reach);
  intern_free(&s->names); intern_free(&s->categories); intern_free(&s->ids);
  free(s->threads); free(s->thread_slots);
  free(s->top);
}

/* The next capacity of columns of so many rows, of which `taken` were taken together the last time. */
static int64_t capacity_for(const Chrome *s, int64_t rows, int64_t taken) {
  int64_t n;
  if (taken > rows) return taken + 4096;
  n = rows_expected(rows, offset_of(s, s->p), s->total);
  if (n > CHROME_EXPECTED_ROWS) n = CHROME_EXPECTED_ROWS;
  return n > rows ? n : rows * 3 / 2;
}

static int spans_room(Chrome *s, int64_t n) {
  int ok = n <= MOST_ROWS && column_grow((void **)&s->start_ns, n, 8) && column_grow((void **)&s->end_ns, n, 8) &&
           column_grow((void **)&s->args_offset, n, 8) && column_grow((void **)&s->thread, n, 4) &&
           column_grow((void **)&s->name, n, 4) && column_grow((void **)&s->category, n, 4) &&
           column_grow((void **)&s->args_length, n, 4) && column_grow((void **)&s->flags, n, 1);
  if (ok) s->spans_capacity = n;
  return ok;
}

static int spans_reserve(Chrome *s) {
  return spans_room(s, capacity_for(s, s->spans, s->spans_taken)) ||
         spans_room(s, rows_needed(s->spans));
}

static int marks_room(Chrome *s, int64_t n) {
  int ok = n <= MOST_ROWS && column_grow((void **)&s->mark_ns, n, 8) &&
           column_grow((void **)&s->mark_args_offset, n, 8) &&
           column_grow((void **)&s->mark_thread, n, 4) && column_grow((void **)&s->mark_name, n, 4) &&
           column_grow((void **)&s->mark_position, n, 4) &&
           column_grow((void **)&s->mark_args_length, n, 4);
  if (ok) s->marks_capacity = n;
  return ok;
}

static int marks_reserve(Chrome *s) {
  return marks_room(s, capacity_for(s, s->marks, s->marks_taken)) ||
         marks_room(s, rows_needed(s->marks));
}

static int records_room(Chrome *s, int64_t n) {
  int ok = n <= MOST_ROWS && column_grow((void **)&s->record_ns, n, 8) &&
           column_grow((void **)&s->record_args_offset, n, 8) &&
           column_grow((void **)&s->record_thread, n, 4) &&
           column_grow((void **)&s->record_name, n, 4) &&
           column_grow((void **)&s->record_category, n, 4) &&
           column_grow((void **)&s->record_id, n, 4) &&
           column_grow((void **)&s->record_scope, n, 4) &&
           column_grow((void **)&s->record_args_length, n, 4) &&
           column_grow((void **)&s->record_phase, n, 1) &&
           column_grow((void **)&s->record_flags, n, 1) &&
           column_grow((void **)&s->record_reach, n, 1);
  if (ok) s->records_capacity = n;
  return ok;
}

static int records_reserve(Chrome *s) {
  return records_room(s, capacity_for(s, s->records, s->records_taken)) ||
         records_room(s, rows_needed(s->records));
}

static int32_t thread_code(Chrome *s, int32_t pid, int32_t tid) {
  uint64_t mask, slot;
  int32_t code;
  if (LIKELY(s->last_thread >= 0) && s->threads[s->last_thread].pid == pid &&
      s->threads[s->last_thread].tid == tid)
    return s->last_thread;
  if (s->thread_count == s->thread_capacity) {
    int64_t n = s->thread_capacity * 2, i;
    int32_t *slots = malloc((size_t)n * 2 * sizeof(int32_t));
    if (!slots) return -2;
    if (!column_grow((void **)&s->threads, n, sizeof(ChromeThread))) {
      free(slots);
      return -2;
    }
    use_huge_pages(slots, (size_t)n * 2 * sizeof(int32_t));
    memset(slots, 0xff, (size_t)n * 2 * sizeof(int32_t));
    mask = (uint64_t)n * 2 - 1;
    for (i = 0; i < s->thread_count; i++) {
      slot = mix((uint64_t)(uint32_t)s->threads[i].pid << 32 | (uint32_t)s->threads[i].tid,
                 0x9E3779B97F4A7C15ULL) & mask;
      while (slots[slot] >= 0) slot = (slot + 1) & mask;
      slots[slot] = (int32_t)i;
    }
    free(s->thread_slots);
    s->thread_slots = slots;
    s->thread_capacity = n;
  }
  mask = (uint64_t)s->thread_capacity * 2 - 1;
  slot = mix((uint64_t)(uint32_t)pid << 32 | (uint32_t)tid, 0x9E3779B97F4A7C15ULL) & mask;
  for (;;) {
    code = s->thread_slots[slot];
    if (code < 0) break;
    if (s->threads[code].pid == pid && s->threads[code].tid == tid) return s->last_thread = code;
    slot = (slot + 1) & mask;
  }
  code = (int32_t)s->thread_count++;
  s->thread_slots[slot] = code;
  memset(&s->threads[code], 0, sizeof(ChromeThread));
  s->threads[code].pid = pid;
  s->threads[code].tid = tid;
  s->threads[code].last_ns = s->threads[code].last_mark_ns = INT64_MIN;
  return s->last_thread = code;
}

static int fail(Chrome *s, const char *where, int fault) {
  s->fault_offset = offset_of(s, where);
  s->fault = fault;
  return SCAN_ERROR;
}

/* An id from a number that is not plainly an integer: 7.0 and 7e0 are the id 7. */
static int32_t id_from_number(Chrome *s, const char *text, const char *end) {
  Decimal value;
  char digits[24], *begin;
  if (decimal_slow(text, end, &value) != NUMBER_OK || value.billionths || value.ns % 1000)
    return intern(&s->ids, text, (uint32_t)(end - text), s->end);
  value.ns /= 1000; /* decimal_slow converts microseconds */
  begin = signed_decimal_before(digits + sizeof digits, value.ns);
  return intern(&s->ids, begin, (uint32_t)(digits + sizeof digits - begin), digits + sizeof digits);
}

static inline int plain_integer(const char *p, const char *end) {
  if (p < end && *p == '-') p++;
  if (p >= end) return 0;
  for (; p < end; p++)
    if (*p < '0' || *p > '9') return 0;
  return 1;
}

typedef struct {
  Decimal time, duration;
  const char *args, *args_end;
  int32_t name, category, pid, tid, bind, scope;
  int time_state, duration_state; /* -1 if absent, otherwise NUMBER_* */
  uint8_t phase, reach, flags;
  int has_phase, has_id;
} ChromeEvent;

enum { EVENT_OK, EVENT_CUT, EVENT_ERROR, EVENT_MEMORY };

/* Longer keys are not read, even with each letter escaped: the longest, flow_out, has 48 bytes. */
enum { MOST_KEY = 64 };

/* A key or phase with escapes, of which only those of ASCII matter; returns its length. */
static int64_t plain_text(const char *text, int64_t length, char *out) {
  int64_t i, n = 0;
  int digit;
  for (i = 0; i < length; i++) {
    if (text[i] != '\\' || i + 5 >= length || text[i + 1] != 'u') {
      out[n++] = text[i];
      continue;
    }
    for (digit = 0, out[n] = 0; digit < 4; digit++) {
      char c = text[i + 2 + digit];
      int value = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f'
                  ? (c | 0x20) - 'a' + 10 : 16;
      if (value == 16 || (digit < 2 && value)) break;
      out[n] = (char)(out[n] * 16 + value);
    }
    if (digit < 4) out[n] = '\\';
    else i += 5;
    n++;
  }
  return n;
}

/* Gives the last id its code, and its record too; returns the code, -2 if there is no memory. */
static int32_t id_end(Chrome *s) {
  int32_t code;
  if (!s->waiting.at) return -1;
  code = intern_code(&s->ids, &s->waiting);
  if (s->waiting_row >= 0) s->record_id[s->waiting_row] = code;
  s->waiting.at = NULL;
  return code;
}

/* Takes an id, whose code is looked up at the next one: there may be many, and the slot of one is
 * fetched meanwhile. */
static int32_t id_begin(Chrome *s, ChromeEvent *e, const char *text, const char *text_end) {
  int32_t before = id_end(s);
  s->waiting = intern_key(text, (uint32_t)(text_end - text), s->end);
  s->waiting_row = -1;
  __builtin_prefetch(&s->ids.slots[intern_slot_of(&s->ids, &s->waiting, 0)]);
  e->has_id = 1;
  return before;
}

/* Reads one event; *at is moved from its '{' to behind its '}'. */
static int event_read(Chrome *s, const char **at, ChromeEvent *e) {
  const char *p = *at + 1, *end = s->end;
  e->name = e->category = e->pid = e->tid = e->bind = e->scope = -1;
  e->time.ns = e->time.billionths = 0;
  e->time_state = e->duration_state = -1;
  e->args = e->args_end = NULL;
  e->phase = e->reach = e->flags = 0;
  e->has_phase = e->has_id = 0;
  for (;;) {
    const char *key, *value, *value_stop, *text, *text_end;
    char unescaped[MOST_KEY];
    int64_t length;
    int32_t code;
    char kind; /* 's'tring, 't'oken, 'n'ested */
    while (p < end && (*p == ',' || is_space(*p))) p++;
    if (p >= end) return EVENT_CUT;
    if (*p == '}') break;
    if (*p != '"') {
      fail(s, p, FAULT_KEY_OF_EVENT);
      return EVENT_ERROR;
    }
    key = p + 1;
    p = string_end(key, end);
    if (!p || p >= end) return EVENT_CUT;
    length = p - key;
    p++;
    while (p < end && is_space(*p)) p++;
    if (p >= end) return EVENT_CUT;
    if (*p != ':') {
      fail(s, p, FAULT_COLON_OF_EVENT);
      return EVENT_ERROR;
    }
    p++;
    while (p < end && is_space(*p)) p++;
    if (p >= end) return EVENT_CUT;
    value = p;
    if (*p == '"') {
      kind = 's';
      text = p + 1;
      text_end = string_end(text, end);
      if (!text_end || text_end >= end) return EVENT_CUT;
      value_stop = text_end + 1;
    } else if (*p == '{' || *p == '[') {
      kind = 'n';
      text = p;
      value_stop = text_end = nested_end(p, end);
      if (!value_stop) return EVENT_CUT;
    } else {
      kind = 't';
      text = p;
      value_stop = text_end = token_end(p, end);
      /* at the end of the block, a number may continue in the next one */
      if (value_stop >= end) return EVENT_CUT;
      if (value_stop == p) {
        fail(s, p, FAULT_VALUE_OF_EVENT);
        return EVENT_ERROR;
      }
    }
    p = value_stop;
    code = 0;
  again:
    switch (length) {
      case 1:
        if (key[0] == 's' && kind == 's' && text_end > text) e->reach = (uint8_t)text[0];
        break;
      case 2:
        if (key[0] == 't' && key[1] == 's') {
          e->time_state = kind == 'n' ? NUMBER_BAD : decimal(text, text_end, end, &e->time);
          if (kind == 't' && *text == 'n') e->time_state = -1;
        } else if (key[0] == 'p' && key[1] == 'h') {
          e->has_phase = kind != 't' || *text != 'n';
          e->phase = kind == 's' && text_end - text == 1 ? (uint8_t)*text : 0;
          if (UNLIKELY(kind == 's' && text_end - text == 6)) {
            char plain[6];
            if (plain_text(text, 6, plain) == 1) e->phase = (uint8_t)plain[0];
          }
        } else if (key[0] == 'i' && key[1] == 'd') {
          code = id_begin(s, e, text, text_end);
        }
        break;
      case 3:
        if (key[0] == 'd' && key[1] == 'u' && key[2] == 'r') {
          e->duration_state = kind == 'n' ? NUMBER_BAD : decimal(text, text_end, end, &e->duration);
          if (kind == 't' && *text == 'n') e->duration_state = -1;
        } else if ((key[0] == 'p' || key[0] == 't') && key[1] == 'i' && key[2] == 'd') {
          if (kind == 'n') {
            s->odd[ODD_BAD_ID]++;
            break;
          }
          if (kind == 't' && !plain_integer(text, text_end)) {
            if (text[0] == 'n') break;
            code = id_from_number(s, text, text_end);
          } else {
            code = intern(&s->ids, text, (uint32_t)(text_end - text), end);
          }
          if (key[0] == 'p') e->pid = code;
          else e->tid = code;
        } else if (key[0] == 'c' && key[1] == 'a' && key[2] == 't') {
          if (kind == 's')
            code = e->category = intern(&s->categories, text, (uint32_t)(text_end - text), end);
        } else if (key[0] == 'i' && key[1] == 'd' && key[2] == '2') {
          code = id_begin(s, e, text, text_end);
        }
        break;
      case 4:
        if (memcmp(key, "name", 4) == 0) {
          if (kind == 't' && *text == 'n') e->name = -1;
          else code = e->name = intern(&s->names, text, (uint32_t)(text_end - text), end);
        } else if (memcmp(key, "args", 4) == 0) {
          if (kind == 't' && *text == 'n') {
            e->args = NULL;
          } else {
            e->args = value;
            e->args_end = value_stop;
          }
        }
        break;
      case 5:
        if (memcmp(key, "scope", 5) == 0 && kind == 's')
          code = e->scope = intern(&s->ids, text, (uint32_t)(text_end - text), end);
        break;
      case 7:
        if (memcmp(key, "bind_id", 7) == 0)
          code = e->bind = intern(&s->ids, text, (uint32_t)(text_end - text), end);
        else if (memcmp(key, "flow_in", 7) == 0 && *text == 't') e->flags |= RECORD_FLOW_IN;
        break;
      case 8:
        if (memcmp(key, "flow_out", 8) == 0 && *text == 't') e->flags |= RECORD_FLOW_OUT;
        break;
      default:
        break;
    }
    if (UNLIKELY(code == -2)) return EVENT_MEMORY;
    /* Last, since keys with escapes are rare: an escape has six bytes, and no key that is read
     * contains a backslash, so an escaped key has matched nothing so far. */
    if (UNLIKELY(length > 5 && length <= MOST_KEY && key != unescaped &&
                 memchr(key, '\\', (size_t)length))) {
      length = plain_text(key, length, unescaped);
      key = unescaped;
      goto again;
    }
  }
  *at = p + 1;
  return EVENT_OK;
}

static inline void touch(ChromeThread *thread, int64_t time_ns) {
  if (time_ns > thread->last_ns) thread->last_ns = time_ns;
}

static inline int letter_of(char c) {
  return (uint8_t)((c | 32) - 'a') < 26 ? (c | 32) - 'a' : -1;
}

/* Whether a key, whose last quote is at `quote`, is private. */
static int is_private_key(const Chrome *s, const char *begin, const char *quote) {
  const char *key = quote, *end = quote;
  int first, last;
  while (key > begin && key[-1] != '"') key--;
  while (key < end && (*key == '_' || *key == '-')) key++;
  while (key < end && (end[-1] == '_' || end[-1] == '-')) end--;
  if (key == end || (first = letter_of(*key)) < 0 || !s->private_shortest[first]) return 0;
  if (end - key < s->private_shortest[first]) return 0;
  last = letter_of(end[-1]);
  if (last < 0 || !(s->private_last[first] >> last & 1))
    if (!memchr(key, '.', (size_t)(end - key))) return 0;
  return is_private_name(s->private_names, key, end);
}

/* Whether arguments, which may be nested, have a private key. */
static int has_private(const Chrome *s, const char *begin, const char *end) {
  const char *p = begin;
  while ((p = memchr(p, ':', (size_t)(end - p))) != NULL) {
    const char *quote = p - 1;
    while (quote > begin && (*quote == ' ' || *quote == '\t' || *quote == '\n' || *quote == '\r'))
      quote--;
    if (quote > begin && *quote == '"' && is_private_key(s, begin, quote)) return 1;
    p++;
  }
  return 0;
}

/* Empty arguments count as none; the length of those with a private key is negative. */
static inline int32_t args_size(const Chrome *s, const ChromeEvent *e) {
  int64_t length = e->args ? e->args_end - e->args : 0;
  if (length == 2 && e->args[0] == '{') length = 0;
  if (length > INT32_MAX) length = 0;
  if (length && s->private_names && has_private(s, e->args, e->args_end)) length = -length;
  return (int32_t)length;
}

static int record_keep(Chrome *s, const ChromeEvent *e, int32_t thread, int32_t id) {
  int64_t n = s->records;
  if (n == s->records_capacity && !records_reserve(s)) return 0;
  s->record_ns[n] = e->time_state == NUMBER_OK ? nearest(e->time) : 0;
  s->record_args_length[n] = args_size(s, e);
  s->record_args_offset[n] = s->record_args_length[n] ? offset_of(s, e->args) : 0;
  s->record_thread[n] = thread;
  s->record_name[n] = e->name;
  s->record_category[n] = e->category;
  s->record_id[n] = id;
  s->record_scope[n] = e->scope;
  s->record_phase[n] = e->phase;
  s->record_reach[n] = e->reach;
  s->record_flags[n] = e->flags;
  s->records++;
  return 1;
}

/* The end of a complete event: begin and duration are added before they are rounded. */
static inline int64_t end_of(Chrome *s, const ChromeEvent *e, int64_t start_ns) {
  Decimal sum;
  if (e->duration_state < 0 || e->duration_state == NUMBER_BAD) {
    s->odd[ODD_WITHOUT_DURATION]++;
    return start_ns;
  }
  if (e->duration_state == NUMBER_RANGE ||
      __builtin_add_overflow(e->time.ns, e->duration.ns, &sum.ns) || sum.ns >= INT64_MAX - 2) {
    s->odd[ODD_OUT_OF_RANGE]++;
    return start_ns;
  }
  if (e->duration.ns < 0) {
    s->odd[ODD_NEGATIVE_DURATION]++;
    return start_ns;
  }
  sum.billionths = e->time.billionths + e->duration.billionths;
  if (sum.billionths >= 1000000000) {
    sum.billionths -= 1000000000;
    sum.ns++;
  }
  return nearest(sum);
}

static int event_keep(Chrome *s, const ChromeEvent *e) {
  int32_t pid = e->pid, tid = e->tid, code;
  int kind = s->kinds[e->phase];
  ChromeThread *thread;
  int64_t n, time_ns;
  s->events++;
  if (UNLIKELY(!e->has_phase)) {
    s->odd[ODD_WITHOUT_PHASE]++;
    return 1;
  }
  if (UNLIKELY(kind == KIND_UNKNOWN)) {
    s->odd[ODD_UNKNOWN_PHASE]++;
    return 1;
  }
  if (UNLIKELY(e->time_state != NUMBER_OK && kind != KIND_TIMELESS)) {
    s->odd[e->time_state == NUMBER_RANGE ? ODD_OUT_OF_RANGE : ODD_WITHOUT_TIME]++;
    return 1;
  }
  if (UNLIKELY(pid < 0)) pid = s->default_id;
  if (UNLIKELY(tid < 0)) tid = s->default_id;
  code = thread_code(s, pid, tid);
  if (UNLIKELY(code < 0)) return 0;
  thread = &s->threads[code];
  time_ns = nearest(e->time);
  if (LIKELY(kind == KIND_COMPLETE || kind == KIND_BEGIN)) {
    n = s->spans;
    if (UNLIKELY(n == s->spans_capacity) && !spans_reserve(s)) return 0;
    s->start_ns[n] = time_ns;
    s->thread[n] = code;
    s->name[n] = e->name;
    s->category[n] = e->category;
    s->args_length[n] = args_size(s, e);
    s->args_offset[n] = s->args_length[n] ? offset_of(s, e->args) : 0;
    if (kind == KIND_COMPLETE) {
      s->end_ns[n] = end_of(s, e, time_ns);
      s->flags[n] = 0;
      touch(thread, s->end_ns[n]);
    } else {
      s->end_ns[n] = time_ns;
      s->flags[n] = SPAN_STRUCTURED | SPAN_OPEN;
      if (time_ns < thread->last_mark_ns) thread->backwards = 1;
      thread->last_mark_ns = time_ns;
    }
    touch(thread, time_ns);
    s->spans++;
    if (UNLIKELY(e->bind >= 0)) return record_keep(s, e, code, e->bind);
    return 1;
  }
  if (kind == KIND_END) {
    n = s->marks;
    if (UNLIKELY(n == s->marks_capacity) && !marks_reserve(s)) return 0;
    s->mark_ns[n] = time_ns;
    s->mark_thread[n] = code;
    s->mark_name[n] = e->name;
    /* Spans and marks are separate columns; this keeps their order in the file, which `match` in
     * nest.pyx needs. MOST_ROWS limits spans to 32 bits. */
    s->mark_position[n] = (int32_t)s->spans;
    s->mark_args_length[n] = args_size(s, e);
    s->mark_args_offset[n] = s->mark_args_length[n] ? offset_of(s, e->args) : 0;
    if (time_ns < thread->last_mark_ns) thread->backwards = 1;
    thread->last_mark_ns = time_ns;
    touch(thread, time_ns);
    s->marks++;
    return 1;
  }
  if (kind == KIND_THREAD_RECORD) touch(thread, time_ns);
  if (!record_keep(s, e, code, -1)) return 0;
  if (e->has_id) s->waiting_row = s->records - 1;
  return 1;
}

/* Events from s->p until the block or the array ends. */
static int events_read(Chrome *s) {
  ChromeEvent e;
  for (;;) {
    const char *begin;
    int result;
    while (s->p < s->end && (*s->p == ',' || is_space(*s->p))) s->p++;
    if (s->p >= s->end) {
      if (!s->last) return SCAN_MORE;
      if (s->state == STATE_EVENTS && s->lines == 2) s->odd[ODD_UNCLOSED]++;
      return SCAN_DONE;
    }
    begin = s->p;
    if (*begin == '{') {
      /* An event that is cut is read again in the next block, and must not be counted twice. */
      int64_t bad_ids = s->odd[ODD_BAD_ID];
      result = event_read(s, &s->p, &e);
      if (LIKELY(result == EVENT_OK)) {
        if (UNLIKELY(!event_keep(s, &e))) return SCAN_MEMORY;
        continue;
      }
      if (result == EVENT_CUT) {
        if (!s->last) {
          s->odd[ODD_BAD_ID] = bad_ids;
          return SCAN_MORE;
        }
        s->odd[ODD_TRUNCATED]++;
        s->p = s->end;
        return SCAN_DONE;
      }
      if (result == EVENT_MEMORY) return SCAN_MEMORY;
      if (!s->lenient) return SCAN_ERROR;
      /* brackets are searched for up to the end only once, or time would be quadratic */
      s->p = s->unbalanced ? NULL : nested_end(begin, s->end);
      if (!s->p && !s->last) {
        s->p = begin;
        s->odd[ODD_BAD_ID] = bad_ids;
        return SCAN_MORE;
      }
      s->odd[ODD_BAD_RECORD]++;
      if (!s->p) {
        /* its brackets are never closed: continue at the next line that begins with one */
        s->unbalanced = 1;
        s->p = begin + 1;
        while (s->p < s->end && !(*s->p == '{' && s->p[-1] == '\n')) s->p++;
      }
      continue;
    }
    if (*begin == ']') {
      s->p++;
      return SCAN_DONE;
    }
    {
      const char *stop = value_end(begin, s->end);
      int value = *begin == '"' || *begin == '[' || *begin == '-' || *begin == 'n' ||
                  *begin == 't' || *begin == 'f' || (*begin >= '0' && *begin <= '9');
      if (!s->last && (!stop || stop >= s->end)) return SCAN_MORE;
      if (value && !stop) {
        s->odd[ODD_TRUNCATED]++;
        s->p = s->end;
        return SCAN_DONE;
      }
      if (value && stop > begin) {
        s->odd[ODD_NOT_AN_EVENT]++;
        s->p = stop;
        continue;
      }
      if (!s->lenient) return fail(s, begin, FAULT_NO_EVENT);
      while (s->p < s->end && *s->p != '{' && *s->p != ']') s->p++;
      if (s->p >= s->end && !s->last) {
        s->p = begin;
        return SCAN_MORE;
      }
      s->odd[ODD_BAD_RECORD]++;
    }
  }
}

static int top_keep(Chrome *s, const char *key, const char *key_end, const char *value,
                    const char *stop) {
  TopValue *list = realloc(s->top, (size_t)(s->top_count + 1) * sizeof(TopValue));
  if (!list) return 0;
  s->top = list;
  list[s->top_count].key_offset = offset_of(s, key);
  list[s->top_count].key_length = key_end - key;
  list[s->top_count].offset = offset_of(s, value);
  list[s->top_count].length = stop - value;
  s->top_count++;
  if (key_end - key == 2 && memcmp(key, "ph", 2) == 0) s->top_has_phase = 1;
  return 1;
}

/* The object around the events, up to them (SCAN_EVENTS) or to its end. */
static int top_read(Chrome *s) {
  for (;;) {
    const char *key, *key_end, *value, *stop;
    while (s->p < s->end && (*s->p == ',' || is_space(*s->p))) s->p++;
    if (s->p >= s->end) {
      if (!s->last) return SCAN_MORE;
      s->odd[ODD_UNCLOSED]++;
      return SCAN_DONE;
    }
    if (*s->p == '}') {
      s->p++;
      return SCAN_DONE;
    }
    if (*s->p != '"') return fail(s, s->p, FAULT_KEY_OF_TRACE);
    key = s->p + 1;
    key_end = string_end(key, s->end);
    if (!key_end || key_end >= s->end) goto cut;
    value = key_end + 1;
    while (value < s->end && is_space(*value)) value++;
    if (value >= s->end) goto cut;
    if (*value != ':') return fail(s, value, FAULT_COLON_OF_TRACE);
    value++;
    while (value < s->end && is_space(*value)) value++;
    if (value >= s->end) goto cut;
    if (key_end - key == 11 && memcmp(key, "traceEvents", 11) == 0 && *value == '[') {
      s->p = value + 1;
      s->state = STATE_EVENTS;
      s->saw_events = s->saw_own = 1;
      return SCAN_EVENTS;
    }
    stop = value_end(value, s->end);
    if (!stop || (stop == s->end && *value != '"' && *value != '{' && *value != '[')) goto cut;
    if (stop == value) return fail(s, value, FAULT_VALUE_OF_TRACE);
    if (!top_keep(s, key, key_end, value, stop)) return SCAN_MEMORY;
    s->p = stop;
    continue;
  cut:
    if (!s->last) return SCAN_MORE;
    s->odd[ODD_TRUNCATED]++;
    s->p = s->end;
    return SCAN_DONE;
  }
}

/* The trace that begins at s->p, with a bracket. */
static void trace_begin(Chrome *s) {
  s->first = offset_of(s, s->p);
  s->own_top = s->top_count;
  s->top_has_phase = 0;
  if (*s->p++ == '[') {
    s->state = STATE_EVENTS;
    s->saw_events = s->saw_own = 1;
    s->lines = 0;
  } else {
    s->state = STATE_TOP;
    s->saw_own = 0;
    s->lines = 2;
  }
}

/* Whether a trace begins at s->p, behind another one: 0 or 1, or -1 if the block ends first. */
static int is_further(const Chrome *s) {
  const char *p = s->p;
  if (*p != '[' && *p != '{') return 0;
  for (p++; p < s->end && is_space(*p); p++) {
  }
  if (p >= s->end) return s->last ? 0 : -1;
  return *p == (*s->p == '[' ? '{' : '"');
}

/* `lines` is 0 for a bare array, 1 for events without one, 2 inside an object. */
static int block_scan(Chrome *s) {
  int result;
  if (s->state == STATE_BEFORE) {
    while (s->p < s->end && is_space(*s->p)) s->p++;
    if (s->p >= s->end) return s->last ? fail(s, s->p, FAULT_EMPTY) : SCAN_MORE;
    if (*s->p != '[' && *s->p != '{') return fail(s, s->p, FAULT_NO_TRACE);
    trace_begin(s);
  }
  for (;;) {
    if (s->state == STATE_TOP) {
      result = top_read(s);
      if (result == SCAN_EVENTS) continue;
      if (result != SCAN_DONE) return result;
      if (!s->saw_own && s->top_has_phase) {
        /* events in a row without an array around them */
        s->odd[ODD_UNCLOSED] = s->odd[ODD_TRUNCATED] = 0;
        s->state = STATE_EVENTS;
        s->saw_events = s->saw_own = s->lines = 1;
        s->top_count = s->own_top;
        s->position = s->first;
        return SCAN_REWIND;
      }
      s->state = STATE_DONE;
    }
    if (s->state == STATE_EVENTS) {
      result = events_read(s);
      if (result != SCAN_DONE) return result;
      s->state = s->lines == 2 && (s->p < s->end || !s->last) ? STATE_TOP : STATE_DONE;
      continue;
    }
    while (s->p < s->end && (is_space(*s->p) || *s->p == 0)) s->p++;
    if (s->p >= s->end && !s->last) return SCAN_MORE;
    if (s->p >= s->end) return SCAN_DONE;
    result = is_further(s);
    if (result < 0) return SCAN_MORE;
    if (!result) {
      s->odd[ODD_TRAILING] += s->total - offset_of(s, s->p);
      return SCAN_DONE;
    }
    s->odd[ODD_FURTHER]++;
    trace_begin(s);
  }
}

/* Scans a block. SCAN_MORE asks for the block at s->position, which has to be larger than this one
 * if that is where this one begins. */
static int chrome_scan(Chrome *s, const char *block, int64_t origin, int64_t size) {
  int result;
  s->base = s->p = block;
  s->end = block + size;
  s->origin = origin;
  s->last = origin + size >= s->total;
  result = block_scan(s);
  if (id_end(s) == -2) return SCAN_MEMORY;
  if (result == SCAN_REWIND) return SCAN_MORE;
  s->position = offset_of(s, s->p);
  return result;
}

#endif
