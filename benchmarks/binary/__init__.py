"""A benchmark for benchopt: binary least squares; see objective.py."""
