"""The statements of this folder."""
