"""Times of the report against those that a program takes of its own calls."""

from __future__ import annotations

import json

import pytest
from conftest import Mpi

from outrigger import report, report_headline

RANKS = 3
ROUNDS = 150

pytestmark = [pytest.mark.one_machine]


@pytest.mark.parametrize("form", ["nonblocking", "persistent"])
def test_times_agree_with_the_programs_own_clock(offload: Mpi, form: str) -> None:
    """Ranks share cores here, so a starting call lets others run before it returns."""
    result = offload.run(RANKS, ["timed", form, str(ROUNDS)])
    if result.returncode == 77:
        pytest.skip("this MPI has no persistent collectives")
    result.ok()
    (line,) = [line for line in result.out.splitlines() if line.startswith("timed ")]
    starting, between, waiting = map(float, line.split()[1:])
    found = report.parse(json.dumps(result.report))
    (entry,) = [each for each in found.collectives if each.collective == "ialltoall"]
    assert entry.offloaded == RANKS * ROUNDS
    # Counting itself takes under 5 us a call; a rank may lose its core between two reads of the clock.
    within = {"rel": 0.05, "abs": 5e-6 * ROUNDS}
    assert entry.post_seconds.sum / RANKS == pytest.approx(starting, **within)
    assert entry.completion_seconds.sum / RANKS == pytest.approx(waiting, **within)
    assert report_headline.computed_seconds(found) == pytest.approx(between, **within)
    assert report_headline.waited_seconds(found) == pytest.approx(starting + waiting, **within)
