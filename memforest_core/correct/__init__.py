"""Facts that somebody knows better: corrected with their history kept, pinned and unpinned."""
