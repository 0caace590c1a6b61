"""Statistics for those who read a model: standard errors, intervals and what is proved of coefficients, from sums."""
