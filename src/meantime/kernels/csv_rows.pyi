from typing import Any

from meantime.columns import Int32s, Int64s

def read_rows(
    text: memoryview, start: int, wanted: list[tuple[int, bool]]
) -> list[tuple[Any, Any]] | None: ...
def changes(
    starts: Int64s, ends: Int64s, paths: Int32s, values: Int32s, path_count: int
) -> tuple[Int64s, Int32s, Int32s] | int: ...
