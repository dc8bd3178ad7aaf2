"""The statemap: entities on the Y axis, time on the X axis, states in colour."""
