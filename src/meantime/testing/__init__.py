"""For tests, ours and our users': timelines drawn as pictures, contracts, strategies."""

from meantime.testing.pictures import history_from_picture, picture

__all__ = ["history_from_picture", "picture"]
