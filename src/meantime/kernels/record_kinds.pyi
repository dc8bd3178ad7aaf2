KINDS: dict[str, int]
LEAVES: dict[str, int]
POLICIES: dict[str, int]
SIZES: dict[str, int]
