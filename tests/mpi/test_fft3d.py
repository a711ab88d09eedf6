"""examples/fft3d: correct on any number of ranks and any grid, native and offloaded."""

import json

import pytest

pytestmark = pytest.mark.any_mpi

# Odd, prime, and with fewer points than ranks along an axis.
GRIDS = {1: "9,8,7", 2: "12,10,9", 3: "13,5,11", 4: "17,12,7", 6: "2,7,5"}


def program(mpi) -> str:
    path = mpi.build / "examples" / mpi.name / "fft3d"
    if not path.exists():
        pytest.skip(f"{path} is not built: it needs FFTW")
    return str(path)


def fft3d(mpi, ranks: int, *arguments: str, **options):
    words = [program(mpi), "--variables", "3", "--iterations", "2", *arguments]
    return mpi.run(ranks, words, timeout_s=60, **options)


@pytest.mark.parametrize(
    "ranks, memory", ((1, "malloc"), (2, "alloc_mem"), (3, "malloc"), (3, "alloc_mem"), (4, "malloc"), (6, "alloc_mem"))
)
def test_offloaded(offload, ranks, memory):
    result = fft3d(offload, ranks, "--grid", GRIDS[ranks], "--check", "--memory", memory).ok()
    assert "serial transform:" in result.out
    if ranks > 1:
        assert result.offloaded() > 0


@pytest.mark.parametrize("mode", ("blocking", "nonblocking"))
@pytest.mark.parametrize("ranks", GRIDS)
def test_native(mpi, ranks, mode):
    result = fft3d(mpi, ranks, "--grid", GRIDS[ranks], "--check", "--mode", mode, services=None).ok()
    assert "analytic field:" in result.out


@pytest.mark.parametrize("shape", ("1,3", "3,1"))
def test_slabs(mpi, services, shape):
    """A process grid of one row or column: half of the exchanges are with the rank itself."""
    fft3d(mpi, 3, "--grid", "7,6,5", "--check", "--process-grid", shape, services=services).ok()


def test_the_trace_covers_the_iteration(mpi, services, tmp_path):
    trace = tmp_path / "trace.json"
    fft3d(mpi, 2, "--grid", "24,16,16", "--trace", str(trace), services=services).ok()
    data = json.loads(trace.read_text())
    assert [entry["rank"] for entry in data["ranks"]] == [0, 1]
    for entry in data["ranks"]:
        count = {name: 0 for name in ("compute", "post", "wait")}
        now = 0.0
        for interval in entry["intervals"]:
            count[interval["activity"]] += 1
            assert now <= interval["begin_ms"] <= interval["end_ms"]
            now = interval["end_ms"]
        assert count == {"compute": 3 * 6, "post": 3 * 4, "wait": 3 * 4}


@pytest.mark.parametrize(
    "arguments, message",
    (
        (("--grid", "4,0,4"), "'0' is not a number"),
        (("--process-grid", "2,2"), "does not make 1 ranks"),
        (("--frobnicate",), "--frobnicate"),
    ),
)
def test_wrong_arguments_are_named(mpi, arguments, message):
    result = fft3d(mpi, 1, *arguments, services=None)
    assert result.returncode != 0
    assert message in result.out
