"""What traces and histories are made of: times, columns, paths, states and facts about them."""
