"""The calendar of an owner: what happened on each day, speaker by speaker, and in weeks, months and years."""
