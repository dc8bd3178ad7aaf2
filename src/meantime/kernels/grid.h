/* A window cut into cells: edge i of `cells` is start + ceil(i * length / cells). */
#ifndef MEANTIME_GRID_H
#define MEANTIME_GRID_H

#include <stdint.h>

typedef struct {
    int64_t start;
    uint64_t length;
    uint64_t cells;
    int narrow; /* whether length * cells fits 64 bits: most windows, and a much faster division */
} Grid;

static inline Grid grid_of(int64_t start, int64_t end, int64_t cells) {
    Grid grid = {start, (uint64_t)end - (uint64_t)start, (uint64_t)cells, 0};
    if (grid.length == 0) grid.length = 1; /* grid_cell divides by it */
    grid.narrow = grid.length <= (UINT64_MAX - grid.length) / grid.cells;
    return grid;
}

/* The cell that contains a time of the window. */
static inline uint64_t grid_cell(const Grid *grid, int64_t time) {
    /* The inverse of grid_edge: i <= passed * cells / length means passed >= i * length / cells,
     * and an integer is at least a number exactly if it is at least the number rounded up. */
    uint64_t passed = (uint64_t)time - (uint64_t)grid->start;
    if (grid->narrow) return passed * grid->cells / grid->length;
    return (uint64_t)((unsigned __int128)passed * grid->cells / grid->length);
}

/* The last of the coarser cells may end after the grid; that edge would not fit 64 bits in a window
 * of hours, and nothing is there. */
static inline int64_t grid_edge(const Grid *grid, uint64_t index) {
    uint64_t edge;
    if (index > grid->cells) index = grid->cells;
    if (grid->narrow)
        edge = (index * grid->length + grid->cells - 1) / grid->cells;
    else
        edge = (uint64_t)(((unsigned __int128)index * grid->length + grid->cells - 1) / grid->cells);
    return (int64_t)((uint64_t)grid->start + edge);
}

#endif
