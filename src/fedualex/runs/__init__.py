"""Runs from files, in folders: settings, run folders, one run or several side by side."""
