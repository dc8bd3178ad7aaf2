"""The numbers of the recording format, by name, as collect/record_kinds.h defines them."""


cdef dict by_name(const record_number *row):
    numbers = {}
    while row.name != NULL:
        numbers[row.name.decode("ascii")] = row.number
        row += 1
    return numbers


KINDS: dict[str, int] = by_name(record_kinds)
LEAVES: dict[str, int] = by_name(location_leaves)
POLICIES: dict[str, int] = by_name(record_policies)
SIZES: dict[str, int] = by_name(record_sizes)
