"""The history: the intervals of all attributes, how it is built, kept and queried."""
