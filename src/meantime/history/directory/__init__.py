"""A history on disk, `NAME.mth/`: writing it, reading it back, checking and salvaging it."""
