"""The commands of this folder."""
