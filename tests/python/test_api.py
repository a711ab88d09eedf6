"""outrigger.api in a process without the preload library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrigger import api

HEADER = Path(__file__).parents[2] / "include" / "outrigger" / "outrigger.h"


def test_without_the_library_nothing_is_active() -> None:
    assert api.version() == "" and not api.is_active() and api.inactive_reason() == api.NOT_LOADED
    assert api.known_counters() == ()
    for call in (api.start_counting, api.counters, lambda: api.switch(False)):
        with pytest.raises(api.ApiError, match="nothing is offloaded") as caught:
            call()
        assert caught.value.result == api.Result.NOT_ACTIVE


def test_without_the_library_programs_run() -> None:
    done = []
    with api.phase("a"), api.switched(False):
        done.append(1)
    assert done == [1]
    with pytest.raises(ZeroDivisionError), api.phase("a"):
        raise ZeroDivisionError


def test_results_are_those_of_the_header() -> None:
    found = dict(re.findall(r"OUTRIGGER_(\w+) = (\d+)", HEADER.read_text(encoding="utf-8")))
    assert {name: str(int(api.Result[name])) for name in found} == found and len(found) == len(api.Result)


def test_fortran_has_the_same_results() -> None:
    module = HEADER.with_suffix(".f90").read_text(encoding="utf-8")
    found = dict(re.findall(r"parameter, public :: outrigger_(\w+) = (\d+)", module))
    assert {name.upper(): int(number) for name, number in found.items()} == {r.name: int(r) for r in api.Result}
