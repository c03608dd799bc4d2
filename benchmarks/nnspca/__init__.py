"""A benchmark for benchopt: non-negative sparse PCA; see objective.py."""
