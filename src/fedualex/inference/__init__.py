"""Statistics for readers of a model, from sums: standard errors, intervals, and what is proved of coefficients."""
