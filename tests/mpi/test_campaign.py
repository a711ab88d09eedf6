"""`./dev differential`: every setting has its seed, and a failure is printed with the command that repeats it."""

import campaign
import pytest
from conftest import Job

pytestmark = pytest.mark.one_machine

FEW = ["--mpi", "openmpi", "--each", "15"]
ONE_MPI = pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign's changes end with the test."""
    monkeypatch.setattr(Job, "patience", Job.patience)


@pytest.mark.parametrize("hosts", (None, 4))
def test_seeds_name_every_setting(hosts):
    settings = campaign.settings(hosts)
    assert {one.algorithm for one in settings} == {campaign.TABLE, *campaign.FORCED}
    assert {one.services for one in settings} == {1, 2, 4}
    assert {one.nodes for one in settings} == ({1, 2, 3} if hosts is None else {hosts})
    assert len(set(settings)) == len(settings) == (1 + len(campaign.FORCED)) * 3 * (3 if hosts is None else 1)
    runs = [campaign.run_of(seed, hosts) for seed in range(7, 7 + len(settings))]
    assert {run.setting for run in runs} == set(settings)
    assert {run.threads for run in runs} == {1, 2} and {run.blocking for run in runs} == {False, True}
    assert all(run.ranks >= run.setting.nodes for run in runs)


@ONE_MPI
def test_a_run(offload, capsys):
    assert campaign.main([*FEW, "--runs", "1", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "openmpi: 15 operations in 1 runs (seeds 3 to 3)" in said and "no difference" in said
    entry = (offload.build / "differential.jsonl").read_text().splitlines()[-1]
    assert '"seed": 3' in entry and '"wrong": null' in entry


@ONE_MPI
def test_what_fails_is_told(offload, capsys, monkeypatch):
    """A run ends with an error: the others still run, and the end names the command for this one."""
    wrong = {4: "it is wrong", 5: None}
    monkeypatch.setattr(campaign, "run_one", lambda mpi, run, operations: (wrong[run.seed], None))
    assert campaign.main([*FEW, "--operations", "15", "--seed", "4"]) == 1
    said = capsys.readouterr().out
    assert "FAILED: it is wrong" in said
    assert "15 operations in 2 runs (seeds 4 to 5), 0 offloaded calls on rank 0: 1 runs FAILED" in said
    assert "again: ./dev differential --mpi openmpi --each 15 --seed 4 --runs 1" in said


@ONE_MPI
def test_out_of_time(offload, capsys):
    assert campaign.main([*FEW, "--minutes", "0", "--operations", "100", "--seed", "9"]) == 1
    assert "the rest: ./dev differential --mpi openmpi --each 15 --seed 9 --operations 100" in capsys.readouterr().out


@ONE_MPI
def test_unknown_names_are_refused(offload):
    with pytest.raises(SystemExit, match="there is no MPI called lam; there are openmpi, mpich"):
        campaign.main(["--mpi", "lam"])
