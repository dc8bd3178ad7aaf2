"""What columns of pixels show: shares and loads of states, and the spans that are thinner."""

from libc.math cimport ceil, floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

cdef enum:
    SHARES = 5
    TOP = 3
    # Cells that are added up at once: 8 MB of sums.
    BAND_CELLS = 1 << 18

cdef struct Row:
    int64_t width
    int64_t tall
    int64_t layers
    double* covered  # by column and layer, the part of the column that the layer has
    int64_t* alike   # by column, how many from it on have its `covered`; 0 if that is not set
    int64_t* size    # by layer, the lines of a column


cdef inline void add(Row* row, int64_t x, int64_t layer, double part) noexcept nogil:
    if not row.alike[x]:
        row.alike[x] = 1
        memset(row.covered + x * row.layers, 0, row.layers * sizeof(double))
    row.covered[x * row.layers + layer] += part


cdef inline void cover(
    Row* row, double left, double right, int64_t layer, double share
) noexcept nogil:
    """Add a layer with this share of [left, right) to the columns that it is in."""
    cdef int64_t x = <int64_t> left  # not negative, so a conversion is its floor
    cdef int64_t last = <int64_t> right
    if x == last:
        add(row, x, layer, share * (right - left))
        return
    add(row, x, layer, share * (x + 1 - left))
    x += 1
    if x < last:
        # rectangles of a row do not overlap, so this one alone is in all of these columns
        add(row, x, layer, share)
        row.alike[x] = last - x
    if right > last:
        add(row, last, layer, share * (right - last))


cdef void draw(Row* row, const uint8_t* noticed, uint8_t* lines) noexcept nogil:
    """Write the columns of a row: 1 and the layer for a pixel, 0 where no state is."""
    cdef int64_t x, layer, y, end, drawn, largest, lacking, size, taken, most, smallest
    cdef int64_t least = <int64_t> ceil(row.tall / 60.0)
    cdef double sum
    cdef double* covered
    for x in range(row.width):
        if not row.alike[x]:
            continue
        covered = row.covered + x * row.layers
        sum = 0
        drawn = 0
        largest = 0
        lacking = 0
        for layer in range(row.layers):
            row.size[layer] = 0
            if covered[layer] <= 0:
                continue
            sum += covered[layer]
            end = <int64_t> (min(1.0, sum) * row.tall + 0.5)  # not negative: floored
            size = end - drawn
            drawn = end
            if size < least and noticed[layer]:
                lacking += least - size
                size = least
            row.size[layer] = size
            if size > row.size[largest]:
                largest = layer
        if lacking:
            row.size[largest] = max(least, row.size[largest] - lacking)
        # small shares are seen, but not in more lines than are covered: the largest of them
        most = max(least, <int64_t> ceil(min(1.0, sum) * row.tall - 1e-3))
        taken = 0
        for layer in range(row.layers):
            taken += row.size[layer]
        while taken > most:
            smallest = -1
            for layer in range(row.layers):
                if row.size[layer] and (smallest < 0 or covered[layer] < covered[smallest]):
                    smallest = layer
            row.size[smallest] -= 1
            taken -= 1
        y = row.tall
        for layer in range(row.layers):
            end = max(0, y - row.size[layer])
            while y > end:
                y -= 1
                if row.alike[x] == 1:
                    lines[y * row.width + x] = <uint8_t> (layer + 1)
                else:
                    memset(lines + y * row.width + x, <int> layer + 1, row.alike[x])


def stack(
    const int64_t[::1] row_offsets, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int64_t[::1] state_offsets: Int64s | None, const int32_t[::1] state_index,
    const int64_t[::1] state_ns: Int64s | None, const uint8_t[::1] layer_of,
    const uint8_t[::1] noticed, int64_t window_start_ns, int64_t window_end_ns, int64_t width,
    int64_t tall
) -> bytes:
    """Return the rows as `bytes` of rows x tall x width: 1 and a layer, or 0 for no state.

    Args:
        row_offsets: Row r has the rectangles [row_offsets[r], row_offsets[r + 1]).
        start_ns: Where a rectangle begins.
        end_ns: Where it ends.
        state_offsets: Rectangle i is in the states [state_offsets[i], state_offsets[i + 1]). None
            if each is in one state, `state_index[i]`.
        state_index: Which state.
        state_ns: How long; None if `state_offsets` is.
        layer_of: By state, its layer: how far from the bottom of a column it is stacked.
        noticed: By layer, whether the smallest share is seen.
        window_start_ns: What the left edge is.
        window_end_ns: What the right edge is.
        width: Pixels a line.
        tall: Lines a row.
    """
    cdef int64_t rows = row_offsets.shape[0] - 1, number, i, j
    cdef double scale = width / (<double> window_end_ns - <double> window_start_ns)
    cdef double left, right, length
    cdef bint single = state_offsets is None
    image = bytearray(rows * tall * width)
    if not len(image):
        return bytes(image)
    cdef uint8_t[::1] lines = image
    cdef Row row
    row.width = width
    row.tall = tall
    row.layers = noticed.shape[0]
    row.covered = <double*> malloc(width * row.layers * sizeof(double))
    row.alike = <int64_t*> malloc(width * sizeof(int64_t))
    row.size = <int64_t*> malloc(row.layers * sizeof(int64_t))
    try:
        if not (row.covered and row.alike and row.size):
            raise MemoryError
        with nogil:
            for number in range(rows):
                memset(row.alike, 0, width * sizeof(int64_t))
                right = 0
                for i in range(row_offsets[number], row_offsets[number + 1]):
                    # most begin where the one before ends
                    if i == row_offsets[number] or start_ns[i] != end_ns[i - 1]:
                        right = (start_ns[i] - window_start_ns) * scale
                    left = max(0.0, right)
                    right = min(<double> width, (end_ns[i] - window_start_ns) * scale)
                    if right <= left:
                        continue  # outside the window
                    if single:
                        cover(&row, left, right, layer_of[state_index[i]], 1)
                        continue
                    length = <double> (end_ns[i] - start_ns[i])
                    for j in range(state_offsets[i], state_offsets[i + 1]):
                        cover(&row, left, right, layer_of[state_index[j]], state_ns[j] / length)
                draw(&row, &noticed[0], &lines[number * tall * width])
    finally:
        free(row.covered)
        free(row.alike)
        free(row.size)
    return bytes(image)


def span_cells(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] row,
    const int32_t[::1] name: Int32s | None, const int32_t[::1] chosen: Int32s | None,
    int64_t tile_ns, int level, int64_t bins, int64_t rows
) -> tuple[Int32s, Int64s, Int64s, Int32s, Int32s]:
    """Return which spans are at least a bin long, and what the others add up to in each cell.

    Bin i is [tile_ns + i * 2^level, tile_ns + (i + 1) * 2^level). A cell is a bin of a row; cells
    in which none of the shorter spans is are left out.

    Args:
        start_ns: Where each span begins.
        end_ns: Where it ends, not before it begins.
        row: Its row, from 0 to `rows` - 1.
        name: Its name; None if that is its index.
        chosen: The spans that overlap the tile, or more; None if these are all.
        tile_ns: Where the first bin begins.
        level: The width of a bin, as a power of two: at most 53.
        bins: How many bins.
        rows: How many rows.

    Returns:
        The spans that are at least a bin long and overlap the tile, as int32; and by cell, in order
        of row and bin: the row times bins plus the bin, as int64; how long spans cover it, as int64;
        how many begin in it, as int32; and the name of the longest, as int32.
    """
    cdef bint is_named = name is not None, are_all = chosen is None
    cdef int64_t count = start_ns.shape[0] if are_all else chosen.shape[0]
    cdef int64_t i, k, s, e, length, cell, first_row, last_row, first, last
    cdef int64_t wide = 0, tile_end = tile_ns + (bins << level), per_band, used, least
    cdef int64_t width = <int64_t> 1 << level
    wide_array = np.empty(count, np.int32)
    cdef int32_t[::1] found = wide_array
    per_band = max(1, BAND_CELLS // bins)
    size = min(rows, per_band) * bins
    covered_array = np.zeros(size, np.int64)
    longest_array = np.full(size, -1, np.int64)
    begun_array = np.zeros(size, np.int32)
    named_array = np.zeros(size, np.int32)
    cdef int64_t[::1] covered = covered_array, longest = longest_array
    cdef int32_t[::1] begun = begun_array, named = named_array
    parts = []
    for first_row in range(0, max(rows, 1), per_band):
        last_row = min(rows, first_row + per_band)
        with nogil:
            for k in range(count):
                i = k if are_all else chosen[k]
                s = start_ns[i]
                e = end_ns[i]
                if s >= tile_end or e < tile_ns or (e == tile_ns and s < tile_ns):
                    continue
                # unsigned, as it may exceed 63 bits
                if <uint64_t> e - <uint64_t> s >= <uint64_t> width:
                    if first_row == 0:
                        found[wide] = <int32_t> i
                        wide += 1
                    continue
                if row[i] < first_row or row[i] >= last_row:
                    continue
                length = e - s
                cell = (row[i] - first_row) * bins
                if s >= tile_ns:
                    first = (s - tile_ns) >> level
                    begun[cell + first] += 1
                    last = (e - tile_ns) >> level
                    if last == first:
                        covered[cell + first] += length
                    else:
                        least = tile_ns + (last << level)
                        covered[cell + first] += least - s
                        if last < bins and e > least:
                            covered[cell + last] += e - least
                            if length > longest[cell + last]:
                                longest[cell + last] = length
                                named[cell + last] = name[i] if is_named else <int32_t> i
                else:
                    first = 0
                    covered[cell] += e - tile_ns
                if length > longest[cell + first]:
                    longest[cell + first] = length
                    named[cell + first] = name[i] if is_named else <int32_t> i
        cells = np.flatnonzero(longest_array >= 0)
        parts.append((cells + first_row * bins, covered_array[cells], begun_array[cells],
                      named_array[cells]))
        if last_row < rows:
            covered_array[:] = 0
            longest_array[:] = -1
            begun_array[:] = 0
    columns = [np.concatenate(column) for column in zip(*parts)]
    return wide_array[:wide].copy(), *columns


def state_cells(
    const int32_t[::1] row, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int32_t[::1] code, int64_t tile_ns, int level, int64_t bins, int64_t states
) -> tuple[Int64s, npt.NDArray[np.uint8], Int32s]:
    """Return how states divide the cells of rows: those in which there is any state.

    Args:
        row: The row of each interval, ascending; intervals of a row do not overlap.
        start_ns: Where it begins.
        end_ns: Where it ends.
        code: Its state, below `states`; negative if it has none.
        tile_ns: Where the first bin begins.
        level: The width of a bin, as a power of two: at most 53.
        bins: How many bins.
        states: How many states there are.

    Returns:
        By cell, in order of row and bin: the row times bins plus the bin, as int64; its shares as
        uint8, five each; and the codes of the three longest states as int32, as in a `StateTile`.
    """
    cdef int64_t count = row.shape[0], i = 0, j, k, s, e, bin_, last, time_ns, rest, best, rank
    cdef int64_t tile_end = tile_ns + (bins << level), width = <int64_t> 1 << level
    cdef int64_t room = 0, cells = 0, first_bin, end_bin
    cdef int32_t current
    if not count or not states:
        return np.empty(0, np.int64), np.empty((0, SHARES), np.uint8), np.empty((0, TOP), np.int32)
    sums_array = np.zeros(bins * states, np.int64)
    filled_array = np.zeros(bins, np.uint8)
    cdef int64_t[::1] sums = sums_array
    cdef uint8_t[::1] filled = filled_array
    for i in range(count):
        if start_ns[i] < tile_end and end_ns[i] > tile_ns and code[i] >= 0:
            first_bin = (max(start_ns[i], tile_ns) - tile_ns) >> level
            room += ((min(end_ns[i], tile_end) - 1 - tile_ns) >> level) - first_bin + 1
    room = min(room, bins * (np.count_nonzero(np.diff(np.asarray(row))) + 1))
    number_array = np.empty(room, np.int64)
    shares_array = np.zeros((room, SHARES), np.uint8)
    codes_array = np.zeros((room, TOP), np.int32)
    cdef int64_t[::1] number = number_array
    cdef uint8_t[:, ::1] shares = shares_array
    cdef int32_t[:, ::1] codes = codes_array
    i = 0
    with nogil:
        while i < count:
            current = row[i]
            first_bin = bins
            end_bin = 0
            while i < count and row[i] == current:
                s = max(start_ns[i], tile_ns)
                e = min(end_ns[i], tile_end)
                k = code[i]
                i += 1
                if s >= e or k < 0:
                    continue
                bin_ = (s - tile_ns) >> level
                last = (e - 1 - tile_ns) >> level
                first_bin = min(first_bin, bin_)
                end_bin = max(end_bin, last + 1)
                while bin_ < last:
                    time_ns = tile_ns + ((bin_ + 1) << level) - s
                    sums[bin_ * states + k] += time_ns
                    filled[bin_] = 1
                    s += time_ns
                    bin_ += 1
                sums[bin_ * states + k] += e - s
                filled[bin_] = 1
            for bin_ in range(first_bin, end_bin):
                if not filled[bin_]:
                    continue
                filled[bin_] = 0
                number[cells] = current * bins + bin_
                rest = 0
                for k in range(states):
                    rest += sums[bin_ * states + k]
                if rest < width:
                    shares[cells, 0] = <uint8_t> max(1, ((width - rest) * 255) >> level)
                for rank in range(TOP):
                    best = 0
                    for k in range(1, states):
                        if sums[bin_ * states + k] > sums[bin_ * states + best]:
                            best = k
                    time_ns = sums[bin_ * states + best]
                    if time_ns == 0:
                        break
                    sums[bin_ * states + best] = 0
                    rest -= time_ns
                    codes[cells, rank] = <int32_t> best
                    shares[cells, rank + 1] = <uint8_t> max(1, (time_ns * 255) >> level)
                if rest:
                    shares[cells, 4] = <uint8_t> max(1, (rest * 255) >> level)
                    for k in range(states):
                        sums[bin_ * states + k] = 0
                cells += 1
    return number_array[:cells], shares_array[:cells], codes_array[:cells]


def state_load(
    const int64_t[::1] start_ns, const int64_t[::1] end_ns, const int32_t[::1] code,
    int64_t from_ns, int64_t to_ns, int64_t tile_ns, int level, double[:, ::1] partly,
    int64_t[:, ::1] whole: Int64s
):
    """Add how many intervals are in each state, on average over each bin of a tile.

    Of the part of an interval in [from_ns, to_ns), which is within the tile, what covers bins in
    part is added to `partly`, in bins; for the bins that it covers, `whole` is changed by 1 at the
    first of them, and by -1 after the last. A code below 0 stands for none. Both are by state, and
    `whole` has a bin more.
    """
    cdef Py_ssize_t i
    cdef uint64_t begin, end, mask = (<uint64_t>1 << level) - 1
    cdef int64_t first, last
    cdef double bin_ns = <double>(<uint64_t>1 << level)
    cdef int32_t state
    with nogil:
        for i in range(code.shape[0]):
            state = code[i]
            if state < 0 or start_ns[i] >= to_ns or end_ns[i] <= from_ns:
                continue
            begin = <uint64_t>max(start_ns[i], from_ns) - <uint64_t>tile_ns
            end = <uint64_t>min(end_ns[i], to_ns) - <uint64_t>tile_ns
            first = <int64_t>(begin >> level)
            last = <int64_t>(end >> level)
            if first == last:
                partly[state, first] += <double>(end - begin) / bin_ns
                continue
            if begin & mask:
                partly[state, first] += 1 - <double>(begin & mask) / bin_ns
                first += 1
            if end & mask:
                partly[state, last] += <double>(end & mask) / bin_ns
            whole[state, first] += 1
            whole[state, last] -= 1
