from meantime.columns import Int32s, Int64s

def innermost_segments(
    start_ns: Int64s, end_ns: Int64s, offsets: Int64s
) -> tuple[Int32s, Int64s, Int64s]: ...
