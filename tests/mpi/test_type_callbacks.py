"""The program's datatypes: the library runs none of their callbacks, and analyzes deep ones once."""

from __future__ import annotations

import pytest
from conftest import Mpi

MODES = ("count", "refuse", "nested")


@pytest.mark.parametrize("mode", MODES)
def test_natively(mpi: Mpi, mode: str) -> None:
    assert "all right" in mpi.run(2, ["type_callbacks", mode], services=None).ok().out


@pytest.mark.parametrize("mode", MODES)
def test_offloaded(offload: Mpi, mode: str) -> None:
    result = offload.run(3, ["type_callbacks", mode]).ok()
    assert "all right" in result.out
    assert result.offloaded() > 0
