"""What a cell of an event is; see `event_cells.pyx`."""

# What the word of a cell is.
cdef enum:
    ABSENT = 0  # in columns only: the event lacks the field
    NONE
    TEXT  # its code
    INT
    FLOAT  # its bits
    FALSE
    TRUE
    JSON  # the code of the text of an array or object, as it is in the file
    OBJECT  # the index of a Python object
