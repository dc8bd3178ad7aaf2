from meantime.columns import Int32s, Int64s

def pixel_error(
    start: Int64s,
    end: Int64s,
    row: Int32s,
    state: Int32s,
    first: Int64s,
    states: int,
    window_start: int,
    window_end: int,
    pixels: int,
) -> float: ...
