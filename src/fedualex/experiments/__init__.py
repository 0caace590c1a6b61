"""Experiments: files that say what to run, and what is kept of each run."""
