"""A benchmark for benchopt: sparse index tracking; see objective.py."""
