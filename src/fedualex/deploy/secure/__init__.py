"""Secure sums: the server sees what all sites add up to, and of one site's numbers nothing."""
