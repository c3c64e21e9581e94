"""The reducer: one writer per forest that turns extracted cells into facts in trees."""
