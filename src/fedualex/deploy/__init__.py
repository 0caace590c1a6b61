"""Deployment: our round loop above one small seam, and the engines below it."""
