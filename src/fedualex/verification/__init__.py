"""Stored runs checked again, with a second opinion that imports nothing of ours."""
