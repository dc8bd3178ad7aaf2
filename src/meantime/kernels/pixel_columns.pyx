"""The rows of a statemap as pixels, in which each column stacks the shares of its states."""

from libc.math cimport ceil, floor
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef struct Row:
    int64_t width
    int64_t tall
    int64_t layers
    double* covered  # by column and layer, the part of the column that the layer has
    uint8_t* mixed   # by column, whether `covered` is set
    int64_t* size    # by layer, the lines of a column


cdef inline void add(Row* row, int64_t x, int64_t layer, double part) noexcept nogil:
    if not row.mixed[x]:
        row.mixed[x] = 1
        memset(row.covered + x * row.layers, 0, row.layers * sizeof(double))
    row.covered[x * row.layers + layer] += part


cdef void draw(Row* row, const uint8_t* noticed, uint8_t* lines) noexcept nogil:
    """Write the columns of a row: 1 and the layer for a pixel, 0 where no state is."""
    cdef int64_t x, layer, y, end, drawn, largest, lacking, size, taken, most, smallest
    cdef int64_t least = <int64_t> ceil(row.tall / 60.0)
    cdef double sum
    cdef double* covered
    for x in range(row.width):
        if not row.mixed[x]:
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
            end = <int64_t> floor(min(1.0, sum) * row.tall + 0.5)
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
                lines[y * row.width + x] = <uint8_t> (layer + 1)


def stack(
    const int64_t[::1] row_offsets, const int64_t[::1] start_ns, const int64_t[::1] end_ns,
    const int64_t[::1] state_offsets, const int32_t[::1] state_index, const int64_t[::1] state_ns,
    const uint8_t[::1] layer_of, const uint8_t[::1] noticed,
    int64_t window_start_ns, int64_t window_end_ns, int64_t width, int64_t tall,
):
    """Return the rows as `bytes` of rows x tall x width: 1 and a layer, or 0 for no state.

    Args:
        row_offsets: Row r has the rectangles [row_offsets[r], row_offsets[r + 1]).
        start_ns: Where a rectangle begins.
        end_ns: Where it ends.
        state_offsets: Rectangle i is in the states [state_offsets[i], state_offsets[i + 1]).
        state_index: Which state.
        state_ns: How long.
        layer_of: By state, its layer: how far from the bottom of a column it is stacked.
        noticed: By layer, whether the smallest share is seen.
        window_start_ns: What the left edge is.
        window_end_ns: What the right edge is.
        width: Pixels a line.
        tall: Lines a row.
    """
    cdef int64_t rows = row_offsets.shape[0] - 1, number, i, j, x, last
    cdef double scale = width / (<double> window_end_ns - <double> window_start_ns)
    cdef double left, right, length, share
    image = bytearray(rows * tall * width)
    if not len(image):
        return bytes(image)
    cdef uint8_t[::1] lines = image
    cdef Row row
    row.width = width
    row.tall = tall
    row.layers = noticed.shape[0]
    row.covered = <double*> malloc(width * row.layers * sizeof(double))
    row.mixed = <uint8_t*> malloc(width)
    row.size = <int64_t*> malloc(row.layers * sizeof(int64_t))
    try:
        if not (row.covered and row.mixed and row.size):
            raise MemoryError
        with nogil:
            for number in range(rows):
                memset(row.mixed, 0, width)
                for i in range(row_offsets[number], row_offsets[number + 1]):
                    left = max(0.0, (start_ns[i] - window_start_ns) * scale)
                    right = min(<double> width, (end_ns[i] - window_start_ns) * scale)
                    if right <= left:
                        continue  # outside the window
                    length = <double> (end_ns[i] - start_ns[i])
                    for j in range(state_offsets[i], state_offsets[i + 1]):
                        share = state_ns[j] / length
                        x = <int64_t> floor(left)
                        last = <int64_t> floor(right)
                        if x == last:
                            add(&row, x, layer_of[state_index[j]], share * (right - left))
                            continue
                        add(&row, x, layer_of[state_index[j]], share * (x + 1 - left))
                        for x in range(x + 1, last):
                            add(&row, x, layer_of[state_index[j]], share)
                        if right > last:
                            add(&row, last, layer_of[state_index[j]], share * (right - last))
                draw(&row, &noticed[0], &lines[number * tall * width])
    finally:
        free(row.covered)
        free(row.mixed)
        free(row.size)
    return bytes(image)
