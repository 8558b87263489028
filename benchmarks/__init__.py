"""Benchmarks: each module is one command that checks its results, measures, and prints a table."""
