"""Looking inside: what a forest holds, what is under way, and why something waits."""
