/* .spall records into spans: begins and ends matched as they come, one pass.
 *
 * Little endian, packed. Version 0 and 1 are one stream with pid and tid in every record and times
 * as doubles; version 3 has buffers of one thread and integer times; the automatic version 3 has
 * buffers of differences to the record before. The records come in blocks: a record or buffer that a
 * block cuts is read from its beginning in the next one, which begins there. */
#ifndef MEANTIME_SPALL_SCAN_H
#define MEANTIME_SPALL_SCAN_H

#include "growing.h"
#include "span_flags.h"

enum {
  SPALL_FORMAT_0 = 0,
  SPALL_FORMAT_1 = 1,
  SPALL_FORMAT_3 = 3,
  SPALL_FORMAT_AUTO = 4
};

enum {
  TYPE_CUSTOM_DATA = 1,
  TYPE_STREAM_OVER = 2, /* in version 0 a complete span */
  TYPE_BEGIN = 3,
  TYPE_END = 4,
  TYPE_INSTANT = 5,
  TYPE_OVERWRITE_TIMESTAMP = 6,
  TYPE_PAD_SKIP = 7,
  TYPE_NAME_PROCESS = 8,
  TYPE_NAME_THREAD = 9
};

/* How many spans there are when those that have ended are taken. */
#define SPALL_TAKEN_ROWS ((int64_t)1 << 18)

enum { SPALL_DONE, SPALL_CUT, SPALL_UNKNOWN, SPALL_MEMORY, SPALL_MORE };

typedef struct {
  uint32_t pid, tid;
  int64_t last_ns;
  int32_t top;       /* the innermost open span */
  int32_t depth;
  int64_t name_offset;
  int32_t name_length;
  uint8_t backwards;
} SpallThread;

typedef struct {
  uint32_t pid;
  int64_t offset;
  int32_t length;
} SpallProcess;

typedef struct {
  const char *base, *p, *end; /* of the block */
  int64_t origin, total;      /* the block's offset in the text, and the text's size */
  int last;                   /* whether the text ends where the block does */
  int format;
  double unit;   /* nanoseconds a tick */
  int whole;     /* whether `unit` is a whole number below 2^31 */
  int64_t *start_ns, *end_ns, *args_offset;
  int32_t *thread, *name, *level, *below, *args_length;
  uint8_t *flags;
  int64_t spans, capacity;
  int64_t *instant_ns, *instant_args_offset;
  int32_t *instant_thread, *instant_name, *instant_args_length;
  int64_t instants, instants_capacity;
  intern_table names;
  SpallThread *threads;
  int32_t *slots;
  int64_t thread_count, thread_capacity;
  SpallProcess *processes;
  int64_t process_count;
  int64_t strays, negatives, out_of_range, skipped, bad_buffers, trailing;
  int64_t stop_offset; /* of the record that could not be read */
  int type;
  int lenient;
} Spall;

static inline uint32_t load4(const char *p) {
  uint32_t word;
  memcpy(&word, p, 4);
  return word;
}

static inline double load_double(const char *p) {
  double value;
  memcpy(&value, p, 8);
  return value;
}

static inline int64_t offset_of(const Spall *s, const char *p) { return s->origin + (p - s->base); }

static int spall_init(Spall *s, int64_t total, int format, double unit, uint64_t seed) {
  memset(s, 0, sizeof *s);
  s->total = total;
  s->format = format;
  s->unit = unit;
  /* then ticks become nanoseconds by an integer product, exact at any size */
  s->whole = unit >= 1 && unit < 2147483648.0 && unit == (double)(int64_t)unit;
  s->thread_capacity = 256;
  s->threads = malloc((size_t)s->thread_capacity * sizeof(SpallThread));
  s->slots = malloc((size_t)s->thread_capacity * 2 * sizeof(int32_t));
  if (!s->threads || !s->slots) return 0;
  memset(s->slots, 0xff, (size_t)s->thread_capacity * 2 * sizeof(int32_t));
  return strings_init(&s->names, seed);
}

static void spall_free(Spall *s) {
  free(s->start_ns); free(s->end_ns); free(s->args_offset); free(s->thread); free(s->name);
  free(s->level); free(s->below); free(s->args_length); free(s->flags);
  free(s->instant_ns); free(s->instant_thread); free(s->instant_name);
  free(s->instant_args_offset); free(s->instant_args_length);
  intern_free(&s->names);
  free(s->threads); free(s->slots); free(s->processes);
}

static int spall_room(Spall *s, int64_t n) {
  int ok = n <= MOST_ROWS && column_grow((void **)&s->start_ns, n, 8) && column_grow((void **)&s->end_ns, n, 8) &&
           column_grow((void **)&s->args_offset, n, 8) && column_grow((void **)&s->thread, n, 4) &&
           column_grow((void **)&s->name, n, 4) && column_grow((void **)&s->level, n, 4) &&
           column_grow((void **)&s->below, n, 4) && column_grow((void **)&s->args_length, n, 4) &&
           column_grow((void **)&s->flags, n, 1);
  if (ok) s->capacity = n;
  return ok;
}

/* Grows the columns, when the text was read up to this offset. */
static int spall_grow(Spall *s, int64_t offset) {
  int64_t rows = rows_expected(s->spans, offset, s->total);
  /* spans are taken before there are more, unless most of them are open */
  if (rows > SPALL_TAKEN_ROWS * 2) rows = SPALL_TAKEN_ROWS * 2;
  return (rows > s->spans && spall_room(s, rows)) || spall_room(s, rows_needed(s->spans));
}

static inline uint64_t thread_slot(const Spall *s, uint32_t pid, uint32_t tid) {
  return mix(((uint64_t)pid << 32 | tid) ^ s->names.seed, 0x9E3779B97F4A7C15ULL);
}

static int32_t spall_thread(Spall *s, uint32_t pid, uint32_t tid) {
  uint64_t mask = (uint64_t)s->thread_capacity * 2 - 1, slot = thread_slot(s, pid, tid) & mask;
  int32_t code;
  SpallThread *thread;
  for (; (code = s->slots[slot]) >= 0; slot = (slot + 1) & mask)
    if (s->threads[code].pid == pid && s->threads[code].tid == tid) return code;
  if (s->thread_count == s->thread_capacity) {
    int64_t n = s->thread_capacity * 2, i;
    int32_t *slots = malloc((size_t)n * 2 * sizeof(int32_t));
    if (!slots) return -1;
    if (!column_grow((void **)&s->threads, n, sizeof(SpallThread))) {
      free(slots);
      return -1;
    }
    memset(slots, 0xff, (size_t)n * 2 * sizeof(int32_t));
    mask = (uint64_t)n * 2 - 1;
    for (i = 0; i < s->thread_count; i++) {
      slot = thread_slot(s, s->threads[i].pid, s->threads[i].tid) & mask;
      while (slots[slot] >= 0) slot = (slot + 1) & mask;
      slots[slot] = (int32_t)i;
    }
    free(s->slots);
    s->slots = slots;
    s->thread_capacity = n;
    slot = thread_slot(s, pid, tid) & mask;
    while (s->slots[slot] >= 0) slot = (slot + 1) & mask;
  }
  code = (int32_t)s->thread_count++;
  s->slots[slot] = code;
  thread = &s->threads[code];
  memset(thread, 0, sizeof *thread);
  thread->pid = pid;
  thread->tid = tid;
  thread->last_ns = INT64_MIN;
  thread->top = -1;
  return code;
}

/* Ticks as a double to the nearest nanosecond; the thread's latest time if it is out of range. */
static inline int64_t time_of_double(Spall *s, double ticks, const SpallThread *thread) {
  /* A long double product is exact enough but slow, so it is used only where a double is not. */
  double near = ticks * s->unit + 0.5;
  long double ns;
  if (LIKELY(near >= 0.5 && near < 0x1p45)) {
    /* the error is below a hundredth there: precise enough unless that near to a half */
    int64_t whole = (int64_t)near;
    double rest = near - (double)whole;
    if (LIKELY(rest > 0.01 && rest < 0.99)) return whole;
  }
  ns = (long double)ticks * s->unit;
  if (LIKELY(ns > -9.2e18L && ns < 9.2e18L)) {
    int64_t whole = (int64_t)ns;
    long double rest = ns - (long double)whole;
    return whole + (rest >= 0.5L) - (rest < -0.5L);
  }
  s->out_of_range++;
  return thread->last_ns == INT64_MIN ? 0 : thread->last_ns;
}

static inline int64_t time_of_ticks(Spall *s, uint64_t ticks, const SpallThread *thread) {
  if (LIKELY(s->whole)) {
    unsigned __int128 ns = (unsigned __int128)ticks * (uint64_t)s->unit;
    if (LIKELY(ns < (unsigned __int128)INT64_MAX)) return (int64_t)ns;
    s->out_of_range++;
    return thread->last_ns == INT64_MIN ? 0 : thread->last_ns;
  } else {
    long double ns = (long double)ticks * s->unit;
    if (LIKELY(ns < 9.2e18L && ns > -9.2e18L)) return (int64_t)(ns + 0.5L);
    s->out_of_range++;
    return thread->last_ns == INT64_MIN ? 0 : thread->last_ns;
  }
}

static inline int span_begin(Spall *s, int32_t code, int64_t time_ns, int32_t name,
                             int64_t args_offset, int32_t args_length) {
  SpallThread *thread = &s->threads[code];
  int64_t n = s->spans;
  if (UNLIKELY(n == s->capacity) && !spall_grow(s, args_offset)) return 0;
  s->start_ns[n] = s->end_ns[n] = time_ns;
  s->args_offset[n] = args_length ? args_offset : 0;
  s->args_length[n] = args_length;
  s->thread[n] = code;
  s->name[n] = name;
  s->level[n] = thread->depth++;
  s->below[n] = thread->top;
  s->flags[n] = SPAN_STRUCTURED;
  thread->top = (int32_t)n;
  if (time_ns < thread->last_ns) thread->backwards = 1;
  else thread->last_ns = time_ns;
  s->spans++;
  return 1;
}

static inline void span_end(Spall *s, int32_t code, int64_t time_ns) {
  SpallThread *thread = &s->threads[code];
  int32_t top = thread->top;
  if (time_ns < thread->last_ns) thread->backwards = 1;
  else thread->last_ns = time_ns;
  if (UNLIKELY(top < 0)) {
    s->strays++;
    return;
  }
  thread->top = s->below[top];
  thread->depth--;
  if (UNLIKELY(time_ns < s->start_ns[top])) s->negatives++;
  else s->end_ns[top] = time_ns;
}

static int instant(Spall *s, int32_t code, int64_t time_ns, int32_t name, int64_t args_offset,
                   int32_t args_length) {
  int64_t n = s->instants;
  if (n == s->instants_capacity) {
    int64_t room = n ? n * 2 : 256;
    if (room > MOST_ROWS || !column_grow((void **)&s->instant_ns, room, 8) ||
        !column_grow((void **)&s->instant_thread, room, 4) ||
        !column_grow((void **)&s->instant_args_offset, room, 8) ||
        !column_grow((void **)&s->instant_args_length, room, 4) ||
        !column_grow((void **)&s->instant_name, room, 4))
      return 0;
    s->instants_capacity = room;
  }
  s->instant_ns[n] = time_ns;
  s->instant_thread[n] = code;
  s->instant_name[n] = name;
  s->instant_args_offset[n] = args_length ? args_offset : 0;
  s->instant_args_length[n] = args_length;
  s->instants++;
  if (time_ns > s->threads[code].last_ns) s->threads[code].last_ns = time_ns;
  return 1;
}

static int unreadable(Spall *s, const char *p, int why) {
  s->stop_offset = offset_of(s, p);
  s->type = p < s->end ? (uint8_t)*p : -1;
  s->p = p;
  return why;
}

/* The block ends in the record at p. */
static int cut_at(Spall *s, const char *p) {
  if (s->last) return unreadable(s, p, SPALL_CUT);
  s->p = p;
  return SPALL_MORE;
}

/* Versions 0 and 1. */
static int spall_stream(Spall *s) {
  const char *p = s->p, *end = s->end;
  int one = s->format == SPALL_FORMAT_1;
  int64_t begin_size = one ? 20 : 18;
  uint64_t last_key = 0;
  int32_t code = -1, name;
  while (p < end) {
    int64_t left = end - p;
    int type = (uint8_t)*p;
    if (LIKELY(type == TYPE_BEGIN || type == TYPE_INSTANT)) {
      const char *ids = p + (one ? 2 : 1);
      int64_t name_length, args_length = 0, time_ns;
      uint64_t key;
      if (left < begin_size) return cut_at(s, p);
      name_length = (uint8_t)ids[16];
      if (one) args_length = (uint8_t)ids[17];
      if (left < begin_size + name_length + args_length) return cut_at(s, p);
      /* most records are of the same thread as the one before */
      key = load8(ids);
      if (key != last_key || code < 0) {
        code = spall_thread(s, load4(ids), load4(ids + 4));
        last_key = key;
        if (code < 0) return SPALL_MEMORY;
      }
      time_ns = time_of_double(s, load_double(ids + 8), &s->threads[code]);
      name = intern(&s->names, p + begin_size, (uint32_t)name_length, end);
      if (name < 0) return SPALL_MEMORY;
      if (type == TYPE_BEGIN) {
        if (!span_begin(s, code, time_ns, name, offset_of(s, p + begin_size + name_length),
                        (int32_t)args_length))
          return SPALL_MEMORY;
      } else if (!instant(s, code, time_ns, name, offset_of(s, p + begin_size + name_length),
                          (int32_t)args_length)) {
        return SPALL_MEMORY;
      }
      p += begin_size + name_length + args_length;
    } else if (LIKELY(type == TYPE_END)) {
      uint64_t key;
      if (left < 17) return cut_at(s, p);
      key = load8(p + 1);
      if (key != last_key || code < 0) {
        code = spall_thread(s, load4(p + 1), load4(p + 5));
        last_key = key;
        if (code < 0) return SPALL_MEMORY;
      }
      span_end(s, code, time_of_double(s, load_double(p + 9), &s->threads[code]));
      p += 17;
    } else if (type == TYPE_STREAM_OVER && !one) {
      /* A complete span at any time: not STRUCTURED, so it is nested by its times. */
      int64_t name_length, start_ns, end_ns;
      double ticks;
      if (left < 26) return cut_at(s, p);
      name_length = (uint8_t)p[25];
      if (left < 26 + name_length) return cut_at(s, p);
      last_key = load8(p + 1);
      code = spall_thread(s, load4(p + 1), load4(p + 5));
      if (code < 0) return SPALL_MEMORY;
      if (UNLIKELY(s->spans == s->capacity) && !spall_grow(s, offset_of(s, p))) return SPALL_MEMORY;
      name = intern(&s->names, p + 26, (uint32_t)name_length, end);
      if (name < 0) return SPALL_MEMORY;
      ticks = load_double(p + 9);
      start_ns = time_of_double(s, ticks, &s->threads[code]);
      end_ns = time_of_double(s, ticks + load_double(p + 17), &s->threads[code]);
      if (end_ns < start_ns) {
        s->negatives++;
        end_ns = start_ns;
      }
      s->start_ns[s->spans] = start_ns;
      s->end_ns[s->spans] = end_ns;
      s->args_offset[s->spans] = s->args_length[s->spans] = 0;
      s->thread[s->spans] = code;
      s->name[s->spans] = name;
      s->level[s->spans] = 0;
      s->below[s->spans] = -1;
      s->flags[s->spans++] = 0;
      p += 26 + name_length;
    } else if (type == TYPE_STREAM_OVER) {
      s->trailing += p + 1 < end || !s->last;
      s->p = end;
      return SPALL_DONE;
    } else if (type == TYPE_CUSTOM_DATA || type == TYPE_PAD_SKIP) {
      if (left < 5 || left - 5 < (int64_t)load4(p + 1)) return cut_at(s, p);
      s->skipped++;
      p += 5 + (int64_t)load4(p + 1);
    } else if (type == TYPE_OVERWRITE_TIMESTAMP) {
      if (left < 9) return cut_at(s, p);
      s->skipped++;
      p += 9;
    } else {
      return unreadable(s, p, SPALL_UNKNOWN);
    }
  }
  s->p = p;
  return s->last ? SPALL_DONE : SPALL_MORE;
}

static int process_name(Spall *s, uint32_t pid, const char *name, int32_t length) {
  SpallProcess *list = realloc(s->processes, (size_t)(s->process_count + 1) * sizeof *list);
  if (!list) return 0;
  s->processes = list;
  list[s->process_count].pid = pid;
  list[s->process_count].offset = offset_of(s, name);
  list[s->process_count++].length = length;
  return 1;
}

/* Version 3: one buffer. */
static int spall_buffer(Spall *s, const char *p, const char *stop, int32_t code) {
  const char *end = s->end;
  while (p < stop) {
    int64_t left = stop - p;
    int type = (uint8_t)*p;
    if (LIKELY(type == TYPE_BEGIN || type == TYPE_INSTANT)) {
      int64_t name_length, args_length;
      int32_t name;
      if (left < 11) return unreadable(s, p, SPALL_CUT);
      name_length = (uint8_t)p[9];
      args_length = (uint8_t)p[10];
      if (left < 11 + name_length + args_length) return unreadable(s, p, SPALL_CUT);
      name = intern(&s->names, p + 11, (uint32_t)name_length, end);
      if (name < 0) return SPALL_MEMORY;
      if (type == TYPE_INSTANT) {
        if (!instant(s, code, time_of_ticks(s, load8(p + 1), &s->threads[code]), name,
                     offset_of(s, p + 11 + name_length), (int32_t)args_length))
          return SPALL_MEMORY;
      } else if (!span_begin(s, code, time_of_ticks(s, load8(p + 1), &s->threads[code]), name,
                             offset_of(s, p + 11 + name_length), (int32_t)args_length)) {
        return SPALL_MEMORY;
      }
      p += 11 + name_length + args_length;
    } else if (LIKELY(type == TYPE_END)) {
      if (left < 9) return unreadable(s, p, SPALL_CUT);
      span_end(s, code, time_of_ticks(s, load8(p + 1), &s->threads[code]));
      p += 9;
    } else if (type == TYPE_NAME_PROCESS || type == TYPE_NAME_THREAD) {
      int32_t length;
      if (left < 2) return unreadable(s, p, SPALL_CUT);
      length = (uint8_t)p[1];
      if (left < 2 + length) return unreadable(s, p, SPALL_CUT);
      if (type == TYPE_NAME_PROCESS) {
        if (!process_name(s, s->threads[code].pid, p + 2, length)) return SPALL_MEMORY;
      } else {
        s->threads[code].name_offset = offset_of(s, p + 2);
        s->threads[code].name_length = length;
      }
      p += 2 + length;
    } else if (type == TYPE_PAD_SKIP || type == TYPE_CUSTOM_DATA) {
      if (left < 5 || left - 5 < (int64_t)load4(p + 1)) return unreadable(s, p, SPALL_CUT);
      s->skipped++;
      p += 5 + (int64_t)load4(p + 1);
    } else if (type == TYPE_STREAM_OVER) {
      s->skipped++;
      p += 1;
    } else if (type == TYPE_OVERWRITE_TIMESTAMP) {
      if (left < 9) return unreadable(s, p, SPALL_CUT);
      s->skipped++;
      p += 9;
    } else {
      return unreadable(s, p, SPALL_UNKNOWN);
    }
  }
  s->p = p;
  return SPALL_DONE;
}

static inline uint64_t load_width(const char *p, int width) {
  uint64_t value = 0;
  memcpy(&value, p, (size_t)width);
  return value;
}

/* The name of an address: a byte that no text begins with and its 8 bytes. */
static int32_t address_name(Spall *s, uint64_t address) {
  char key[16] = {(char)0xff};
  memcpy(key + 1, &address, 8);
  return intern(&s->names, key, 9, key + sizeof key);
}

/* Automatic version 3: one buffer of differences. */
static int spall_auto_buffer(Spall *s, const char *p, const char *stop, int32_t code,
                             uint64_t first) {
  uint64_t ticks = first, address = 0, caller = 0;
  while (p < stop) {
    int head = (uint8_t)*p, kind = head >> 6;
    int64_t left = stop - p;
    int time_width, size;
    int32_t name;
    if (kind == 0) {
      int address_width = 1 << ((head >> 2) & 3), caller_width = 1 << (head & 3);
      time_width = 1 << ((head >> 4) & 3);
      size = 1 + time_width + address_width + caller_width;
      if (left < size) return unreadable(s, p, SPALL_CUT);
      /* times are sums of differences, addresses are xor-ed with those of the record before */
      ticks += load_width(p + 1, time_width);
      address ^= load_width(p + 1 + time_width, address_width);
      caller ^= load_width(p + 1 + time_width + address_width, caller_width);
      name = address_name(s, address);
      if (name < 0) return SPALL_MEMORY;
      if (!span_begin(s, code, time_of_ticks(s, ticks, &s->threads[code]), name,
                      offset_of(s, p), 0))
        return SPALL_MEMORY;
      p += size;
    } else if (kind == 1) {
      time_width = 1 << ((head >> 4) & 3);
      if (left < 1 + time_width) return unreadable(s, p, SPALL_CUT);
      ticks += load_width(p + 1, time_width);
      span_end(s, code, time_of_ticks(s, ticks, &s->threads[code]));
      p += 1 + time_width;
    } else if (kind == 2 && ((head >> 4) & 3) == 1) {
      int name_width = 1 << ((head >> 1) & 1), args_width = 1 << (head & 1);
      int64_t name_length, args_length;
      time_width = 1 << ((head >> 2) & 3);
      size = 1 + time_width + name_width + args_width;
      if (left < size) return unreadable(s, p, SPALL_CUT);
      name_length = (int64_t)load_width(p + 1 + time_width, name_width);
      args_length = (int64_t)load_width(p + 1 + time_width + name_width, args_width);
      if (left < size + name_length + args_length) return unreadable(s, p, SPALL_CUT);
      ticks += load_width(p + 1, time_width);
      name = intern(&s->names, p + size, (uint32_t)name_length, s->end);
      if (name < 0) return SPALL_MEMORY;
      if (!span_begin(s, code, time_of_ticks(s, ticks, &s->threads[code]), name,
                      offset_of(s, p + size + name_length), (int32_t)args_length))
        return SPALL_MEMORY;
      p += size + name_length + args_length;
    } else {
      return unreadable(s, p, SPALL_UNKNOWN);
    }
  }
  s->p = p;
  return SPALL_DONE;
}

static int spall_buffers(Spall *s) {
  int automatic = s->format == SPALL_FORMAT_AUTO;
  while (s->p < s->end) {
    const char *header = s->p, *body, *stop;
    int64_t size;
    int32_t code;
    int result, cut;
    /* size, tid, pid, first time; or size, tid, first time, depth */
    if (s->end - header < 20) return cut_at(s, header);
    size = load4(header);
    body = header + 20;
    cut = size > s->end - body;
    if (cut && !s->last) return SPALL_MORE;
    /* only the last buffer of the text: what there is of it is read */
    stop = cut ? s->end : body + size;
    code = spall_thread(s, automatic ? 0 : load4(header + 8), load4(header + 4));
    if (code < 0) return SPALL_MEMORY;
    result = automatic ? spall_auto_buffer(s, body, stop, code, load8(header + 8))
                       : spall_buffer(s, body, stop, code);
    if (result == SPALL_MEMORY) return result;
    if (result != SPALL_DONE && !cut) {
      /* a record that does not fit into its buffer is handled as one of unknown type */
      if (!s->lenient) return SPALL_UNKNOWN;
      s->bad_buffers++;
      s->p = stop;
      continue;
    }
    if (result != SPALL_DONE) return result;
    if (cut) return unreadable(s, s->end, SPALL_CUT);
  }
  return s->last ? SPALL_DONE : SPALL_MORE;
}

/* Spans that are still open end with their thread. */
static int64_t spall_close(Spall *s) {
  int64_t i, unfinished = 0;
  for (i = 0; i < s->thread_count; i++) {
    SpallThread *thread = &s->threads[i];
    int32_t top = thread->top;
    for (; top >= 0; top = s->below[top]) {
      s->flags[top] |= SPAN_UNFINISHED;
      if (thread->last_ns > s->start_ns[top]) s->end_ns[top] = thread->last_ns;
      unfinished++;
    }
  }
  /* where time went backwards, begins and ends do not determine the nesting */
  for (i = 0; i < s->spans; i++)
    if (UNLIKELY(s->threads[s->thread[i]].backwards)) {
      s->flags[i] &= (uint8_t)~SPAN_STRUCTURED;
      s->level[i] = 0;
    }
  return unfinished;
}

/* Copies n rows column by column; those of one table do not overlap. */
static void spall_copy(const Spall *from, int64_t i, Spall *to, int64_t j, int64_t n) {
  size_t words = (size_t)n * 8, halves = (size_t)n * 4;
  memcpy(to->start_ns + j, from->start_ns + i, words);
  memcpy(to->end_ns + j, from->end_ns + i, words);
  memcpy(to->args_offset + j, from->args_offset + i, words);
  memcpy(to->args_length + j, from->args_length + i, halves);
  memcpy(to->thread + j, from->thread + i, halves);
  memcpy(to->name + j, from->name + i, halves);
  memcpy(to->level + j, from->level + i, halves);
  memcpy(to->flags + j, from->flags + i, (size_t)n);
}

/* Moves instants, and the spans that have ended, to `out`, which is empty; with `all` every span.
 * A span that began when one began that is still open stays: spans that began at one time are in
 * the order in which they began, which could not be found later. */
static int spall_take(Spall *s, Spall *out, int all) {
  int64_t i, taken = 0, kept = 0;
  int32_t *index;
  int64_t *open_ns;
  out->instant_ns = s->instant_ns;
  out->instant_thread = s->instant_thread;
  out->instant_name = s->instant_name;
  out->instant_args_offset = s->instant_args_offset;
  out->instant_args_length = s->instant_args_length;
  out->instants = s->instants;
  s->instant_ns = s->instant_args_offset = NULL;
  s->instant_thread = s->instant_name = s->instant_args_length = NULL;
  s->instants = s->instants_capacity = 0;
  if (all || !s->spans) {
    out->start_ns = s->start_ns; out->end_ns = s->end_ns; out->args_offset = s->args_offset;
    out->thread = s->thread; out->name = s->name; out->level = s->level;
    out->args_length = s->args_length; out->flags = s->flags;
    out->spans = s->spans;
    s->start_ns = s->end_ns = s->args_offset = NULL;
    s->thread = s->name = s->level = s->args_length = NULL;
    s->flags = NULL;
    s->spans = s->capacity = 0;
    return 1;
  }
  index = calloc((size_t)s->spans, sizeof *index);
  open_ns = malloc((size_t)(s->thread_count ? s->thread_count : 1) * sizeof *open_ns);
  if (!index || !open_ns) {
    free(index);
    free(open_ns);
    return 0;
  }
  for (i = 0; i < s->thread_count; i++) {
    int32_t top = s->threads[i].top;
    open_ns[i] = INT64_MIN;
    for (; top >= 0; top = s->below[top]) index[top] = 1;
  }
  for (i = 0; i < s->spans; i++) {
    int64_t *began = &open_ns[s->thread[i]];
    if (index[i]) *began = s->start_ns[i];
    else if (s->start_ns[i] == *began) index[i] = 1;
    else taken++;
  }
  free(open_ns);
  if (!spall_room(out, taken ? taken : 1)) {
    free(index);
    return 0;
  }
  for (i = 0; i < s->spans; i++) {
    if (index[i]) {
      /* what is below an open span is open, and was moved before it */
      int32_t below = s->below[i];
      if (kept < i) spall_copy(s, i, s, kept, 1);
      s->below[kept] = below < 0 ? -1 : index[below];
      index[i] = (int32_t)kept++;
    } else {
      /* most rows are between two that stay */
      int64_t stop = i + 1;
      while (stop < s->spans && !index[stop]) stop++;
      spall_copy(s, i, out, out->spans, stop - i);
      out->spans += stop - i;
      i = stop - 1;
    }
  }
  for (i = 0; i < s->thread_count; i++)
    if (s->threads[i].top >= 0) s->threads[i].top = index[s->threads[i].top];
  free(index);
  s->spans = kept;
  return 1;
}

/* Reads a block. SPALL_MORE asks for the one that begins at s->p, which has to be larger than this
 * one if that is where this one begins. */
static int spall_scan(Spall *s, const char *block, int64_t origin, int64_t size) {
  s->base = s->p = block;
  s->end = block + size;
  s->origin = origin;
  s->last = origin + size >= s->total;
  return s->format == SPALL_FORMAT_0 || s->format == SPALL_FORMAT_1 ? spall_stream(s)
                                                                    : spall_buffers(s);
}

#endif
