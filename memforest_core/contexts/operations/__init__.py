"""What people ask of stored memory: tasks that survive a kill, with progress, a dry run, and a row in the audit."""
