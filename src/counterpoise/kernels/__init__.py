"""Compiled kernels: NamedTuples and arrays in, numbers and arrays out."""
