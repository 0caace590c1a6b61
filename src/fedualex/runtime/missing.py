"""What could not be had of clients, as a value."""

from dataclasses import dataclass

from .status import Stop


@dataclass(frozen=True)
class Missing:
    """Something that clients were asked for and did not give, and why."""

    reason: str
    stop: Stop | None = None
    """How that ends the run; None if they may be asked again."""
