"""What goes into the prompt of one chat turn, within one budget: profile, days, evidence and window."""
