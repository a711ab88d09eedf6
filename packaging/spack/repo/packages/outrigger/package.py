from spack.package import *

try:  # Spack 1.0 moved it into the package repository
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
except ImportError:
    pass


class Outrigger(CMakePackage):
    """Runs an unmodified MPI program's collectives on service processes while its ranks compute."""

    license("BSD-3-Clause")

    version("0.1.0")  # for `spack develop`: no archive is published

    variant("heap", default=True, description="Build the shared heap")
    variant("bench", default=True, description="Build the benchmark and example programs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("ucx@1.13:")
    depends_on("hwloc@2:")
    depends_on("openssl@3.0:")
    depends_on("fmt@9:")
    depends_on("spdlog@1.10:")
    depends_on("cli11@2:")
    depends_on("nlohmann-json@3.11:")
    depends_on("fftw", when="+bench")
    depends_on("jemalloc", when="+heap")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-typer@0.12:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-matplotlib@3.6:", type=("build", "run"))
    depends_on("py-numpy@1.24:", type=("build", "run"))
    depends_on("py-msgspec@0.18:", type=("build", "run"))
    depends_on("py-pyroute2@0.9:", type=("build", "run"))
    depends_on("py-aiohttp@3.10:", type=("build", "run"))
    depends_on("py-prometheus-client@0.21:", type=("build", "run"))

    conflicts("platform=darwin", msg="Outrigger is for Linux")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("CMAKE_UNITY_BUILD", True),
            self.define("OUTRIGGER_TESTS", False),
            self.define("OUTRIGGER_SLURM_INCLUDE", False),
            self.define_from_variant("OUTRIGGER_BENCHMARKS", "bench"),
            self.define_from_variant("OUTRIGGER_EXAMPLES", "bench"),
            self.define("OUTRIGGER_PYTHON", python.path),
        ]
