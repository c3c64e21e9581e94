"""Evaluation of recall on public and own conversations, with honest baselines in the same run."""
