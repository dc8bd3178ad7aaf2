/* Times in text: integers, decimals, and dates as ISO 8601 writes them.
 *
 * Only the forms that files have by the million are read here; for all others `time_parse` returns
 * TIME_ODD, and the caller reads them with Python.
 */
#ifndef MEANTIME_TIME_TEXT_H
#define MEANTIME_TIME_TEXT_H

#include <stdint.h>

#include "json_text.h"

/* What a value is. The decimals are scaled: units of 1e-9, 1e-6 or 1e-3. */
enum {
    TIME_ODD,
    TIME_INTEGER,
    TIME_DECIMAL_9,
    TIME_DECIMAL_6,
    TIME_DECIMAL_3,
    TIME_ZONED,   /* ns since 1970 */
    TIME_NAIVE, /* the same of a date without a zone, as if it were UTC */
};

static inline int time_is_digit(char c) { return c >= '0' && c <= '9'; }

/* The number in `count` digits, or -1. */
static inline int64_t time_digits(const char *at, const char *end, int count)
{
    int64_t number = 0;
    if (end - at < count) return -1;
    for (int i = 0; i < count; i++) {
        if (!time_is_digit(at[i])) return -1;
        number = number * 10 + (at[i] - '0');
    }
    return number;
}

/* `places` digits of a fraction, those behind them cut off, missing ones 0. */
static inline const char *time_fraction(const char *at, const char *end, int places, int64_t *fraction)
{
    static const int64_t powers[] = {1,         10,         100,         1000,      10000,
                                     100000, 1000000, 10000000, 100000000, 1000000000};
    int64_t number = 0;
    for (; places > 0 && at < end && time_is_digit(*at); places--) number = number * 10 + (*at++ - '0');
    *fraction = number * powers[places];
    while (at < end && time_is_digit(*at)) at++;
    return at;
}

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar. */
static inline int64_t time_days(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The number in the bytes `at` and `at + 1` of digits. */
static inline int64_t time_pair(uint64_t digits, int at)
{
    return (int64_t)((digits >> 8 * at & 15) * 10 + (digits >> (8 * at + 8) & 15));
}

/* The numbers in the digits of a text like the 16 bytes "0000-00-00T00:00", of which the eleventh may
 * also be a blank; 0 if it has another form. */
static inline int time_minutes(const char *at, int64_t *year, int64_t *month, int64_t *day, int64_t *hour,
                               int64_t *minute)
{
    uint64_t begin = json_load8(at), end = json_load8(at + 8);
    if ((end >> 16 & 0xFF) == ' ')
        end ^= (uint64_t)(' ' ^ 'T') << 16;
    /* xor makes digits their values, and separators 0; to these 15 is added, to digits 6, so that
     * more than 4 bits are used by other ones only */
    begin ^= 0x2D30302D30303030; /* 0000-00- */
    end ^= 0x30303A3030543030; /* 00T00:00 */
    if (((begin + 0x0F06060F06060606) | begin | (end + 0x06060F06060F0606) | end) & 0xF0F0F0F0F0F0F0F0)
        return 0;
    *year = time_pair(begin, 0) * 100 + time_pair(begin, 2);
    *month = time_pair(begin, 5);
    *day = time_pair(end, 0);
    *hour = time_pair(end, 3);
    *minute = time_pair(end, 6);
    return 1;
}

static inline int time_date(const char *at, const char *end, int64_t *value)
{
    static const int days_of[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day, hour = 0, minute = 0, second = 0, fraction = 0, zone = 0;
    int kind = TIME_NAIVE;
    int is_usual = end - at >= 16 && time_minutes(at, &year, &month, &day, &hour, &minute);
    if (!is_usual) {
        if (end - at < 10 || at[4] != '-' || at[7] != '-') return TIME_ODD;
        year = time_digits(at, end, 4);
        month = time_digits(at + 5, end, 2);
        day = time_digits(at + 8, end, 2);
    }
    /* years of which nanoseconds fit into 64 bits */
    if (year < 1700 || year > 2200 || month < 1 || month > 12 || day < 1) return TIME_ODD;
    if (day > days_of[month - 1]
        && !(month == 2 && day == 29 && year % 4 == 0 && (year % 100 || year % 400 == 0)))
        return TIME_ODD;
    at += 10;
    if (at < end) {
        if (!is_usual) {
            if (*at != 'T' && *at != ' ') return TIME_ODD;
            if (end - at < 6 || at[3] != ':') return TIME_ODD;
            hour = time_digits(at + 1, end, 2);
            minute = time_digits(at + 4, end, 2);
        }
        at += 6;
        if (at < end && *at == ':') {
            second = time_digits(at + 1, end, 2);
            if (second < 0) return TIME_ODD;
            at += 3;
            if (at < end && (*at == '.' || *at == ',')) {
                if (++at == end || !time_is_digit(*at)) return TIME_ODD;
                at = time_fraction(at, end, 9, &fraction);
            }
        }
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second > 59) return TIME_ODD;
    }
    if (at < end && *at == 'Z') {
        kind = TIME_ZONED;
        at++;
    } else if (at < end && (*at == '+' || *at == '-')) {
        int64_t hours = time_digits(at + 1, end, 2), minutes = 0;
        int is_west = *at == '-';
        if (hours < 0) return TIME_ODD;
        at += 3;
        if (at < end) {
            at += *at == ':';
            minutes = time_digits(at, end, 2);
            if (minutes < 0) return TIME_ODD;
            at += 2;
        }
        if (hours > 23 || minutes > 59) return TIME_ODD;
        zone = (hours * 60 + minutes) * (is_west ? -60 : 60);
        kind = TIME_ZONED;
    }
    if (at != end) return TIME_ODD;
    *value = (time_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone)
                 * 1000000000
             + fraction;
    return kind;
}

/* Return what the text in [at, end) is, and its value. */
static inline int time_parse(const char *at, const char *end, int64_t *value)
{
    static const int64_t scales[] = {1000000000, 1000000, 1000};
    static const int64_t limits[] = {9000000000, 9000000000000, 9000000000000000};
    const char *digit = at;
    int64_t number = 0, fraction;
    int is_negative = at < end && *at == '-';
    digit += is_negative;
    const char *first = digit;
    while (digit < end && digit - first < 18 && time_is_digit(*digit)) {
        number = number * 10 + (*digit - '0');
        digit++;
    }
    if (digit == first) return TIME_ODD;
    if (digit == end) {
        *value = is_negative ? -number : number;
        return TIME_INTEGER;
    }
    if (*digit == '.') {
        if (digit + 1 == end) return TIME_ODD;
        for (int i = 0; i < 3; i++)
            if (number < limits[i]) {
                digit = time_fraction(digit + 1, end, 9 - 3 * i, &fraction);
                if (digit != end) return TIME_ODD;
                number = number * scales[i] + fraction;
                *value = is_negative ? -number : number;
                return TIME_DECIMAL_9 + i;
            }
        return TIME_ODD;
    }
    if (*digit == '-' && digit - first == 4 && !is_negative) return time_date(at, end, value);
    return TIME_ODD;
}

/* A minute of a date without an offset: its text, and its nanoseconds since 1970. */
typedef struct {
    uint64_t begin, end;
    int64_t ns;
    int is_known;
} time_minute;

/* `time_parse` for texts one after the other, most of which are in the same minute as the one before. */
static inline int time_parse_next(const char *at, const char *end, time_minute *last, int64_t *value)
{
    static const int64_t second_ns = 1000000000;
    int is_long = end - at >= 19 && at[16] == ':';
    if (is_long && last->is_known && json_load8(at) == last->begin && json_load8(at + 8) == last->end) {
        int64_t second = time_digits(at + 17, end, 2), fraction = 0;
        const char *next = at + 19;
        int is_plain = second >= 0 && second <= 59;
        if (is_plain && next < end && (*next == '.' || *next == ',')) {
            is_plain = ++next < end && time_is_digit(*next);
            next = time_fraction(next, end, 9, &fraction);
        }
        int is_utc = next < end && *next == 'Z';
        if (is_plain && next + is_utc == end) {
            *value = last->ns + second * second_ns + fraction;
            return is_utc ? TIME_ZONED : TIME_NAIVE;
        }
    }
    int kind = time_parse(at, end, value);
    if (is_long && (kind == TIME_NAIVE || (kind == TIME_ZONED && end[-1] == 'Z'))) {
        int64_t since = *value % (60 * second_ns);
        *last = (time_minute){json_load8(at), json_load8(at + 8),
                              *value - since - (since < 0 ? 60 * second_ns : 0), 1};
    }
    return kind;
}

#endif
