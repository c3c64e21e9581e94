"""Building a forest anew from its persistent state, beside the live one: other rules, prompts or models."""
