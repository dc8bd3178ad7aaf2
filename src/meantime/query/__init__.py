"""Questions over a history that are made of its primitives."""
