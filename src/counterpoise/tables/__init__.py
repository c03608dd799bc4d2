"""Readers of files: one reader of tables, from which arrays, prices and returns are made."""
