/* Numbers that lasted for some time: the least, the greatest, and the sum of each times its time. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int floats;      /* words are the bits of doubles, otherwise integers */
    int some;        /* there is a number that is not NaN */
    int64_t low, high;
    __int128 total;  /* of integers; 2^63 times fewer than 2^64 ns fits */
    double sum, rest, magnitude; /* of doubles: sum + rest, and the sum without signs */
} numbers_of;

static inline double numbers_double(int64_t word) {
    double value;
    memcpy(&value, &word, 8);
    return value;
}

static inline int64_t numbers_bits(double value) {
    int64_t word;
    memcpy(&word, &value, 8);
    return word;
}

/* Of equal numbers the first stays: 0.0 and -0.0 are equal. */
static inline void numbers_range(numbers_of *of, int64_t low, int64_t high) {
    if (!of->some) {
        of->some = 1;
        of->low = low;
        of->high = high;
    } else if (of->floats) {
        if (numbers_double(low) < numbers_double(of->low)) of->low = low;
        if (numbers_double(high) > numbers_double(of->high)) of->high = high;
    } else {
        if (low < of->low) of->low = low;
        if (high > of->high) of->high = high;
    }
}

/* What rounding loses is added up in the rest (Knuth's two-sum), so that the result hardly depends
 * on how the rows were cut into cells. */
static inline void numbers_add(numbers_of *of, double value) {
    double sum = of->sum + value;
    double taken = sum - of->sum;
    of->rest += (of->sum - (sum - taken)) + (value - taken);
    of->sum = sum;
}

static inline void numbers_item(numbers_of *of, int64_t word, uint64_t ns) {
    if (of->floats) {
        double value = numbers_double(word);
        double product = value * (double)ns;
        if (value == value) numbers_range(of, word, word);
        numbers_add(of, product);
        of->magnitude += fabs(product);
    } else {
        numbers_range(of, word, word);
        of->total += (__int128)word * (__int128)ns;
    }
}

static inline void numbers_cell(
    numbers_of *of, int some, int64_t low, int64_t high, const int64_t *sums, double magnitude
) {
    if (some) numbers_range(of, low, high);
    if (of->floats) {
        numbers_add(of, numbers_double(sums[0]));
        of->rest += numbers_double(sums[1]);
        of->magnitude += magnitude;
    } else {
        of->total += ((__int128)sums[1] << 64) | (uint64_t)sums[0];
    }
}

static inline void numbers_sums(const numbers_of *of, int64_t *sums) {
    if (of->floats) {
        sums[0] = numbers_bits(of->sum);
        sums[1] = numbers_bits(of->rest);
    } else {
        sums[0] = (int64_t)(uint64_t)of->total;
        sums[1] = (int64_t)(of->total >> 64);
    }
}

static inline void numbers_clear(numbers_of *of, int floats) {
    memset(of, 0, sizeof *of);
    of->floats = floats;
}

static inline double numbers_least(const numbers_of *of) {
    return of->floats ? numbers_double(of->low) : (double)of->low;
}

static inline double numbers_greatest(const numbers_of *of) {
    return of->floats ? numbers_double(of->high) : (double)of->high;
}

/* Next to an infinite sum there is no rest. */
static inline double numbers_total(const numbers_of *of) {
    if (!of->floats) return (double)of->total;
    return isinf(of->sum) ? of->sum : of->sum + of->rest;
}
