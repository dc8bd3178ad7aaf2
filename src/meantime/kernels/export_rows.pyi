import numpy as np
import numpy.typing as npt

from meantime.columns import Int32s, Int64s

MARKER: int
ANNOTATIONS: int
ATTRIBUTES: int
SPAN_ATTRIBUTES: int

def arguments(
    form: int, text: npt.NDArray[np.uint8], offset: Int64s, length: Int64s
) -> tuple[
    npt.NDArray[np.uint8],
    Int64s,
    npt.NDArray[np.uint8],
    npt.NDArray[np.uint8],
    npt.NDArray[np.uint8],
]: ...
def service_ids(
    text: npt.NDArray[np.uint8], offset: Int64s, length: Int64s
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...
def inherit_ids(ids: npt.NDArray[np.uint64], parent: Int32s) -> None: ...
def track_events(
    before: bytes,
    within: bytes,
    time: npt.NDArray[np.uint64],
    head: Int32s,
    heads: bytes,
    head_offset: Int64s,
    text: npt.NDArray[np.uint8],
    offset: Int64s,
    length: Int64s,
    tail: Int32s,
    tails: bytes,
    tail_offset: Int64s,
) -> tuple[bytes, Int64s]: ...
def stack_samples(
    parent: Int32s,
    location: npt.NDArray[np.uint64],
    stack: Int64s,
    weights: Int64s,
    before: int,
    after: int,
    label: Int32s,
    labels: bytes,
    label_offset: Int64s,
) -> bytes: ...
def decimals(
    value: Int64s, origin: int, decimals: int, is_null: npt.NDArray[np.uint8]
) -> bytes: ...
def frame_events(begins: npt.NDArray[np.uint8], frame: Int32s, time: Int64s) -> bytes: ...
def state_lines(
    time: Int64s,
    origin: int,
    entity: Int32s,
    entities: bytes,
    entity_offset: Int64s,
    state: Int32s,
    tail: Int32s,
    tails: bytes,
    tail_offset: Int64s,
) -> bytes: ...
def joined(text: npt.NDArray[np.uint8], offset: Int64s, length: Int64s, other: bytes) -> bytes: ...
def otlp_spans(
    ids: npt.NDArray[np.uint64],
    name: Int32s,
    names: bytes,
    name_offset: Int64s,
    kind: npt.NDArray[np.uint8],
    start: npt.NDArray[np.uint64],
    end: npt.NDArray[np.uint64],
    is_open: npt.NDArray[np.uint8],
    text: npt.NDArray[np.uint8],
    offset: Int64s,
    length: Int64s,
    more: Int32s,
    mores: bytes,
    more_offset: Int64s,
    is_error: npt.NDArray[np.uint8],
    rest: npt.NDArray[np.uint8],
    rest_offset: Int64s,
    rest_length: Int64s,
) -> bytes: ...
