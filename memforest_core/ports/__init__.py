"""What the contexts need from the outside world, as Protocols."""
