class CtfText:
    unread_lines: int
    dropped_fields: int

    def __init__(self, is_old: bool) -> None: ...
    def rewrite(
        self, text: bytes | bytearray | memoryview, output: bytearray | memoryview
    ) -> tuple[int, int]: ...
