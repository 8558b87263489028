"""Accuracy: data sets, runs, metrics and reports."""
