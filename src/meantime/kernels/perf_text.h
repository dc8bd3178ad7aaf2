/* The lines of `perf script` text.
 *
 *     header = [comm] [tid | pid/tid] [[cpu]] [misc] [date time] seconds.fraction: rest
 *     frame  = address [symbol[+0xoffset]] [(file)] [(inlined)]
 *
 * A comm can contain anything, also text that looks like the rest of a header. So a header is read
 * from its time backwards, and a time has 6 or 9 decimals.
 */
#ifndef MEANTIME_PERF_TEXT_H
#define MEANTIME_PERF_TEXT_H

#include <stdint.h>
#include <string.h>

enum {
    PERF_IDS = 1,  /* headers have one or two ids */
    PERF_CPU = 2,  /* a CPU in brackets */
    PERF_MISC = 4, /* flags such as K or U */
    PERF_DATE = 8, /* a date and a time of day */
    PERF_UNPADDED = 16, /* microseconds without leading zeros, as Android's simpleperf has */
    PERF_NANOS = 32, /* times with nine decimals */
    PERF_FTRACE = 64, /* ftrace text: see tracepoint_text.h */
    PERF_COMM_BYTES = 15, /* TASK_COMM_LEN of Linux, without the final zero */
};

enum {
    PERF_HEADER = 1,
    PERF_OTHER_FIELDS = 2,
};

typedef struct {
    const char *begin; /* the comm, or the ids if there is none */
    uint32_t comm_bytes;
    uint32_t bytes; /* from `begin` to the end of the ids, or of the comm if there are none */
    int64_t time_ns; /* -1 if it is beyond 64 bits */
    int32_t cpu;     /* -1 if there is none */
    int is_nanos;    /* its time has nine decimals */
    int64_t tid;     /* -1 if there is none */
    char context;    /* h or s in a hardware or software interrupt, if the flags say so; else 0 */
    char is_guess;   /* whether the thread follows from the last switch, not from the event itself */
    const char *rest;
} perf_header;

static inline int perf_blank(char c) { return c == ' ' || c == '\t'; }
static inline int perf_digit(char c) { return (unsigned char)(c - '0') < 10; }
static inline int perf_hex(char c)
{
    return perf_digit(c) || (unsigned char)((c | 32) - 'a') < 6;
}

/* Where the line after this one begins, and where this one ends; NULL if it is not complete. */
static inline const char *perf_line(const char *line, const char *end, int last,
                                    const char **line_end)
{
    const char *found = memchr(line, '\n', (size_t)(end - line));
    const char *next = found ? found + 1 : end;
    if (!found) {
        if (!last) return NULL;
        found = end;
    }
    *line_end = found > line && found[-1] == '\r' ? found - 1 : found;
    return next;
}

static inline const char *perf_skip(const char *at, const char *end)
{
    while (at < end && perf_blank(*at))
        at++;
    return at;
}

static inline const char *perf_back(const char *begin, const char *at)
{
    while (at > begin && perf_blank(at[-1]))
        at--;
    return at;
}

static inline const char *perf_back_digits(const char *begin, const char *at)
{
    while (at > begin && perf_digit(at[-1]))
        at--;
    return at;
}

/* Each of these returns where the field that ends at `at` begins; `at` itself if there is none. A
 * field must have a blank before it: otherwise it is the end of a longer word of the comm. */

static inline const char *perf_back_cpu(const char *begin, const char *at, int32_t *cpu)
{
    if (at == begin || at[-1] != ']')
        return at;
    const char *digits = perf_back_digits(begin, at - 1);
    /* perf pads to three digits; more than nine would overflow */
    if (at - 1 - digits < 3 || at - 1 - digits > 9 || digits == begin || digits[-1] != '[')
        return at;
    if (digits - 1 > begin && !perf_blank(digits[-2]))
        return at;
    *cpu = 0;
    for (const char *digit = digits; digit < at - 1; digit++)
        *cpu = *cpu * 10 + (*digit - '0');
    return digits - 1;
}

static inline const char *perf_back_id(const char *begin, const char *at)
{
    const char *digits = perf_back_digits(begin, at);
    if (digits == at)
        return at;
    return digits > begin && digits[-1] == '-' ? digits - 1 : digits;
}

static inline const char *perf_back_ids(const char *begin, const char *at)
{
    const char *id = perf_back_id(begin, at);
    if (id == at)
        return at;
    if (id > begin && id[-1] == '/') {
        const char *pid = perf_back_id(begin, id - 1);
        if (pid < id - 1 && (pid == begin || perf_blank(pid[-1])))
            return pid;
    }
    return id == begin || perf_blank(id[-1]) ? id : at;
}

static inline const char *perf_back_misc(const char *begin, const char *at)
{
    const char *flag = at;
    while (flag > begin && strchr("KUHGgMESPp?", flag[-1]) && flag[-1])
        flag--;
    return flag < at && (flag == begin || perf_blank(flag[-1])) ? flag : at;
}

static inline const char *perf_back_date(const char *begin, const char *at)
{
    static const char form[] = "0000-00-00 00:00:00.";
    const char *digits = perf_back_digits(begin, at);
    if (digits == at || digits - begin < (long)sizeof form - 1)
        return at;
    const char *date = digits - (sizeof form - 1);
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '0' ? !perf_digit(date[i]) : date[i] != form[i])
            return at;
    return date == begin || perf_blank(date[-1]) ? date : at;
}

/* Reads the time around a dot. Returns where the time begins, or NULL if it is none. */
static inline const char *perf_time(const char *begin, const char *dot, const char *end,
                                    int layout, perf_header *header)
{
    const char *first = perf_back_digits(begin, dot), *last = dot + 1;
    if (first == dot || (first > begin && !perf_blank(first[-1])))
        return NULL;
    while (last < end && last - dot <= 10 && perf_digit(*last))
        last++;
    if (last - dot != 7 && last - dot != 10 && (last - dot > 7 || !(layout & PERF_UNPADDED)))
        return NULL;
    header->is_nanos = last - dot == 10;
    if (last - dot == 1 || last == end || *last != ':')
        return NULL;
    if (last + 1 < end && !perf_blank(last[1]))
        return NULL;
    uint64_t seconds = 0, fraction = 0;
    for (const char *digit = first; digit < dot && seconds < 10000000000; digit++)
        seconds = seconds * 10 + (uint64_t)(*digit - '0');
    for (const char *digit = dot + 1; digit < last; digit++)
        fraction = fraction * 10 + (uint64_t)(*digit - '0');
    if (last - dot <= 7)
        fraction *= 1000;
    /* the greatest number of seconds with which any fraction fits into 64 bits */
    header->time_ns = seconds > 9223372035 ? -1 : (int64_t)(seconds * 1000000000 + fraction);
    header->rest = last + 1;
    return first;
}

/* How far a time is from the last sample's: it should be later, so earlier ones count as farther. */
static inline int64_t perf_distance(int64_t time_ns, int64_t last_ns)
{
    if (time_ns >= last_ns)
        return time_ns - last_ns;
    return last_ns - time_ns < INT64_MAX / 16 ? 16 * (last_ns - time_ns) : INT64_MAX;
}

/* Reads a header of this layout. If several numbers could be its time, those that have the layout's
 * decimals and date are preferred, and of them the one nearest to the last sample's time. Returns 0
 * if the line has no time, PERF_OTHER_FIELDS if the fields before its times are not those of the
 * layout. */
static inline int perf_read_header(const char *line, const char *end, int layout, int64_t last_ns,
                                   perf_header *header)
{
    const char *begin = perf_skip(line, end), *dot = begin;
    perf_header found = {begin, 0, 0, 0, -1, 0, -1, 0, 0, NULL};
    int64_t nearest = -1;
    int fits = 0, kind = 0;
    while ((dot = memchr(dot, '.', (size_t)(end - dot)))) {
        const char *at = perf_time(begin, dot++, end, layout, &found), *field;
        if (!at)
            continue;
        kind = PERF_OTHER_FIELDS;
        int as_others = found.is_nanos == !!(layout & PERF_NANOS);
        found.cpu = -1;
        at = perf_back(begin, at);
        if (layout & PERF_DATE) {
            field = perf_back_date(begin, at);
            as_others &= field < at;
            at = perf_back(begin, field);
        }
        if (layout & PERF_MISC)
            at = perf_back(begin, perf_back_misc(begin, at));
        if (layout & PERF_CPU) {
            field = perf_back_cpu(begin, at, &found.cpu);
            if (field == at)
                continue;
            at = perf_back(begin, field);
        }
        found.bytes = (uint32_t)(at - begin);
        if (layout & PERF_IDS) {
            field = perf_back_ids(begin, at);
            if (field == at)
                continue;
            at = perf_back(begin, field);
        }
        found.comm_bytes = (uint32_t)(at - begin);
        if (found.comm_bytes > PERF_COMM_BYTES) {
            /* Linux cuts comms off, Android's simpleperf does not. */
            if (nearest < 0 && layout & PERF_IDS) {
                *header = found;
                return PERF_HEADER;
            }
            break;
        }
        if (as_others < fits)
            continue;
        int64_t distance = perf_distance(found.time_ns, last_ns);
        if (nearest < 0 || as_others > fits || (last_ns >= 0 && distance < nearest)) {
            nearest = distance;
            fits = as_others;
            *header = found;
        }
    }
    return nearest >= 0 ? PERF_HEADER : kind;
}

typedef struct {
    int64_t period;    /* -1 if there is none */
    const char *event; /* NULL if there is none */
    uint32_t event_bytes;
} perf_counted;

/* Reads the period and the event that follow a time. */
static inline perf_counted perf_read_counted(const char *rest, const char *end)
{
    perf_counted counted = {-1, NULL, 0};
    const char *at = perf_skip(rest, end), *digits = at;
    while (at < end && perf_digit(*at))
        at++;
    if (at > digits && at - digits < 19 && (at == end || perf_blank(*at))) {
        counted.period = 0;
        for (const char *digit = digits; digit < at; digit++)
            counted.period = counted.period * 10 + (*digit - '0');
        at = perf_skip(at, end);
    } else {
        at = digits;
    }
    for (const char *last = at; last < end && !perf_blank(*last); last++)
        if (*last == ':' && last > at && (last + 1 == end || perf_blank(last[1]))) {
            counted.event = at;
            counted.event_bytes = (uint32_t)(last - at);
        }
    return counted;
}

typedef struct {
    int64_t prev; /* the thread that leaves the CPU */
    int64_t next; /* the thread that gets it */
    const char *next_comm;
    uint32_t next_bytes;
    int32_t prev_prio, next_prio;
    char state;   /* the letter of the state in which the first one leaves; + if it was preempted */
} perf_switch;

/* Reads backwards a number that ends at `at`, after `before`. Returns where `before` begins, or NULL
 * if it is not there. */
static inline const char *perf_back_number(const char *begin, const char *at, const char *before,
                                           int64_t *number)
{
    const char *digits = perf_back_digits(begin, at);
    size_t size = strlen(before);
    /* 18 digits always fit into 64 bits */
    if (digits == at || at - digits > 18 || (size_t)(digits - begin) < size || digits == begin)
        return NULL;
    const char *first = digits;
    if (first[-1] == '-') /* the priority of a deadline thread */
        first--;
    if ((size_t)(first - begin) < size || memcmp(first - size, before, size)) {
        first = digits;
        if (memcmp(first - size, before, size))
            return NULL;
    }
    *number = 0;
    for (const char *digit = digits; digit < at; digit++)
        *number = *number * 10 + (*digit - '0');
    if (first < digits)
        *number = -*number;
    return first - size;
}

/* Returns the letter that the kernel prints for the bits of a state, + if it was preempted. */
static inline int perf_state_letter(int64_t bits)
{
    static const char letters[] = "SDTtXZPI";
    if (bits > 0xff)
        return '+';
    for (int bit = 0; bit < 8; bit++)
        if (bits >> bit & 1)
            return letters[bit];
    return 'R';
}

/* Returns where the text ends without ` Latency: 12.719 usecs`, which trace-cmd appends with -w. */
static inline const char *perf_before_latency(const char *at, const char *end)
{
    static const char before[] = " Latency: ", unit[] = " usecs";
    if (end - at < (long)(sizeof before + sizeof unit) || memcmp(end - (sizeof unit - 1), unit, sizeof unit - 1))
        return end;
    const char *number = end - (sizeof unit - 1);
    while (number > at && (perf_digit(number[-1]) || number[-1] == '.'))
        number--;
    const char *last = number - (sizeof before - 1);
    return last > at && !memcmp(last, before, sizeof before - 1) ? last : end;
}

/* Reads the fields of sched:sched_switch, backwards since comms can contain anything:
 *     prev_comm=A prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=B next_pid=2 next_prio=120
 *     prev_comm=A prev_pid=1 prev_prio=120 prev_state=1 next_comm=B next_pid=2 next_prio=120
 *     A:1 [120] S ==> B:2 [120]
 * trace-cmd prints the second with -R, and the third by itself: with W for idle, and R also for a
 * thread that was preempted. Returns 0 if the text is something else. */
static inline int perf_read_switch(const char *at, const char *end, perf_switch *found)
{
    static const char arrow[] = " ==> ", comm[] = "next_comm=", raw[] = " next_comm=";
    int64_t number = 0;
    at = perf_skip(at, end);
    end = perf_before_latency(at, perf_back(at, end));
    int is_old = end > at && end[-1] == ']';
    const char *last;
    if (is_old)
        last = perf_back_number(at, end - 1, " [", &number);
    else
        last = perf_back_number(at, end, " next_prio=", &number);
    if (last)
        last = perf_back_number(at, last, is_old ? ":" : " next_pid=", &found->next);
    if (!last)
        return 0;
    found->next_prio = (int32_t)number;
    /* The first arrow with the fields of a switch before it: a comm can contain an arrow too. */
    for (const char *sign = at; sign + sizeof arrow - 1 <= last; sign++) {
        if (memcmp(sign, arrow, sizeof arrow - 1))
            continue;
        const char *state = sign, *first;
        while (state > at && !perf_blank(state[-1]) && state[-1] != '=')
            state--;
        if (state == sign)
            continue;
        if (is_old) {
            first = perf_back(at, state);
            first = first > at && first[-1] == ']' ? perf_back_number(at, first - 1, " [", &number) : NULL;
            if (first)
                first = perf_back_number(at, first, ":", &found->prev);
        } else {
            first = state - at > 12 && !memcmp(state - 12, " prev_state=", 12)
                ? perf_back_number(at, state - 12, " prev_prio=", &number) : NULL;
            if (first)
                first = perf_back_number(at, first, " prev_pid=", &found->prev);
        }
        if (!first)
            continue;
        found->next_comm = sign + sizeof arrow - 1;
        if (!is_old) {
            if (last - found->next_comm < (long)sizeof comm - 1
                || memcmp(found->next_comm, comm, sizeof comm - 1))
                continue;
            found->next_comm += sizeof comm - 1;
        }
        found->next_bytes = (uint32_t)(last - found->next_comm);
        found->prev_prio = (int32_t)number;
        found->state = sign[-1] == '+' ? '+' : *state;
        if (is_old && found->state == 'W' && sign - state == 1)
            found->state = 'I';
        return 1;
    }
    for (const char *sign = at; !is_old && sign + sizeof raw - 1 <= last; sign++) {
        int64_t bits;
        if (memcmp(sign, raw, sizeof raw - 1))
            continue;
        const char *first = perf_back_number(at, sign, " prev_state=", &bits);
        if (first)
            first = perf_back_number(at, first, " prev_prio=", &number);
        if (first)
            first = perf_back_number(at, first, " prev_pid=", &found->prev);
        if (!first)
            continue;
        found->next_comm = sign + sizeof raw - 1;
        found->next_bytes = (uint32_t)(last - found->next_comm);
        found->prev_prio = (int32_t)number;
        found->state = perf_state_letter(bits);
        return 1;
    }
    return 0;
}

typedef struct {
    const char *name;
    uint32_t bytes;
    int is_file; /* the function is unknown: this is the file it is in */
} perf_frame;

/* Reads a frame. Returns 0 if the line is none. */
static inline int perf_read_frame(const char *line, const char *end, perf_frame *frame)
{
    const char *at = perf_skip(line, end), *file = NULL, *address = at;
    static const char inlined[] = " (inlined)";
    while (at < end && perf_hex(*at))
        at++;
    if (at == address || (at < end && !perf_blank(*at)))
        return 0;
    while (end > at && perf_blank(end[-1]))
        end--;
    if (end - at >= (long)sizeof inlined - 1
        && !memcmp(end - (sizeof inlined - 1), inlined, sizeof inlined - 1))
        end -= sizeof inlined - 1;
    const char *name = perf_skip(at, end), *file_end = end;
    if (end > name && end[-1] == ')') {
        /* brackets are matched from the end: files and C++ symbols can contain some themselves */
        int depth = 0;
        const char *p = end;
        do {
            p--;
            depth += *p == ')' ? 1 : *p == '(' ? -1 : 0;
        } while (depth && p > name);
        if (!depth && (p == name || perf_blank(p[-1]))) {
            file = p + 1;
            file_end = end - 1;
            end = perf_back(name, p);
        }
    }
    const char *offset = end;
    while (offset > name && perf_hex(offset[-1]))
        offset--;
    if (offset < end && offset - name > 3 && !memcmp(offset - 3, "+0x", 3))
        end = offset - 3;
    frame->name = name;
    frame->bytes = (uint32_t)(end - name);
    frame->is_file = 0;
    if (end == name || (end - name == 9 && !memcmp(name, "[unknown]", 9))) {
        if (file && !(file_end - file == 9 && !memcmp(file, "[unknown]", 9))) {
            for (const char *p = file; p < file_end; p++)
                if (*p == '/' && p + 1 < file_end)
                    file = p + 1;
            frame->name = file;
            frame->bytes = (uint32_t)(file_end - file);
            frame->is_file = 1;
        } else if (end == name) {
            frame->name = address;
            frame->bytes = (uint32_t)(at - address);
        }
    }
    return 1;
}

/* Where a frame begins in what follows an event on its own line, as without call graphs; NULL if
 * there is none. Behind the fields of a tracepoint its address has at least eight digits. */
static inline const char *perf_frame_behind(const char *event, uint32_t event_bytes,
                                            const char *tail, const char *end)
{
    const char *at = perf_skip(tail, end), *colon, *found = NULL;
    end = perf_back(at, end);
    int has_file = end > at && end[-1] == ')';
    colon = event ? memchr(event, ':', event_bytes) : NULL;
    int is_tracepoint = colon && event + event_bytes - colon > 4;
    for (const char *digits = at; digits < end; digits = perf_skip(digits, end)) {
        const char *last = digits;
        while (last < end && perf_hex(*last))
            last++;
        int is_address = last - digits >= (is_tracepoint ? 8 : 4) && (last == end || perf_blank(*last));
        if (is_address && (has_file || !is_tracepoint))
            found = digits;
        if (!is_tracepoint)
            break;
        while (last < end && !perf_blank(*last))
            last++;
        digits = last;
    }
    return found;
}

#endif
