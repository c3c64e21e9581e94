"""What MemForest does, one package per capability."""
