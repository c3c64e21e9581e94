"""OpenAI's chat API with memory: the paths that an app calls instead of its model."""
