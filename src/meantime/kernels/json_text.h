/* JSON as bytes: checking it fully and reading the parts of it that scanners need, without copying.
 *
 * Everything works on [at, end) and never reads beyond `end`, except what is named `..._ahead`. A
 * function that checks returns where the thing ends, or NULL with the reason in `fault`.
 * Accepted is what RFC 8259 accepts, in valid UTF-8, with paired surrogates and bounded depth.
 */
#ifndef MEANTIME_JSON_TEXT_H
#define MEANTIME_JSON_TEXT_H

#include <stdint.h>
#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Bytes that may be looked at beyond a position by what is named `..._ahead`. */
#define JSON_AHEAD 64
/* How deep arrays and objects may nest, as in the JSON library of the first statemap program. */
#define JSON_DEPTH 128

enum {
    JSON_FINE,
    JSON_CUT, /* the input ends inside */
    JSON_WANTS_RECORD,
    JSON_WANTS_VALUE,
    JSON_WANTS_KEY,
    JSON_WANTS_KEY_OR_END,
    JSON_WANTS_COLON,
    JSON_WANTS_COMMA_IN_OBJECT,
    JSON_WANTS_COMMA_IN_ARRAY,
    JSON_BAD_NUMBER,
    JSON_HUGE_NUMBER,
    JSON_BAD_ESCAPE,
    JSON_LONE_SURROGATE,
    JSON_CONTROL_CHARACTER,
    JSON_BAD_UTF8,
    JSON_TOO_DEEP,
};

typedef struct {
    const char *at;
    int kind;
} json_fault;

static inline const char *json_fault_text(int kind)
{
    static const char *const text[] = {
        [JSON_FINE] = "nothing is wrong",
        [JSON_CUT] = "the input ends here",
        [JSON_WANTS_RECORD] = "expected an object",
        [JSON_WANTS_VALUE] = "expected a value",
        [JSON_WANTS_KEY] = "expected a key in quotes",
        [JSON_WANTS_KEY_OR_END] = "expected a key in quotes or '}'",
        [JSON_WANTS_COLON] = "expected ':' after the key",
        [JSON_WANTS_COMMA_IN_OBJECT] = "expected ',' or '}'",
        [JSON_WANTS_COMMA_IN_ARRAY] = "expected ',' or ']'",
        [JSON_BAD_NUMBER] = "this is not a number as JSON writes it",
        [JSON_HUGE_NUMBER] = "this number is too large",
        [JSON_BAD_ESCAPE] = "there is no such escape",
        [JSON_LONE_SURROGATE] = "a lone surrogate",
        [JSON_CONTROL_CHARACTER] = "a control character must be escaped inside a string",
        [JSON_BAD_UTF8] = "this is not UTF-8",
        [JSON_TOO_DEEP] = "arrays and objects are nested more than 128 deep",
    };
    return text[kind];
}

static inline const char *json_fail(json_fault *fault, int kind, const char *at)
{
    fault->kind = kind;
    fault->at = at;
    return NULL;
}

static inline uint64_t json_load8(const char *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline int json_lowest_byte(uint64_t mask)
{
    return __builtin_ctzll(mask) >> 3;
}

#define JSON_ONES 0x0101010101010101ULL
#define JSON_HIGHS 0x8080808080808080ULL

/* The top bit of each byte that is zero. Bytes above the lowest such one may be set wrongly. */
static inline uint64_t json_zero_bytes(uint64_t word)
{
    return (word - JSON_ONES) & ~word & JSON_HIGHS;
}

static inline uint64_t json_bytes_equal(uint64_t word, unsigned char byte)
{
    return json_zero_bytes(word ^ (JSON_ONES * byte));
}

/* The top bit of each byte that cannot be skipped inside a string: ", \, control, not ASCII. */
static inline uint64_t json_special_bytes(uint64_t word)
{
    uint64_t control = (word - JSON_ONES * 0x20) & ~word & JSON_HIGHS;
    return json_bytes_equal(word, '"') | json_bytes_equal(word, '\\') | control | (word & JSON_HIGHS);
}

static inline int json_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *json_skip_blanks(const char *at, const char *end)
{
    while (at < end && json_is_blank(*at))
        at++;
    return at;
}

static inline int json_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Strings */

/* Checks one character of more than one byte: shortest form, no surrogates, up to U+10FFFF. */
static inline const char *json_utf8(const char *at, const char *end, json_fault *fault)
{
    unsigned char lead = (unsigned char)*at;
    unsigned char lowest = 0x80, highest = 0xBF;
    int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4)
        return json_fail(fault, JSON_BAD_UTF8, at);
    if (lead == 0xE0)
        lowest = 0xA0;
    else if (lead == 0xED)
        highest = 0x9F;
    else if (lead == 0xF0)
        lowest = 0x90;
    else if (lead == 0xF4)
        highest = 0x8F;
    for (int i = 1; i <= more; i++) {
        if (at + i >= end)
            return json_fail(fault, JSON_CUT, end);
        unsigned char byte = (unsigned char)at[i];
        if (byte < lowest || byte > highest)
            return json_fail(fault, JSON_BAD_UTF8, at);
        lowest = 0x80;
        highest = 0xBF;
    }
    return at + more + 1;
}

static inline int json_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* Reads the four digits after \u; `escape` is where the escape begins. */
static inline const char *json_hex4(
    const char *at, const char *end, const char *escape, unsigned *unit, json_fault *fault)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, at++) {
        if (at >= end)
            return json_fail(fault, JSON_CUT, end);
        int digit = json_hex(*at);
        if (digit < 0)
            return json_fail(fault, JSON_BAD_ESCAPE, escape);
        *unit = *unit << 4 | (unsigned)digit;
    }
    return at;
}

/* Reads one escape at its backslash, and returns its character in `character`. */
static inline const char *json_escape(
    const char *at, const char *end, unsigned *character, json_fault *fault)
{
    const char *escape = at++;
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    switch (*at++) {
    case '"':
    case '\\':
    case '/':
        *character = (unsigned char)at[-1];
        return at;
    case 'b':
        *character = '\b';
        return at;
    case 'f':
        *character = '\f';
        return at;
    case 'n':
        *character = '\n';
        return at;
    case 'r':
        *character = '\r';
        return at;
    case 't':
        *character = '\t';
        return at;
    case 'u':
        break;
    default:
        return json_fail(fault, JSON_BAD_ESCAPE, escape);
    }
    unsigned unit, low;
    if (!(at = json_hex4(at, end, escape, &unit, fault)))
        return NULL;
    *character = unit;
    if (unit < 0xD800 || unit > 0xDFFF)
        return at;
    if (unit > 0xDBFF)
        return json_fail(fault, JSON_LONE_SURROGATE, escape);
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    if (*at != '\\')
        return json_fail(fault, JSON_LONE_SURROGATE, escape);
    if (at + 1 >= end)
        return json_fail(fault, JSON_CUT, end);
    if (at[1] != 'u')
        return json_fail(fault, JSON_LONE_SURROGATE, escape);
    if (!(at = json_hex4(at + 2, end, at, &low, fault)))
        return NULL;
    if (low < 0xDC00 || low > 0xDFFF)
        return json_fail(fault, JSON_LONE_SURROGATE, escape);
    *character = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    return at;
}

/* Checks a string from after its opening quote; returns its closing quote. */
static inline const char *json_string(const char *at, const char *end, int *escaped, json_fault *fault)
{
    unsigned character;
    *escaped = 0;
    for (;;) {
        while (end - at >= 8) {
            uint64_t special = json_special_bytes(json_load8(at));
            if (special) {
                at += json_lowest_byte(special);
                break;
            }
            at += 8;
        }
        if (at >= end)
            return json_fail(fault, JSON_CUT, end);
        unsigned char byte = (unsigned char)*at;
        if (byte == '"')
            return at;
        if (byte == '\\') {
            *escaped = 1;
            at = json_escape(at, end, &character, fault);
        } else if (byte < 0x20)
            return json_fail(fault, JSON_CONTROL_CHARACTER, at);
        else if (byte < 0x80)
            at++;
        else
            at = json_utf8(at, end, fault);
        if (!at)
            return NULL;
    }
}

/* Writes what a checked string means; `out` has room for `size` bytes. Returns how many it is. */
static inline size_t json_unescape(const char *at, size_t size, char *out)
{
    const char *end = at + size;
    char *start = out;
    json_fault fault;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        unsigned c = 0;
        at = json_escape(at, end, &c, &fault);
        if (c < 0x80)
            *out++ = (char)c;
        else if (c < 0x800) {
            *out++ = (char)(0xC0 | c >> 6);
            *out++ = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            *out++ = (char)(0xE0 | c >> 12);
            *out++ = (char)(0x80 | (c >> 6 & 0x3F));
            *out++ = (char)(0x80 | (c & 0x3F));
        } else {
            *out++ = (char)(0xF0 | c >> 18);
            *out++ = (char)(0x80 | (c >> 12 & 0x3F));
            *out++ = (char)(0x80 | (c >> 6 & 0x3F));
            *out++ = (char)(0x80 | (c & 0x3F));
        }
    }
    return (size_t)(out - start);
}

/* Numbers */

/* Whether a checked number exceeds the largest double. */
static inline int json_is_huge(const char *at, const char *end)
{
    static const char largest[] = "17976931348623157";
    const char *digits = NULL;
    int64_t power = 0, exponent = 0;
    int fraction = 0, down;
    at += *at == '-';
    for (; at < end && (*at | 0x20) != 'e'; at++) {
        if (*at == '.') {
            fraction = 1;
            continue;
        }
        if (!digits && *at != '0')
            digits = at;
        power += fraction ? (digits ? 0 : -1) : (digits ? 1 : 0);
    }
    if (!digits)
        return 0;
    if (at < end) {
        at++;
        down = *at == '-';
        at += *at == '-' || *at == '+';
        for (; at < end; at++)
            if (exponent < (int64_t)1 << 40)
                exponent = exponent * 10 + (*at - '0');
        power += down ? -exponent : exponent;
    }
    if (power != 309)
        return power > 309;
    for (const char *digit = largest; *digit && json_is_digit(*digits); digits++) {
        if (*digits != *digit)
            return *digits > *digit;
        digit++;
        digits += digits[1] == '.';
    }
    return 0;
}

/* Checks a number; it must be followed by something, since a longer one could follow the cut. */
static inline const char *json_number(const char *at, const char *end, json_fault *fault)
{
    const char *start = at, *exponent = NULL;
    if (at < end && *at == '-')
        at++;
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    if (*at == '0')
        at++;
    else if (json_is_digit(*at))
        while (at < end && json_is_digit(*at))
            at++;
    else
        return json_fail(fault, at == start ? JSON_WANTS_VALUE : JSON_BAD_NUMBER, start);
    if (at < end && *at == '.') {
        const char *fraction = ++at;
        while (at < end && json_is_digit(*at))
            at++;
        if (at == fraction && at < end)
            return json_fail(fault, JSON_BAD_NUMBER, start);
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        exponent = at;
        while (at < end && json_is_digit(*at))
            at++;
        if (at == exponent && at < end)
            return json_fail(fault, JSON_BAD_NUMBER, start);
    }
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    if (json_is_digit(*at)) /* after a leading zero */
        return json_fail(fault, JSON_BAD_NUMBER, start);
    if ((at - start > 300 || exponent) && json_is_huge(start, at))
        return json_fail(fault, JSON_HUGE_NUMBER, start);
    return at;
}

static inline int json_digit_count(uint64_t word)
{
    uint64_t low = word ^ 0x3030303030303030ULL;
    uint64_t others = ((low + 0x0606060606060606ULL) | low) & 0xF0F0F0F0F0F0F0F0ULL;
    return others ? __builtin_ctzll(others) >> 3 : 8;
}

/* The value of 8 digits. */
static inline uint64_t json_eight_digits(uint64_t word)
{
    word = (word & 0x0F0F0F0F0F0F0F0FULL) * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FFULL) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32;
}

/* Reads decimal digits, looking up to 24 bytes ahead; returns how many. Above 19 there may be more,
 * and the number is not to be used. */
static inline __attribute__((always_inline)) int json_digits_ahead(const char *at, uint64_t *number)
{
    static const uint64_t power[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    uint64_t word = json_load8(at);
    int count = json_digit_count(word), more;
    if (count < 8) {
        *number = count ? json_eight_digits(word << (8 * (8 - count))) : 0;
        return count;
    }
    uint64_t value = json_eight_digits(word);
    word = json_load8(at + 8);
    more = json_digit_count(word);
    if (more < 8) {
        if (more)
            value = value * power[more] + json_eight_digits(word << (8 * (8 - more)));
        *number = value;
        return 8 + more;
    }
    value = value * 100000000 + json_eight_digits(word);
    word = json_load8(at + 16);
    more = json_digit_count(word);
    if (more && more < 8)
        value = value * power[more] + json_eight_digits(word << (8 * (8 - more)));
    *number = value;
    return 16 + more;
}

/* Reads an integer below INT64_MAX as JSON has it, without a sign; with `zeros` it may begin with zeros,
 * as in a string. NULL if there is none. */
static inline __attribute__((always_inline)) const char *json_time_ahead(
    const char *at, int zeros, uint64_t *number)
{
    int count = json_digits_ahead(at, number);
    if (UNLIKELY(count == 0 || count > 19 || *number >= INT64_MAX || (!zeros && *at == '0' && count > 1)))
        return NULL;
    return at + count;
}

/* Reads one of up to 9 digits, which mostly has one. */
static inline __attribute__((always_inline)) const char *json_small_ahead(const char *at, uint32_t *number)
{
    uint32_t value = (uint32_t)(*at - '0');
    if (UNLIKELY(value > 9))
        return NULL;
    at++;
    if (json_is_digit(*at)) {
        const char *last = at + 8;
        if (UNLIKELY(value == 0))
            return NULL;
        for (; json_is_digit(*at); at++) {
            if (UNLIKELY(at == last))
                return NULL;
            value = value * 10 + (uint32_t)(*at - '0');
        }
    }
    *number = value;
    return at;
}

/* Reads decimal digits and nothing else, up to 64 bits; 0 if there is anything else. */
static inline int json_unsigned(const char *at, const char *end, uint64_t *number)
{
    *number = 0;
    if (at == end)
        return 0;
    for (; at < end; at++) {
        if (!json_is_digit(*at))
            return 0;
        uint64_t digit = (uint64_t)(*at - '0');
        if (*number > (UINT64_MAX - digit) / 10)
            return 0;
        *number = *number * 10 + digit;
    }
    return 1;
}

/* Converts a checked number whose digits and power of ten a double represents exactly, so that one
 * operation rounds rightly; 0 if it is another. */
static inline int json_exact_double(const char *at, const char *end, double *number)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = 0;
    int shift = 0, exponent = 0, fraction = 0, negative = *at == '-', down;
    for (at += negative; at < end && (*at | 0x20) != 'e'; at++) {
        if (*at == '.') {
            fraction = 1;
            continue;
        }
        digits = digits * 10 + (uint64_t)(*at - '0');
        shift -= fraction;
        if (digits > 1ULL << 53)
            return 0;
    }
    if (at < end) {
        down = *++at == '-';
        for (at += *at == '-' || *at == '+'; at < end; at++) {
            exponent = exponent * 10 + (*at - '0');
            if (exponent > 1000)
                return 0;
        }
        shift += down ? -exponent : exponent;
    }
    if (shift < -22 || shift > 22)
        return 0;
    *number = shift < 0 ? (double)digits / power[-shift] : (double)digits * power[shift];
    if (negative)
        *number = -*number;
    return 1;
}

/* Any value */

static inline const char *json_word(
    const char *at, const char *end, const char *word, json_fault *fault)
{
    for (const char *start = at; *word; word++, at++) {
        if (at >= end)
            return json_fail(fault, JSON_CUT, end);
        if (*at != *word)
            return json_fail(fault, JSON_WANTS_VALUE, start);
    }
    return at;
}

/* Checks a value that is neither an array nor an object, at its first byte. */
static inline const char *json_scalar(const char *at, const char *end, json_fault *fault)
{
    int escaped;
    switch (*at) {
    case '"':
        at = json_string(at + 1, end, &escaped, fault);
        return at ? at + 1 : NULL;
    case 't':
        return json_word(at, end, "true", fault);
    case 'f':
        return json_word(at, end, "false", fault);
    case 'n':
        return json_word(at, end, "null", fault);
    default:
        return json_number(at, end, fault);
    }
}

/* Checks a key, at its quote if it has one, and the colon after it; returns what follows. */
static inline const char *json_key(const char *at, const char *end, json_fault *fault)
{
    int escaped;
    at = json_skip_blanks(at, end);
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    if (*at != '"')
        return json_fail(fault, JSON_WANTS_KEY, at);
    if (!(at = json_string(at + 1, end, &escaped, fault)))
        return NULL;
    at = json_skip_blanks(at + 1, end);
    if (at >= end)
        return json_fail(fault, JSON_CUT, end);
    if (*at != ':')
        return json_fail(fault, JSON_WANTS_COLON, at);
    return at + 1;
}

/* Checks any value, at its first byte, inside `depth` arrays and objects. Loops rather than
 * recurses: what is open is one bit per level. */
static inline const char *json_value(const char *at, const char *end, int depth, json_fault *fault)
{
    uint64_t is_object[JSON_DEPTH / 64 + 1] = {0};
    const int outer = depth;
    for (;;) {
        at = json_skip_blanks(at, end);
        if (at >= end)
            return json_fail(fault, JSON_CUT, end);
        if (*at == '{' || *at == '[') {
            const int object = *at == '{';
            if (depth >= JSON_DEPTH)
                return json_fail(fault, JSON_TOO_DEEP, at);
            if (object)
                is_object[depth >> 6] |= 1ULL << (depth & 63);
            else
                is_object[depth >> 6] &= ~(1ULL << (depth & 63));
            depth++;
            at = json_skip_blanks(at + 1, end);
            if (at >= end)
                return json_fail(fault, JSON_CUT, end);
            if (*at != (object ? '}' : ']')) {
                if (!object)
                    continue;
                if (*at != '"')
                    return json_fail(fault, JSON_WANTS_KEY_OR_END, at);
                if (!(at = json_key(at, end, fault)))
                    return NULL;
                continue;
            }
        } else {
            if (!(at = json_scalar(at, end, fault)))
                return NULL;
            if (depth == outer)
                return at;
        }
        for (;;) { /* a value, or the last one of what is open, has ended */
            at = json_skip_blanks(at, end);
            if (at >= end)
                return json_fail(fault, JSON_CUT, end);
            const int object = is_object[(depth - 1) >> 6] >> ((depth - 1) & 63) & 1;
            if (*at == ',') {
                at++;
                if (object && !(at = json_key(at, end, fault)))
                    return NULL;
                break;
            }
            if (*at != (object ? '}' : ']'))
                return json_fail(
                    fault, object ? JSON_WANTS_COMMA_IN_OBJECT : JSON_WANTS_COMMA_IN_ARRAY, at);
            at++;
            if (--depth == outer)
                return at;
        }
    }
}

/* How many lines end in [at, end). */
static inline uint64_t json_count_lines(const char *at, const char *end)
{
    uint64_t lines = 0;
    while (at < end) {
        const char *stop = end - at > 255 * 32 ? at + 255 * 32 : end;
        unsigned char counts[32] = {0};
        for (; stop - at >= 32; at += 32)
            for (int i = 0; i < 32; i++)
                counts[i] += at[i] == '\n';
        for (int i = 0; i < 32; i++)
            lines += counts[i];
        for (; at < stop; at++)
            lines += *at == '\n';
    }
    return lines;
}

#endif
