from typing import Any

def read_rows(
    text: memoryview, start: int, wanted: list[tuple[int, bool]]
) -> list[tuple[Any, Any]] | None: ...
