"""What the parts of this benchmark share; ``runs``, ``data`` and ``scoring`` serve all three benchmarks."""
