"""Work as rows: states, leases, what an error means, and waking what stands still."""
