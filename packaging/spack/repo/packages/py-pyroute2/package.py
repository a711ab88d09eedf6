from spack.package import *

try:  # Spack 1.0 moved it into the package repository
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:
    pass


class PyPyroute2(PythonPackage):
    """Manages Linux network interfaces and namespaces by netlink."""

    homepage = "https://pyroute2.org"
    pypi = "pyroute2/pyroute2-0.9.5.tar.gz"

    license("Apache-2.0 OR GPL-2.0-or-later")

    version("0.9.5", sha256="a198ccbe545b031b00b10da4b44df33d548db04af944be8107c05a215ba03872")

    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-setuptools", type="build")
