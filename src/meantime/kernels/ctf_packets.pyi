from meantime.columns import Int64s

INTEGER: int
FLOAT: int
STRING: int
ENUM: int
STRUCT: int
VARIANT: int
ARRAY: int
SEQUENCE: int
TEXT: int
TEXT_SEQUENCE: int
NOTHING: int
MAGIC: int
STREAM_ID: int
INSTANCE: int
PACKET_BITS: int
CONTENT_BITS: int
BEGIN_TIME: int
END_TIME: int
DISCARDED: int
SEQUENCE_NUMBER: int
EVENT_ID: int
IS_SIGNED: int
IS_BIG: int
IS_KEPT: int
IS_CLOCK: int
ENDED: int
FULL: int
NEEDS_PACKET: int
IS_DAMAGED: int
BEYOND: int
REASONS: dict[int, str]

class CtfPackets:
    unread_lines: int
    dropped_fields: int
    needed: int

    def __init__(
        self,
        nodes: Int64s,
        ranges: Int64s,
        classes: Int64s,
        events: Int64s,
        names: bytes,
        registers: int,
        is_old: bool,
    ) -> None: ...
    def add_stream(self) -> int: ...
    def head(
        self, stream: int, data: bytes, header: int, first: int, count: int
    ) -> tuple[int, int, int, dict[int, int]]: ...
    def load(self, stream: int, data: bytes, bits: int, header: int, class_: int) -> int: ...
    def has_event(self, stream: int) -> bool: ...
    def at_bits(self, stream: int) -> tuple[int, int]: ...
    def time_ns(self, class_: int, cycles: int) -> int: ...
    def run(self, output: bytearray | memoryview) -> tuple[int, int, int, int]: ...
