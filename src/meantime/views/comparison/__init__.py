"""The picture of a comparison of runs: what changed, and both sides over time."""
