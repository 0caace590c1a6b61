"""Certificates: bounds on the duality gap from one point or from several surveys, and on what rounding did to them."""
