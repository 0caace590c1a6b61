"""The paper: its experiments, its claims, the demo."""
