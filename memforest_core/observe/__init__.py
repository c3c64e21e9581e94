"""What can be seen of it: status, trees, costs, metrics, traces."""
