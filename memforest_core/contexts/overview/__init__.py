"""What waits, who works and what it cost, at one moment."""
