"""For tests, ours and our users': timelines drawn as pictures, contracts, strategies."""
