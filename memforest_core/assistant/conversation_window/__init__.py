"""The window of a session: the last turns word for word, older ones as summaries, and what recall found."""
