from meantime.columns import Int32s, Int64s

def bin_edges(start_ns: int, end_ns: int, bins: int) -> Int64s: ...
def shares(
    quark: Int32s,
    start: Int64s,
    end: Int64s,
    code: Int32s,
    edges: Int64s,
    birth: Int64s,
    scratch_ns: Int64s,
    scratch_code: Int32s,
    out_quark: Int32s,
    out_bin: Int32s,
    out_code: Int32s,
    out_ns: Int64s,
    cell_quark: Int32s,
    cell_bin: Int32s,
    cell_changes: Int64s,
) -> tuple[int, int]: ...
