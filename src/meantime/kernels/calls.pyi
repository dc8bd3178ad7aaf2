from meantime.columns import Int32s, Int64s

def stacks(parent: Int32s, name: Int32s) -> tuple[Int32s, Int32s, Int32s]: ...
def spread(parent: Int32s, weight: Int64s) -> None: ...
def durations(
    start_ns: Int64s,
    end_ns: Int64s,
    parent: Int32s,
    offsets: Int64s,
    group: Int32s,
    groups: int,
    from_ns: int,
    to_ns: int,
    quantiles: Int64s,
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s]: ...
