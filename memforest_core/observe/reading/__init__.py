"""Reading what is stored, page by page, without a question and without models."""
