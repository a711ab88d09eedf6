"""A small model and its training, for the examples of this directory."""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 32
BATCH = 16
STEPS = 10


class Block(nn.Module):  # type: ignore[misc]
    """A residual layer, as a transformer has it after the attention."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Adds the layer's output to its input."""
        return data + self.down(torch.relu(self.up(data)))


def make_model() -> nn.Sequential:
    """The same parameters in every process."""
    torch.manual_seed(1)
    return nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 1))


def make_batch(step: int) -> torch.Tensor:
    """The same data in every process."""
    return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))


def train(model: nn.Module, first: int = 0, last: int = BATCH) -> list[float]:
    """Trains with rows `first` to `last` of each batch, and returns the mean loss of these rows in each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        rows = make_batch(step)[first:last]
        loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def compare(losses: list[float]) -> None:
    """Prints the losses and those of one process; raises an error if they differ by more than rounding."""
    expected = train(make_model())
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}, in one process {expected[0]:.4f} to {expected[-1]:.4f}")
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
