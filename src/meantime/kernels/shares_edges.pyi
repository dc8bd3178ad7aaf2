from meantime.columns import Int64s

class Bins:
    bins: int
    edges: Int64s

    def __init__(self, edges: Int64s) -> None: ...
