"""For tests, ours and our users': timelines drawn as pictures, contracts, strategies."""

from meantime.testing.pictures import history_from_picture, picture
from meantime.testing.spans import history_from_samples, history_from_spans

__all__ = ["history_from_picture", "history_from_samples", "history_from_spans", "picture"]
