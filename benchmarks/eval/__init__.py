"""Evaluation of recall on public and own conversations, beside honest baselines in the same run."""
