"""Tensors as the library wants them: contiguous bytes in CPU memory."""

from __future__ import annotations

from typing import Any

import torch

_TYPES = {
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "uint8": 5,
    "uint16": 6,
    "uint32": 7,
    "uint64": 8,
    "float32": 9,
    "float64": 10,
    "float16": 11,
    "bfloat16": 12,
    "bool": 13,
}
_STRIDED = torch.strided
# Types of the library by those of torch. Older versions of torch lack some.
TYPES = {getattr(torch, name): number for name, number in _TYPES.items() if hasattr(torch, name)}


def type_of(tensor: Any) -> int:
    """The type for a reduction."""
    found = TYPES.get(tensor.dtype)
    if found is None:
        raise RuntimeError(f"Outrigger cannot reduce tensors of {tensor.dtype}")
    return found


def check(tensor: Any) -> None:
    """Raises an error for a tensor that this backend cannot take."""
    if not tensor.is_cpu:
        raise RuntimeError(f"Outrigger takes tensors in CPU memory, and this one is on {tensor.device}")
    if tensor.layout is not _STRIDED:
        raise RuntimeError(f"Outrigger takes dense tensors, and this one is {tensor.layout}")


class Buffer:
    """A tensor's elements in a row: its own memory, or a copy if that is not contiguous."""

    __slots__ = ("address", "bytes", "flat", "tensor")

    def __init__(self, tensor: Any, fill: bool = True) -> None:
        """`tensor`: one that check() takes. Without `fill` a copy is undefined until the operation has written it."""
        self.tensor = tensor
        if tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj():
            self.flat = tensor
        elif fill:
            self.flat = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            self.flat.copy_(tensor.detach())
        else:
            self.flat = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        self.address: int = self.flat.data_ptr()
        self.bytes: int = self.flat.nbytes

    def finish(self) -> None:
        """Copies a result back to the tensor."""
        if self.flat is not self.tensor:
            self.tensor.detach().copy_(self.flat)

    def apart_from(self, other: Buffer) -> None:
        """Makes a copy of its elements if the two share memory."""
        if self.address < other.address + other.bytes and other.address < self.address + self.bytes:
            self.flat = self.flat.clone()
            self.address = self.flat.data_ptr()
