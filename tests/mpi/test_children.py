"""Programs see only their own children: a rank cannot find any of the library's processes as its child."""

import pytest
from conftest import Mpi


@pytest.mark.parametrize("how", ["handler", "thread", "ignored", "adopting"])
def test_programs_see_their_own_children_only(offload: Mpi, how: str) -> None:
    native = sorted(offload.run(2, ["children", how], services=None).ok().out.splitlines())
    assert len(native) == 2 and all("0 strangers, none is left, sum right" in line for line in native), native
    result = offload.run(2, ["children", how]).ok()
    assert sorted(result.out.splitlines()) == native
    assert result.offloaded() > 0
