/* Lines of strace into columns of calls and events.
 *
 *     line = [pid] [time] [(+ since the line before)] [[number]] [[address]] body
 *     body = name(arguments) = result [ERROR (text)] [<seconds>]
 *          | name(arguments <unfinished ...> | <... name resumed>arguments) = result ...
 *          | --- SIGNAL {...} --- | +++ exited with 0 +++
 *
 * Strings in arguments may contain what ends a call, so a call's end is looked for outside of them.
 */
#ifndef MEANTIME_STRACE_SCAN_H
#define MEANTIME_STRACE_SCAN_H

#include "growing.h"

/* Later times cannot be drawn. */
#define STRACE_LAST_NS (INT64_MAX / 2)
#define STRACE_SECOND 1000000000LL
#define STRACE_DAY (86400 * STRACE_SECOND)

enum { STRACE_NO_TIME, STRACE_EPOCH, STRACE_OF_DAY, STRACE_RELATIVE };

enum {
  STRACE_UNFINISHED = 1, /* it was seen to begin only */
  STRACE_NO_END = 2,     /* when it returned is unknown; its end is its begin */
};

enum { STRACE_SIGNAL, STRACE_EXIT, STRACE_NAME, STRACE_CHILD, STRACE_WAITED, STRACE_KILL };

/* What is known of the calls of a name. */
enum {
  STRACE_KNOWN = 1,
  STRACE_EXEC = 2,     /* the first string is the program; the rest is private */
  STRACE_DATA = 4,     /* strings are data, which are private */
  STRACE_CLONE = 8,
  STRACE_WAIT = 16,
  STRACE_RENAME = 32,
  STRACE_GETPID = 64,
  STRACE_SENDS = 128,  /* signals */
  STRACE_GETTID = 256,
};

/* Of longer arguments the beginning is kept. */
#define STRACE_MOST_ARGUMENTS 1000

typedef struct {
  int64_t begin_ns, end_ns, offset;
  int32_t thread, name, error, length;
  int32_t flags;
} StraceCall;

typedef struct {
  int64_t time_ns, number, offset;
  int32_t kind, thread, name, length;
} StraceEvent;

typedef struct {
  int64_t tid;    /* -1 if it is unknown */
  int64_t parent; /* its index, -1 if it is unknown */
  int64_t pid;    /* as getpid returned it, -1 if it is unknown */
  int64_t first_ns, last_ns, exit_ns, cloned_ns; /* -1 if unknown */
  uint8_t shares_process, seen, alive, announced, leads;
  /* the call that has not returned */
  uint8_t open, moved;
  uint8_t cut, done, shares; /* of its arguments */
  int32_t name, label;
  int64_t begin_ns;
  char *text;
  uint32_t text_bytes;
} StraceThread;

typedef struct {
  int mode, decimals, coarse, in_summary, attached_open;
  int64_t clock_ns, days_ns, first_ns, last_ns;
  StraceCall *calls;
  int64_t call_count, call_room;
  StraceEvent *events;
  int64_t event_count, event_room;
  char *text;
  int64_t text_bytes, text_room, text_base;
  StraceThread *threads;
  int64_t thread_count, thread_room, alive_count;
  int64_t alive; /* the indices of those that are alive, combined by xor: that of a single one */
  int32_t *kinds; /* of names, by code */
  int32_t kinds_room;
  intern_table names, tids;
  int64_t current; /* the thread of the lines without an id; -1 if none has been seen */
  int failed;      /* there is no memory */
  int with_commands; /* what programs were given is not left out */
  int64_t records, unknown, timeless, stacks, summary, private_fields, out_of_range;
  int64_t without_end, resumed_alone, unfinished, truncated;
} Strace;

static int strace_init(Strace *s, uint64_t seed) {
  memset(s, 0, sizeof *s);
  s->first_ns = s->last_ns = s->current = -1;
  return strings_init(&s->names, seed) && strings_init(&s->tids, seed);
}

static void strace_free(Strace *s) {
  int64_t i;
  for (i = 0; i < s->thread_count; i++) free(s->threads[i].text);
  free(s->calls);
  free(s->events);
  free(s->text);
  free(s->threads);
  free(s->kinds);
  intern_free(&s->names);
  intern_free(&s->tids);
  memset(s, 0, sizeof *s);
}

static const char strace_detached[] = "detached";
#define STRACE_DETACHED_END (strace_detached + sizeof strace_detached - 1)

static inline int strace_digit(char c) { return (unsigned char)(c - '0') < 10; }
static inline int strace_name_char(char c) {
  return ((unsigned char)((c | 32) - 'a') < 26) || strace_digit(c) || c == '_' || c == '?';
}
static inline const char *strace_blanks(const char *p, const char *end) {
  while (p < end && *p == ' ') p++;
  return p;
}
static inline int strace_begins(const char *p, const char *end, const char *with) {
  size_t size = strlen(with);
  return (size_t)(end - p) >= size && memcmp(p, with, size) == 0;
}
static inline int strace_ends(const char *p, const char *end, const char *with) {
  size_t size = strlen(with);
  return (size_t)(end - p) >= size && memcmp(end - size, with, size) == 0;
}

/* Reads digits; more than 18 of them are -1. */
static const char *strace_integer(const char *p, const char *end, int64_t *value) {
  const char *first = p;
  int64_t found = 0;
  while (p < end && strace_digit(*p)) {
    if (p - first < 18) found = found * 10 + (*p - '0');
    p++;
  }
  *value = p - first > 18 || p == first ? -1 : found;
  return p;
}

/* Reads seconds with or without a fraction; NULL if there are none. *ns is -1 if out of range. */
static const char *strace_seconds(const char *p, const char *end, int64_t *ns, int *digits) {
  int64_t seconds, scale = STRACE_SECOND;
  const char *first = p;
  p = strace_integer(p, end, &seconds);
  if (p == first) return NULL;
  *digits = 0;
  *ns = seconds < 0 || seconds > STRACE_LAST_NS / STRACE_SECOND - 1 ? -1 : seconds * STRACE_SECOND;
  if (p + 1 < end && *p == '.' && strace_digit(p[1])) {
    for (p++; p < end && strace_digit(*p); p++, (*digits)++)
      if (scale > 1) {
        scale /= 10;
        if (*ns >= 0) *ns += (*p - '0') * scale;
      }
  }
  return p;
}

static inline int32_t strace_intern(Strace *s, const char *at, const char *end) {
  intern_text key = intern_text_of(at, (size_t)(end - at));
  int32_t code = intern_find(&s->names, &key, 0);
  if (code < 0) code = intern_add(&s->names, &key, 0);
  if (code < 0) {
    s->failed = 1;
    return 0;
  }
  return code;
}

static int strace_is(const char *at, size_t size, const char *const *words) {
  for (; *words; words++)
    if (strlen(*words) == size && memcmp(*words, at, size) == 0) return 1;
  return 0;
}

static int strace_kind_of(const char *at, size_t size) {
  static const char *const exec[] = {"execve", "execveat", NULL};
  static const char *const clones[] = {"clone", "clone2", "clone3", "fork", "vfork", NULL};
  static const char *const waits[] = {"wait4", "waitpid", NULL};
  static const char *const sends[] = {"kill", "tkill", "tgkill", "rt_sigqueueinfo",
                                      "rt_tgsigqueueinfo", "pidfd_send_signal", NULL};
  static const char *const tids[] = {"gettid", "set_tid_address", NULL};
  static const char *const pids[] = {"getpid", NULL};
  static const char *const renames[] = {"prctl", NULL};
  static const char *const paths[] = {"readlink", "readlinkat", "readahead", "getsockname", NULL};
  /* what these read, write, send or set is data: contents of files, requests, keys */
  static const char *const data[] = {"read", "pread", "write", "pwrite", "recv", "send", "process_vm",
                                     "msg", "mq_", "vmsplice", "setxattr", "lsetxattr", "fsetxattr",
                                     "getxattr", "lgetxattr", "fgetxattr", "add_key", "keyctl",
                                     "request_key", "getrandom", "ioctl", "setsockopt", "getsockopt",
                                     "bpf", "io_", "sethostname", "syslog", NULL};
  const char *const *word;
  if (strace_is(at, size, exec)) return STRACE_KNOWN | STRACE_EXEC;
  if (strace_is(at, size, clones)) return STRACE_KNOWN | STRACE_CLONE;
  if (strace_is(at, size, waits)) return STRACE_KNOWN | STRACE_WAIT;
  if (strace_is(at, size, sends)) return STRACE_KNOWN | STRACE_SENDS;
  if (strace_is(at, size, tids)) return STRACE_KNOWN | STRACE_GETTID;
  if (strace_is(at, size, pids)) return STRACE_KNOWN | STRACE_GETPID;
  if (strace_is(at, size, renames)) return STRACE_KNOWN | STRACE_RENAME;
  if (strace_is(at, size, paths)) return STRACE_KNOWN;
  for (word = data; *word; word++)
    if (strlen(*word) <= size && memcmp(*word, at, strlen(*word)) == 0) return STRACE_KNOWN | STRACE_DATA;
  return STRACE_KNOWN;
}

/* The code of a call's name, with what is known of it. */
static int32_t strace_call_name(Strace *s, const char *at, const char *end, int *kind) {
  int32_t code = strace_intern(s, at, end);
  if (code >= s->kinds_room) {
    int32_t room = code < 256 ? 1024 : code * 2;
    int32_t *grown = realloc(s->kinds, (size_t)room * sizeof *grown);
    if (!grown) {
      s->failed = 1;
      *kind = STRACE_KNOWN;
      return code;
    }
    memset(grown + s->kinds_room, 0, (size_t)(room - s->kinds_room) * sizeof *grown);
    s->kinds = grown;
    s->kinds_room = room;
  }
  if (!s->kinds[code]) s->kinds[code] = strace_kind_of(at, (size_t)(end - at));
  *kind = s->kinds[code];
  return code;
}

static int64_t strace_new_thread(Strace *s, int64_t tid) {
  StraceThread *t;
  if (s->thread_count == s->thread_room) {
    int64_t room = s->thread_room ? 2 * s->thread_room : 64;
    if (room > MOST_ROWS || !column_grow((void **)&s->threads, room, sizeof *s->threads)) {
      s->failed = 1;
      return -1;
    }
    s->thread_room = room;
  }
  t = &s->threads[s->thread_count];
  memset(t, 0, sizeof *t);
  t->tid = tid;
  t->parent = t->pid = t->first_ns = t->last_ns = t->exit_ns = t->cloned_ns = -1;
  t->label = t->name = -1;
  return s->thread_count++;
}

/* The index of the thread with an id, -1 if there is none; adds it if `add`. The codes of ids in
 * their table are in `number` order, and a thread without an id is not in it. */
static int64_t strace_thread_of(Strace *s, int64_t tid, int add) {
  /* the table has id and index in one text: the id finds it, its context is 0 */
  intern_text key = intern_text_of((const char *)&tid, sizeof tid);
  int32_t code = intern_find(&s->tids, &key, 0);
  int64_t thread;
  if (code >= 0) return s->tids.contexts[code];
  if (!add) return -1;
  thread = strace_new_thread(s, tid);
  if (thread < 0) return -1;
  code = intern_add(&s->tids, &key, 0);
  if (code < 0) {
    s->failed = 1;
    return -1;
  }
  s->tids.contexts[code] = (uint32_t)thread;
  return thread;
}

static void strace_bind(Strace *s, int64_t thread, int64_t tid) {
  intern_text key = intern_text_of((const char *)&tid, sizeof tid);
  int32_t code;
  if (intern_find(&s->tids, &key, 0) >= 0) return;
  code = intern_add(&s->tids, &key, 0);
  if (code < 0) {
    s->failed = 1;
    return;
  }
  s->tids.contexts[code] = (uint32_t)thread;
  s->threads[thread].tid = tid;
}

static void strace_revive(Strace *s, int64_t thread) {
  StraceThread *t = &s->threads[thread];
  if (!t->alive) {
    t->alive = 1;
    s->alive_count++;
    s->alive ^= thread;
  }
}

static void strace_announce(Strace *s, int64_t tid) {
  int64_t thread;
  if (tid <= 0) return;
  thread = strace_thread_of(s, tid, 1);
  if (thread < 0) return;
  s->threads[thread].announced = 1;
  strace_revive(s, thread);
}

/* The thread of a line with an id. */
static int64_t strace_numbered(Strace *s, int64_t tid, int is_resumed) {
  int64_t thread = strace_thread_of(s, tid, 0);
  StraceThread *t;
  if (thread >= 0) return thread;
  /* the first thread has no id while it is alone */
  if (s->current >= 0 && s->threads[s->current].tid < 0) {
    t = &s->threads[s->current];
    if (!(t->open && !is_resumed && s->kinds[t->name] & STRACE_CLONE)) {
      strace_bind(s, s->current, tid);
      return s->current;
    }
  }
  return strace_thread_of(s, tid, 1);
}

/* The thread of a line without an id: the only one that is left. */
static int64_t strace_unnumbered(Strace *s) {
  if (s->current >= 0)
    return s->current = s->alive_count == 1 && !s->threads[s->current].alive ? s->alive : s->current;
  return s->current = s->alive_count == 1 ? s->alive : strace_new_thread(s, -1);
}

/* Makes room for the text of one line and some more; each byte takes at most 6. */
static int strace_room(Strace *s, int64_t bytes) {
  if (s->text_bytes + bytes > s->text_room) {
    int64_t room = 2 * (s->text_bytes + bytes) + (1 << 16);
    if (!column_grow((void **)&s->text, room, 1)) {
      s->failed = 1;
      return 0;
    }
    s->text_room = room;
  }
  return 1;
}

/* Adds text as the inside of a JSON string. */
static void strace_escape(Strace *s, const char *p, const char *end) {
  static const char hex[] = "0123456789abcdef";
  char *to;
  if (!strace_room(s, 6 * (end - p))) return;
  to = s->text + s->text_bytes;
  for (; p < end; p++) {
    unsigned char c = (unsigned char)*p;
    if (UNLIKELY(c == '"' || c == '\\')) {
      *to++ = '\\';
      *to++ = (char)c;
    } else if (UNLIKELY(c < 32)) {
      memcpy(to, "\\u00", 4);
      to[4] = hex[c >> 4];
      to[5] = hex[c & 15];
      to += 6;
    } else {
      *to++ = (char)c;
    }
  }
  s->text_bytes = to - s->text;
}

static void strace_plain(Strace *s, const char *text) {
  size_t size = strlen(text);
  if (!strace_room(s, (int64_t)size)) return;
  memcpy(s->text + s->text_bytes, text, size);
  s->text_bytes += (int64_t)size;
}

/* Adds arguments without what is private, as the inside of a JSON string. Returns whether anything
 * was left out. `done`: the rest is private, too. */
static int strace_arguments(Strace *s, const char *p, const char *end, int kind, uint8_t *cut, uint8_t *done) {
  const char *first, *quote;
  int64_t begun = s->text_bytes;
  int private = 0;
  if (*done) return p < end;
  if (s->with_commands) kind &= ~STRACE_EXEC;
  if (end - p > STRACE_MOST_ARGUMENTS && !(kind & (STRACE_EXEC | STRACE_DATA))) {
    end = p + STRACE_MOST_ARGUMENTS;
    *cut = 1;
  }
  if (!(kind & (STRACE_EXEC | STRACE_DATA))) {
    strace_escape(s, p, end);
    return 0;
  }
  first = p;
  while (p < end) {
    quote = memchr(p, '"', (size_t)(end - p));
    if (!quote) break;
    for (p = quote + 1; p < end && *p != '"'; p++)
      if (*p == '\\') p++;
    p = p < end ? p + 1 : end;
    if (kind & STRACE_EXEC) {
      strace_escape(s, first, p < first + STRACE_MOST_ARGUMENTS ? p : first + STRACE_MOST_ARGUMENTS);
      if (p < end) strace_plain(s, ", ...");
      *done = 1;
      return p < end;
    }
    if (p - quote > 2) {
      strace_escape(s, first, quote);
      strace_plain(s, "\\\"...\\\"");
      private = 1;
    } else {
      strace_escape(s, first, p);
    }
    first = p;
    if (s->text_bytes - begun > STRACE_MOST_ARGUMENTS) {
      *cut = *done = 1;
      return private;
    }
  }
  if (end - first > STRACE_MOST_ARGUMENTS) {
    end = first + STRACE_MOST_ARGUMENTS;
    *cut = 1;
  }
  strace_escape(s, first, end);
  return private;
}

static StraceEvent *strace_event(Strace *s, int kind, int64_t thread, int64_t time_ns) {
  StraceEvent *e;
  if (s->event_count == s->event_room) {
    int64_t room = s->event_room ? 2 * s->event_room : 256;
    if (room > MOST_ROWS || !column_grow((void **)&s->events, room, sizeof *s->events)) {
      s->failed = 1;
      return NULL;
    }
    s->event_room = room;
  }
  e = &s->events[s->event_count++];
  memset(e, 0, sizeof *e);
  e->kind = kind;
  e->thread = (int32_t)thread;
  e->time_ns = time_ns;
  e->number = e->name = -1;
  return e;
}

static StraceCall *strace_call(Strace *s, int64_t thread, int32_t name, int64_t begin_ns, int64_t end_ns) {
  StraceCall *c;
  StraceThread *t = &s->threads[thread];
  if (s->call_count == s->call_room) {
    int64_t room = s->call_room ? 2 * s->call_room : 4096;
    if (room > MOST_ROWS || !column_grow((void **)&s->calls, room, sizeof *s->calls)) {
      s->failed = 1;
      return NULL;
    }
    s->call_room = room;
  }
  c = &s->calls[s->call_count++];
  c->begin_ns = begin_ns;
  c->end_ns = end_ns;
  c->thread = (int32_t)thread;
  c->name = name;
  c->error = -1;
  c->flags = 0;
  c->offset = 0;
  c->length = 0;
  if (end_ns > t->last_ns) t->last_ns = end_ns;
  if (end_ns > s->last_ns) s->last_ns = end_ns;
  return c;
}

/* Ends the call of a thread that was not seen to return. */
static void strace_break(Strace *s, int64_t thread, int64_t end_ns, int flags) {
  StraceThread *t = &s->threads[thread];
  StraceCall *c;
  if (!t->open) return;
  t->open = 0;
  c = strace_call(s, thread, t->name, t->begin_ns, end_ns < t->begin_ns ? t->begin_ns : end_ns);
  if (!c) return;
  c->flags = flags;
  c->offset = s->text_base + s->text_bytes;
  strace_plain(s, "{\"arguments\":\"");
  if (strace_room(s, t->text_bytes) && t->text_bytes) {
    memcpy(s->text + s->text_bytes, t->text, t->text_bytes);
    s->text_bytes += t->text_bytes;
  }
  strace_plain(s, "\"}");
  c->length = (int32_t)(s->text_base + s->text_bytes - c->offset);
}

static void strace_exit(Strace *s, int64_t thread, int64_t time_ns, const char *at, const char *end) {
  StraceThread *t = &s->threads[thread];
  StraceEvent *e;
  /* what never returns lasts until then */
  strace_break(s, thread, time_ns, 0);
  e = strace_event(s, STRACE_EXIT, thread, time_ns);
  if (!e) return;
  e->name = strace_intern(s, at, end);
  t = &s->threads[thread];
  t->exit_ns = time_ns;
  if (t->alive) {
    t->alive = 0;
    s->alive_count--;
    s->alive ^= thread;
  }
}

/* Where the `)` of a call is, outside of strings: the last that ` = ` follows. NULL if none does. */
static const char *strace_close(const char *p, const char *end, const char **value) {
  const char *found = NULL, *next;
  while (p < end) {
    char c = *p;
    if (LIKELY(c != '"' && c != ')' && c != '\\')) {
      p++;
    } else if (c == '"') {
      for (p++; p < end && *p != '"'; p++)
        if (*p == '\\') p++;
      p++;
    } else if (c == '\\') {
      p += 2;
    } else {
      next = strace_blanks(p + 1, end);
      if (next > p + 1 && next + 1 < end && next[0] == '=' && next[1] == ' ') {
        found = p;
        *value = next + 2;
        p = next + 2;
      } else {
        p++;
      }
    }
  }
  return found;
}

/* The last part of the first string: what a program is called. -1 if there is none. */
static int32_t strace_label(Strace *s, const char *p, const char *end, int last_part) {
  const char *first = memchr(p, '"', (size_t)(end - p)), *at;
  if (!first) return -1;
  for (at = ++first; at < end && *at != '"'; at++) {
    if (*at == '/' && last_part) first = at + 1;
    if (*at == '\\') at++;
  }
  if (at >= end || at <= first || at - first > 255) return -1;
  return strace_intern(s, first, at);
}

static int strace_has(const char *p, const char *end, const char *word) {
  size_t size = strlen(word);
  while (p < end && (p = memchr(p, word[0], (size_t)(end - p))) != NULL) {
    if ((size_t)(end - p) < size) return 0;
    if (memcmp(p, word, size) == 0) return 1;
    p++;
  }
  return 0;
}

/* What a call that returned says about threads. */
static void strace_learn(Strace *s, int64_t thread, int kind, const StraceCall *call, int32_t label,
                         int shares, const char *value, const char *end) {
  int64_t number;
  StraceEvent *e;
  strace_integer(value, end, &number);
  if (kind & STRACE_EXEC) {
    if (number == 0) {
      s->threads[thread].leads = 1;
      if (label >= 0 && (e = strace_event(s, STRACE_NAME, thread, call->end_ns))) e->name = label;
    }
  } else if (kind & STRACE_RENAME) {
    if (number == 0 && label >= 0 && (e = strace_event(s, STRACE_NAME, thread, call->end_ns))) e->name = label;
  } else if (kind & STRACE_CLONE) {
    if (number > 0) {
      int64_t child, time_ns = call->begin_ns;
      if (s->threads[thread].tid == number) return;
      child = strace_thread_of(s, number, 1);
      if (child < 0 || child == thread || s->threads[child].parent >= 0) return;
      s->threads[child].parent = thread;
      s->threads[child].cloned_ns = time_ns;
      s->threads[child].shares_process = (uint8_t)shares;
      s->threads[child].announced = 1;
      if (s->threads[child].exit_ns < 0) strace_revive(s, child);
      if ((e = strace_event(s, STRACE_CHILD, thread, time_ns))) e->number = child;
    }
  } else if (kind & STRACE_WAIT) {
    if (number > 0 && (e = strace_event(s, STRACE_WAITED, thread, call->end_ns))) e->number = number;
  } else if (kind & STRACE_GETPID) {
    if (number > 0) s->threads[thread].pid = number;
  } else if (kind & STRACE_GETTID) {
    if (number > 0 && s->threads[thread].tid < 0) strace_bind(s, thread, number);
  } else if (kind & STRACE_SENDS) {
    if ((e = strace_event(s, STRACE_KILL, thread, call->begin_ns))) e->number = s->call_count - 1;
  }
}

/* The seconds at the end of a call: their begin, or `end` if there are none. */
static const char *strace_length(const char *p, const char *end, int64_t *ns) {
  const char *at = end - 1;
  int digits;
  *ns = -1;
  if (end - p < 4 || *at != '>') return end;
  while (at > p && (strace_digit(at[-1]) || at[-1] == '.')) at--;
  if (at == end - 1 || at - 2 < p || at[-1] != '<' || at[-2] != ' ') return end;
  if (strace_seconds(at, end - 1, ns, &digits) != end - 1) {
    *ns = -1;
    return end;
  }
  return at - 2;
}

/* Begins a call whose end is on another line. */
static void strace_open(Strace *s, int64_t thread, int32_t name, int kind, int64_t time_ns, const char *p,
                        const char *end) {
  StraceThread *t;
  int64_t before = s->text_bytes;
  uint8_t cut = 0, done = 0;
  uint32_t size;
  char *grown;
  s->private_fields += strace_arguments(s, p, end, kind, &cut, &done);
  t = &s->threads[thread];
  size = (uint32_t)(s->text_bytes - before);
  if (size > t->text_bytes || !t->text) {
    grown = realloc(t->text, size + 1);
    if (!grown) {
      s->failed = 1;
      return;
    }
    t->text = grown;
  }
  if (size) memcpy(t->text, s->text + before, size);
  t->text_bytes = size;
  s->text_bytes = before;
  t->open = 1;
  t->moved = 0;
  t->name = name;
  t->begin_ns = time_ns;
  t->cut = cut;
  t->done = done;
  t->label = kind & (STRACE_EXEC | STRACE_RENAME) && !(kind & STRACE_RENAME && !strace_has(p, end, "PR_SET_NAME"))
                 ? strace_label(s, p, end, (kind & STRACE_EXEC) != 0)
                 : -1;
  t->shares = (uint8_t)(kind & STRACE_CLONE && strace_has(p, end, "CLONE_THREAD"));
  if (time_ns > t->last_ns) t->last_ns = time_ns;
  if (time_ns > s->last_ns) s->last_ns = time_ns;
}

/* Adds the call that is complete on this line, or with it. */
static void strace_complete(Strace *s, int64_t thread, int32_t name, int kind, int64_t begin_ns, int64_t end_ns,
                            int flags, const char *p, const char *close, const char *value, const char *end,
                            int resumed) {
  StraceCall *c = strace_call(s, thread, name, begin_ns, end_ns);
  StraceThread *t = &s->threads[thread];
  uint8_t cut = resumed ? t->cut : 0, done = resumed ? t->done : 0;
  int32_t label = resumed ? t->label : -1;
  int shares = resumed && t->shares, private = 0;
  const char *last, *word;
  int64_t index;
  if (!c) return;
  index = s->call_count - 1;
  c->flags = flags;
  c->offset = s->text_base + s->text_bytes;
  strace_plain(s, "{\"arguments\":\"");
  if (resumed && t->text_bytes && strace_room(s, t->text_bytes)) {
    memcpy(s->text + s->text_bytes, t->text, t->text_bytes);
    s->text_bytes += t->text_bytes;
  }
  private = strace_arguments(s, p, close, kind, &cut, &done);
  s->private_fields += private;
  if (cut) strace_plain(s, "...");
  last = value;
  while (last < end && *last != ' ') last++;
  if (last - value > STRACE_MOST_ARGUMENTS) last = value + STRACE_MOST_ARGUMENTS;
  strace_plain(s, "\",\"result\":\"");
  strace_escape(s, value, last);
  if (last - value == 2 && value[0] == '-' && value[1] == '1' && last + 1 < end && last[1] == 'E') {
    for (word = last + 1; word < end && *word != ' ';) word++;
    if (word - last < 40) s->calls[index].error = strace_intern(s, last + 1, word);
    strace_plain(s, "\",\"error\":\"");
    strace_escape(s, last + 1, end - last > 200 ? last + 200 : end);
  } else if (strace_blanks(last, end) < end && !(kind & (STRACE_EXEC | STRACE_DATA))) {
    last = strace_blanks(last, end);
    strace_plain(s, "\",\"meaning\":\"");
    strace_escape(s, last, end - last > 200 ? last + 200 : end);
  }
  strace_plain(s, "\"}");
  s->calls[index].length = (int32_t)(s->text_base + s->text_bytes - s->calls[index].offset);
  if (kind != STRACE_KNOWN && kind != (STRACE_KNOWN | STRACE_DATA)) {
    if (!resumed) {
      if (kind & STRACE_EXEC) label = strace_label(s, p, close, 1);
      if (kind & STRACE_RENAME && strace_has(p, close, "PR_SET_NAME")) label = strace_label(s, p, close, 0);
      shares = kind & STRACE_CLONE && strace_has(p, close, "CLONE_THREAD");
    }
    strace_learn(s, thread, kind, &s->calls[index], label, shares, value, end);
  }
}

/* The time of a line. Returns 0 if it is out of range. */
static int strace_clock(Strace *s, int mode, int64_t ns, int64_t *time_ns) {
  if (ns < 0) return 0;
  if (mode == STRACE_RELATIVE) {
    if (s->clock_ns > STRACE_LAST_NS - ns) return 0;
    *time_ns = s->clock_ns += ns;
    return 1;
  }
  if (mode == STRACE_OF_DAY) {
    if (ns + STRACE_DAY / 2 < s->clock_ns) s->days_ns += STRACE_DAY;
    s->clock_ns = ns;
    ns += s->days_ns;
    if (ns > STRACE_LAST_NS) return 0;
  }
  *time_ns = ns;
  return 1;
}

/* Reads `strace: Process N attached`; the id, or -1. */
static int64_t strace_attached(const char *p, const char *end) {
  int64_t tid;
  const char *next;
  if (strace_begins(p, end, "strace: ")) p += 8;
  if (!strace_begins(p, end, "Process ")) return -1;
  next = strace_integer(p + 8, end, &tid);
  return strace_begins(next, end, " attached") ? tid : -1;
}

static void strace_line(Strace *s, const char *p, const char *end) {
  const char *body, *at, *close, *value, *tail;
  int64_t tid = -1, number, ns = -1, time_ns = 0, length_ns, thread;
  int mode = STRACE_NO_TIME, digits = 0, kind, resumed;
  int32_t name;
  if (p < end && end[-1] == '\r') end--;
  if (p == end) return;
  if (*p == ' ' && p + 1 < end && (p[1] == '>')) {
    s->stacks++;
    return;
  }
  if (*p == '%' && strace_begins(p, end, "% time")) s->in_summary = 1;
  if (strace_begins(p, end, "[pid ")) {
    at = strace_blanks(p + 5, end);
    at = strace_integer(at, end, &tid);
    if (at < end && *at == '<') at = (at = memchr(at, '>', (size_t)(end - at))) ? at + 1 : end;
    if (tid <= 0 || at == end || *at != ']') goto unknown;
    p = strace_blanks(at + 1, end);
  } else if (strace_digit(*p)) {
    at = strace_integer(p, end, &number);
    /* nine digits and more are seconds */
    if (at - p >= 9) number = -1;
    if (at < end && *at == '<') at = (at = memchr(at, '>', (size_t)(end - at))) ? at + 1 : end;
    if (at < end && *at == ' ' && number >= 0) {
      tid = number;
      if (tid <= 0) goto unknown;
      p = at + 1;
    }
  }
  p = strace_blanks(p, end);
  if (p < end && strace_digit(*p)) {
    int64_t hours, minutes;
    at = strace_integer(p, end, &hours);
    if (at < end && *at == ':') {
      at = strace_integer(at + 1, end, &minutes);
      if (at == end || *at != ':' || hours > 23 || minutes > 59 || hours < 0 || minutes < 0) goto unknown;
      at = strace_seconds(at + 1, end, &ns, &digits);
      if (!at || ns > 61 * STRACE_SECOND) goto unknown;
      if (ns >= 0) ns += (hours * 3600 + minutes * 60) * STRACE_SECOND;
      mode = STRACE_OF_DAY;
    } else {
      at = strace_seconds(p, end, &ns, &digits);
      mode = ns < 0 || ns >= STRACE_SECOND * 100000000 ? STRACE_EPOCH : STRACE_RELATIVE;
    }
    if (!at || at == end || *at != ' ') goto unknown;
    p = strace_blanks(at, end);
    if (strace_begins(p, end, "(+")) {
      at = memchr(p, ')', (size_t)(end - p));
      if (!at) goto unknown;
      p = strace_blanks(at + 1, end);
    }
  }
  while (p < end && *p == '[') {
    at = memchr(p, ']', (size_t)(end - p));
    if (!at) goto unknown;
    p = strace_blanks(at + 1, end);
  }
  body = p;
  if (p == end) goto unknown;
  if (mode == STRACE_NO_TIME) {
    if ((number = strace_attached(p, end)) > 0) {
      strace_announce(s, number);
      return;
    }
    if (strace_begins(p, end, "strace: ") || strace_begins(p, end, "Process PID=")
        || strace_begins(p, end, "Process ") || s->in_summary) {
      s->summary += s->in_summary;
      return;
    }
    /* the rest of a line that the notice of a new thread broke */
    if (s->attached_open && strace_begins(p, end, "<unfinished ...>")) {
      s->attached_open = 0;
      return;
    }
    while (p < end && strace_name_char(*p)) p++;
    if ((p > body && p < end && *p == '(') || strace_begins(body, end, "<... ")
        || strace_begins(body, end, "+++ ") || strace_begins(body, end, "--- ")) {
      s->timeless++;
      return;
    }
    goto unknown;
  }
  if (s->mode != STRACE_NO_TIME) {
    if (mode != s->mode) goto unknown;
    if (!strace_clock(s, mode, ns, &time_ns)) {
      s->out_of_range++;
      return;
    }
  }
  resumed = strace_begins(p, end, "<... ");
  if (!resumed && *p != '+' && *p != '-') {
    while (p < end && strace_name_char(*p)) p++;
    if (p == body || p == end || *p != '(') goto unknown;
  }
  if (s->mode == STRACE_NO_TIME) {
    s->mode = mode;
    s->decimals = digits;
    s->coarse = digits < 6;
    if (!strace_clock(s, mode, ns, &time_ns)) {
      s->out_of_range++;
      return;
    }
  }
  thread = tid >= 0 ? strace_numbered(s, tid, resumed) : strace_unnumbered(s);
  if (thread < 0) return;
  s->threads[thread].seen = 1;
  if (*body != '+') strace_revive(s, thread);
  /* of rounded times the order is known */
  if (s->coarse && time_ns < s->threads[thread].last_ns) time_ns = s->threads[thread].last_ns;
  if (s->first_ns < 0 || time_ns < s->first_ns) s->first_ns = time_ns;
  if (time_ns > s->last_ns) s->last_ns = time_ns;
  if (s->threads[thread].first_ns < 0) s->threads[thread].first_ns = time_ns;
  s->records++;
  if (*body == '+') {
    static const char superseded[] = "+++ superseded by execve in pid ";
    if (!strace_begins(body, end, "+++ ") || !strace_ends(body, end, " +++") || end - body < 9) goto unknown;
    if (strace_begins(body, end, superseded)) {
      int64_t other;
      strace_integer(body + sizeof superseded - 1, end, &number);
      other = number > 0 ? strace_thread_of(s, number, 0) : -1;
      strace_break(s, thread, time_ns, 0);
      if (other >= 0 && other != thread && s->threads[other].open) {
        /* the other becomes this one */
        int32_t label = s->threads[other].label;
        name = s->threads[other].name;
        strace_exit(s, other, time_ns, body + 4, end - 4);
        kind = s->kinds[name];
        strace_open(s, thread, name, kind, time_ns, body, body);
        s->threads[thread].moved = 1;
        s->threads[thread].label = label;
      }
      return;
    }
    strace_exit(s, thread, time_ns, body + 4, end - 4);
    if (time_ns > s->threads[thread].last_ns) s->threads[thread].last_ns = time_ns;
    return;
  }
  if (*body == '-') {
    StraceEvent *e;
    if (!strace_begins(body, end, "--- ") || !strace_ends(body, end, " ---") || end - body < 9) goto unknown;
    at = body + 4;
    value = memchr(at, '{', (size_t)(end - at));
    tail = value ? value : end - 4;
    while (tail > at && tail[-1] == ' ') tail--;
    e = strace_event(s, STRACE_SIGNAL, thread, time_ns);
    if (!e) return;
    e->name = strace_intern(s, at, tail - at > 60 ? at + 60 : tail);
    if (value) {
      const char *pid = value;
      int64_t before = s->text_bytes;
      while ((pid = memchr(pid, 's', (size_t)(end - pid))) != NULL) {
        if (strace_begins(pid, end, "si_pid=")) {
          strace_integer(pid + 7, end, &s->events[s->event_count - 1].number);
          break;
        }
        pid++;
      }
      strace_plain(s, "{\"info\":\"");
      strace_escape(s, value, end - 4 - value > 300 ? value + 300 : end - 4);
      strace_plain(s, "\"}");
      e->offset = s->text_base + before;
      e->length = (int32_t)(s->text_bytes - before);
    }
    if (time_ns > s->threads[thread].last_ns) s->threads[thread].last_ns = time_ns;
    return;
  }
  if (resumed) {
    StraceThread *t = &s->threads[thread];
    int known;
    at = body + 5;
    p = at;
    while (p < end && strace_name_char(*p)) p++;
    if (!strace_begins(p, end, " resumed>")) goto unknown;
    name = strace_call_name(s, at, p, &kind);
    p += 9;
    tail = strace_length(p, end, &length_ns);
    close = strace_close(p, tail, &value);
    known = t->open && t->name == name;
    if (known && strace_ends(p, end, "<unfinished ...>")) return; /* interrupted once more */
    if (!close) {
      if (known && strace_ends(p, end, "<detached ...>")) {
        strace_break(s, thread, time_ns, STRACE_UNFINISHED);
        s->unfinished++;
        strace_exit(s, thread, time_ns, strace_detached, STRACE_DETACHED_END);
        return;
      }
      goto unknown;
    }
    if (known && value < tail && *value == '?' && length_ns < 0 && value + 1 >= tail) {
      return; /* it lasts until its thread exits */
    }
    if (known) {
      int64_t begin_ns = t->begin_ns, end_ns = time_ns;
      if (length_ns >= 0 && !t->moved && begin_ns <= STRACE_LAST_NS - length_ns) end_ns = begin_ns + length_ns;
      if (end_ns < begin_ns) end_ns = begin_ns;
      t->open = 0;
      strace_complete(s, thread, name, kind, begin_ns, end_ns, 0, p, close, value, tail, 1);
      return;
    }
    s->resumed_alone++;
    if (length_ns >= 0 && length_ns <= time_ns) {
      int64_t begin_ns = time_ns - length_ns;
      if (begin_ns < t->last_ns) begin_ns = t->last_ns <= time_ns ? t->last_ns : time_ns;
      strace_complete(s, thread, name, kind, begin_ns, time_ns, 0, p, close, value, tail, 0);
    }
    return;
  }
  name = strace_call_name(s, body, p, &kind);
  p++;
  /* a call that was open did not return by now, as far as is known */
  if (s->threads[thread].open) {
    s->unfinished++;
    strace_break(s, thread, time_ns, STRACE_UNFINISHED);
  }
  if (strace_ends(p, end, "<unfinished ...>")) {
    tail = end - 16;
    if (tail > p && tail[-1] == ' ') tail--;
    strace_open(s, thread, name, kind, time_ns, p, tail);
    return;
  }
  if (strace_ends(p, end, "<detached ...>")) {
    strace_open(s, thread, name, kind, time_ns, p, end - 14);
    strace_break(s, thread, time_ns, STRACE_UNFINISHED);
    s->unfinished++;
    strace_exit(s, thread, time_ns, strace_detached, STRACE_DETACHED_END);
    return;
  }
  tail = strace_length(p, end, &length_ns);
  close = strace_close(p, tail, &value);
  if (!close) {
    if (strace_ends(p, end, " attached")) {
      /* strace's notice went to the same terminal */
      for (at = end - 9; at > p && !strace_begins(at, end, "strace: Process "); at--) {}
      if ((number = strace_attached(at, end)) > 0) {
        strace_open(s, thread, name, kind, time_ns, p, at);
        strace_announce(s, number);
        s->attached_open = 1;
        return;
      }
    }
    s->records--;
    goto unknown;
  }
  if (value < tail && *value == '?' && length_ns < 0 && strace_blanks(value + 1, tail) >= tail) {
    strace_open(s, thread, name, kind, time_ns, p, close);
    return;
  }
  if (length_ns >= 0 && time_ns <= STRACE_LAST_NS - length_ns) {
    strace_complete(s, thread, name, kind, time_ns, time_ns + length_ns, 0, p, close, value, tail, 0);
  } else {
    s->without_end++;
    strace_complete(s, thread, name, kind, time_ns, time_ns, STRACE_NO_END, p, close, value, tail, 0);
  }
  return;
unknown:
  if (s->in_summary) {
    s->summary++;
    return;
  }
  s->unknown++;
}

/* Scans the complete lines of a block, and what follows them if it is the last one. Returns how many
 * bytes are done, -1 if there is no memory. */
static int64_t strace_scan(Strace *s, const char *text, int64_t size, int last) {
  const char *p = text, *end = text + size, *next;
  while (p < end) {
    next = memchr(p, '\n', (size_t)(end - p));
    if (!next) {
      int64_t unknown = s->unknown;
      if (!last) break;
      strace_line(s, p, end);
      if (s->unknown > unknown) {
        s->unknown--;
        s->truncated = 1;
      }
      p = end;
      break;
    }
    strace_line(s, p, next);
    if (s->failed) return -1;
    p = next + 1;
  }
  return s->failed ? -1 : p - text;
}

/* Ends what is open at the end of the input. */
static int strace_end(Strace *s) {
  int64_t i;
  for (i = 0; i < s->thread_count; i++)
    if (s->threads[i].open) {
      s->unfinished++;
      strace_break(s, i, s->last_ns, STRACE_UNFINISHED);
    }
  return !s->failed;
}

#endif
