"""From a path to a history: what is built, kept and found again."""
