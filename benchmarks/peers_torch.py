"""FeDualEx in torch, clients batched."""

from peers import torch_batched


def run(game_file, A, b, **options):
    """Run some rounds, return omega."""
    return torch_batched(A, b, **options)
