"""Spack package of ccltui."""

from spack.package import depends_on, license, version
from spack_repo.builtin.build_systems.python import PythonPackage


class PyCcltui(PythonPackage):
    """Profiler traces of all ranks of a training job at once, on one clock, in a terminal."""

    pypi = "ccltui/ccltui-0.2.0.tar.gz"

    license("MIT")

    version("0.2.0", sha256="SHA256_OF_THE_SDIST")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-cython@3.1:", type="build")

    depends_on("py-numpy@2.0:", type=("build", "run"))
    depends_on("py-msgspec@0.19:", type=("build", "run"))
    depends_on("py-orjson@3.10:", type=("build", "run"))
    depends_on("py-pyyaml@6.0.2:", type=("build", "run"))
    depends_on("py-isal@1.7:", type=("build", "run"))
    depends_on("py-zstandard@0.23:", when="^python@:3.13", type=("build", "run"))
    depends_on("py-textual@8.2:8", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-rich@14.2:", type=("build", "run"))

    def setup_build_environment(self, env):
        """Stop the build where a compiled module cannot be built."""
        env.set("CCLTUI_WHEEL", "require")
