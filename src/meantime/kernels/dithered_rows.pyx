"""Rows of states that are too low to stack their shares: each pixel shows one of the states.

Which one follows from a matrix of thresholds: the states of a column of pixels divide [0, 1) in the
order of their layers, and a pixel shows the one in whose part its threshold is. So every pixel has
the colour of a state, and the colours of a neighbourhood are in the proportions of the times.
`web/shared/dithered-row.ts` draws the page by the same rule.
"""

from libc.math cimport ceil, floor
from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset

import numpy as np

cdef enum:
    SIDE = 64  # of the matrix of thresholds
    GRAIN = 2  # pixels have one threshold together, as colours of single pixels mix in the eye
    ROOM = 4  # pixels: what stands next to something this wide is lone
    # Columns of more states than this are drawn a part of the width at a time: 32 MB of sums.
    MOST_SUMS = 1 << 22

# What a whole pixel of a row is in sums of parts. They are integers, so that a state that has ended
# leaves nothing; with it, a nanosecond in a pixel of 20 minutes is not lost.
cdef double WHOLE = <double> (1 << 40)


cdef struct Band:
    int64_t width
    int64_t tall
    int64_t half       # the lines of a mark: half of a column, rounded up
    int64_t layers     # how many there are in this band
    int32_t* lines     # of the picture: 0 or 1 more than a layer of the panel
    int32_t* layer     # by layer of the band, that of the panel
    int32_t* own       # by layer of the panel, that of the band; -1 for none
    int64_t* sums      # by column and layer of the band, by how much its part of a column changes
    int64_t* run       # by layer of the band, its part of the current column
    int64_t* pixels    # by layer of the band, the pixels that show it
    int64_t* best      # by layer of the band, its largest part of a column
    int64_t* best_x    # in which column that is
    char* is_marked    # by column


cdef int _ascending(const void* a, const void* b) noexcept nogil:
    return (<int32_t*> a)[0] - (<int32_t*> b)[0]


cdef void begin(
    Band* band, const int32_t* state_index, int64_t first, int64_t last, const int32_t* layer_of
) noexcept nogil:
    """Begin a band in whose rectangles the states [first, last) of `state_index` occur."""
    cdef int64_t i
    cdef int32_t layer
    for i in range(band.layers):
        band.own[band.layer[i]] = -1
    band.layers = 0
    for i in range(first, last):
        layer = layer_of[state_index[i]]
        if band.own[layer] < 0:
            band.own[layer] = 0
            band.layer[band.layers] = layer
            band.layers += 1
    qsort(band.layer, band.layers, sizeof(int32_t), _ascending)
    for i in range(band.layers):
        band.own[band.layer[i]] = <int32_t> i
    memset(band.pixels, 0, band.layers * sizeof(int64_t))
    memset(band.best, 0, band.layers * sizeof(int64_t))
    memset(band.is_marked, 0, band.width)


cdef inline void add(Band* band, int64_t x, int64_t end, int64_t layer, double part) noexcept nogil:
    """Add a part of a layer to columns [x, end) of the sums."""
    cdef int64_t units = max(1, <int64_t> (part * WHOLE + 0.5))
    band.sums[x * band.layers + layer] += units
    band.sums[end * band.layers + layer] -= units


cdef inline void cover(
    Band* band, double left, double right, int64_t layer, double share
) noexcept nogil:
    """Add a layer with this share of [left, right) to the columns that it is in."""
    cdef int64_t x = <int64_t> left, last = <int64_t> right  # not negative: floored
    if x == last:
        add(band, x, x + 1, layer, share * (right - left))
        return
    add(band, x, x + 1, layer, share * (x + 1 - left))
    if x + 1 < last:
        add(band, x + 1, last, layer, share)
    if right > last:
        add(band, last, last + 1, layer, share * (right - last))


cdef void choose(
    Band* band, int64_t first, int64_t last, double whole, const uint16_t* thresholds,
    int64_t first_line
) noexcept nogil:
    """Write the pixels of columns [first, last), whose sums begin at `first`."""
    cdef int64_t x, y, layer, units, covered
    cdef double limit
    cdef const uint16_t* row
    memset(band.run, 0, band.layers * sizeof(int64_t))
    for x in range(first, last):
        covered = 0
        for layer in range(band.layers):
            units = band.run[layer] + band.sums[(x - first) * band.layers + layer]
            band.run[layer] = units
            covered += units
            if units > band.best[layer]:
                band.best[layer] = units
                band.best_x[layer] = x
        if not covered:
            continue
        for y in range(band.tall):
            row = thresholds + ((first_line + y) // GRAIN & (SIDE - 1)) * SIDE
            limit = (row[x // GRAIN & (SIDE - 1)] + 0.5) / (SIDE * SIDE) * whole
            covered = 0
            for layer in range(band.layers):
                covered += band.run[layer]
                if covered > limit:
                    band.lines[y * band.width + x] = band.layer[layer] + 1
                    band.pixels[layer] += 1
                    break


cdef bint can_mark(Band* band, int64_t x, int64_t layer) noexcept nogil:
    """Return whether a mark at a column hides neither another mark nor all of another state."""
    cdef int64_t y, shown
    if x < 0 or x >= band.width or band.is_marked[x]:
        return False
    for y in range(band.tall - band.half >> 1, (band.tall - band.half >> 1) + band.half):
        shown = band.lines[y * band.width + x]
        if shown and band.own[shown - 1] != layer and band.pixels[band.own[shown - 1]] <= band.half:
            return False
    return True


cdef void mark(Band* band, int64_t x, int64_t layer) noexcept nogil:
    """Show a layer in half of a column, or of the nearest that is free within `ROOM`."""
    cdef int64_t distance, at, y, shown
    for distance in range(ROOM + 1):
        at = x + distance
        if not can_mark(band, at, layer):
            at = x - distance
            if not can_mark(band, at, layer):
                continue
        band.is_marked[at] = 1
        for y in range(band.tall - band.half >> 1, (band.tall - band.half >> 1) + band.half):
            shown = band.lines[y * band.width + at]
            if shown:
                band.pixels[band.own[shown - 1]] -= 1
            band.lines[y * band.width + at] = band.layer[layer] + 1
            band.pixels[layer] += 1
        return


cdef void mark_lone(
    Band* band, double before, double left, double right, double after, int64_t layer
) noexcept nogil:
    """Show a rectangle that covers no whole pixel and stands next to something wide.

    Args:
        band: Its row.
        before: The width of what is before it, a rectangle or a gap.
        left: Where it begins.
        right: Where it ends.
        after: The width of what is after it.
        layer: What it shows.
    """
    cdef int64_t x, y, shown = 0
    if before < ROOM and after < ROOM:
        return
    for x in range(max(0, <int64_t> floor(left)), min(band.width, <int64_t> ceil(right))):
        for y in range(band.tall):
            shown += band.lines[y * band.width + x] == band.layer[layer] + 1
    if shown < band.half:
        mark(band, <int64_t> ((left + right) / 2), layer)


def dither(
    const int64_t[::1] row_offsets, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int64_t[::1] state_offsets: Int64s | None, const int32_t[::1] state_index,
    const int64_t[::1] state_ns: Int64s | None, const int32_t[::1] layer_of,
    int64_t window_start_ns, int64_t window_end_ns, int64_t width, int64_t tall,
    int64_t rows_a_band, const uint16_t[:, ::1] thresholds
) -> Int32s:
    """Return the pixels of rows, or of bands of adjacent rows that share their lines.

    Every state of a band is seen in at least half a column, if there is a free one near its largest
    part. So is, where each row has lines of its own, every rectangle that is narrower than two pixels and stands next to one
    or to a gap that is at least `ROOM` pixels wide: an event alone is seen, and a crowd of them does
    not look like more than it is.

    Args:
        row_offsets: Row r has the rectangles [row_offsets[r], row_offsets[r + 1]), in order of time.
        start_ns: Where a rectangle begins.
        end_ns: Where it ends.
        state_offsets: Rectangle i is in the states [state_offsets[i], state_offsets[i + 1]). None
            if each is in one state, `state_index[i]`.
        state_index: Which state.
        state_ns: How long; None if `state_offsets` is.
        layer_of: By state, its layer, of which there are as many as states.
        window_start_ns: What the left edge is.
        window_end_ns: What the right edge is.
        width: Pixels a line.
        tall: Lines a band.
        rows_a_band: How many rows share the lines of a band.
        thresholds: A permutation of 0 to 4,095 in 64 rows.

    Returns:
        int32, bands x `tall` lines of `width` pixels: 1 more than the layer, 0 where no state is.
    """
    cdef int64_t rows = row_offsets.shape[0] - 1, bands = -(-rows // rows_a_band)
    cdef int64_t number, row, last_row, i, j, state, first, last, chunk, members, room = 0
    cdef int64_t states = layer_of.shape[0], from_, until
    cdef double scale = width / (<double> window_end_ns - <double> window_start_ns)
    cdef double left, right, length, before, after
    cdef bint single = state_offsets is None
    picture = np.zeros((bands * tall, width), np.int32)
    if not picture.size or not states:
        return picture
    cdef int32_t[:, ::1] lines = picture
    cdef Band band
    memset(&band, 0, sizeof(Band))
    band.width = width
    band.tall = tall
    band.half = (tall + 1) >> 1
    # by state: enough for any band
    layers_array = np.empty((2, states), np.int32)
    numbers_array = np.empty((4, states), np.int64)
    own_array = np.full(states, -1, np.int32)
    marked_array = np.empty(width, np.int8)
    cdef int32_t[:, ::1] layers = layers_array
    cdef int64_t[:, ::1] numbers = numbers_array
    cdef int32_t[::1] own = own_array
    cdef char[::1] marked = marked_array
    band.layer = &layers[0, 0]
    band.own = &own[0]
    band.run = &numbers[0, 0]
    band.pixels = &numbers[1, 0]
    band.best = &numbers[2, 0]
    band.best_x = &numbers[3, 0]
    band.is_marked = &marked[0]
    try:
        for number in range(bands):
            row = number * rows_a_band
            last_row = min(rows, row + rows_a_band)
            members = last_row - row
            from_ = row_offsets[row]
            until = row_offsets[last_row]
            if from_ == until:
                continue
            first = from_ if single else state_offsets[from_]
            last = until if single else state_offsets[until]
            with nogil:
                begin(&band, &state_index[0], first, last, &layer_of[0])
            band.lines = &lines[number * tall, 0]
            chunk = min(width, max(1, MOST_SUMS // band.layers))
            if (chunk + 2) * band.layers > room:
                free(band.sums)
                room = (chunk + 2) * band.layers
                band.sums = <int64_t*> malloc(room * sizeof(int64_t))
                if not band.sums:
                    raise MemoryError
            with nogil:
                first = 0
                while first < width:
                    last = min(width, first + chunk)
                    memset(band.sums, 0, (last - first + 2) * band.layers * sizeof(int64_t))
                    for i in range(from_, until):
                        left = (start_ns[i] - window_start_ns) * scale - first
                        right = (end_ns[i] - window_start_ns) * scale - first
                        left = max(0.0, left)
                        right = min(<double> (last - first), right)
                        if right <= left:
                            continue  # outside
                        if single:
                            cover(&band, left, right, band.own[layer_of[state_index[i]]], 1)
                            continue
                        length = <double> (end_ns[i] - start_ns[i])
                        for j in range(state_offsets[i], state_offsets[i + 1]):
                            cover(
                                &band, left, right, band.own[layer_of[state_index[j]]],
                                state_ns[j] / length,
                            )
                    choose(
                        &band, first, last, WHOLE * members, &thresholds[0, 0], number * tall
                    )
                    first = last
                if rows_a_band == 1:
                    right = 0
                    for i in range(from_, until):
                        before = (start_ns[i] - window_start_ns) * scale - right
                        if before <= 0 and i > from_:
                            before = (end_ns[i - 1] - start_ns[i - 1]) * scale
                        left = (start_ns[i] - window_start_ns) * scale
                        right = (end_ns[i] - window_start_ns) * scale
                        if floor(right) > ceil(left):
                            continue
                        if i + 1 == until:
                            after = width - right
                        elif start_ns[i + 1] > end_ns[i]:
                            after = (start_ns[i + 1] - end_ns[i]) * scale
                        else:
                            after = (end_ns[i + 1] - start_ns[i + 1]) * scale
                        j = i
                        if not single:
                            # the longest state, of equals the first
                            for state in range(state_offsets[i], state_offsets[i + 1]):
                                if state == state_offsets[i] or state_ns[state] > state_ns[j]:
                                    j = state
                        mark_lone(
                            &band, before, left, right, after, band.own[layer_of[state_index[j]]]
                        )
                for j in range(band.layers):
                    if band.best[j] and not band.pixels[j]:
                        mark(&band, band.best_x[j], j)
    finally:
        free(band.sums)
    return picture
