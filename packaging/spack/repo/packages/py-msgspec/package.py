from spack.package import *

try:  # Spack 1.0 moved it into the package repository
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:
    pass


class PyMsgspec(PythonPackage):
    """Reads and writes JSON, and checks it against types."""

    homepage = "https://jcristharif.com/msgspec/"
    pypi = "msgspec/msgspec-0.19.0.tar.gz"

    license("BSD-3-Clause")

    version("0.19.0", sha256="604037e7cd475345848116e89c553aa9a233259733ab51986ac924ab1b976f8e")

    depends_on("c", type="build")
    depends_on("python@3.8:", type=("build", "link", "run"))
    depends_on("py-setuptools", type="build")
