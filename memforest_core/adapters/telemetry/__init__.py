"""What the pipeline tells about itself: metrics and traces."""
