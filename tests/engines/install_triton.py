"""Fetch Triton Inference Server with its Python backend into an environment of its own, once, and say where it is.

    python -m tests.engines.install_triton

About 310 MB. The server comes with the package ``nvidia-pytriton``, whose own proxy is not needed.
``loadtests.triton_server`` says how it is started.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from loadtests.triton_server import TritonHome
from tests.engines.installing import HERE, Recipe


def put_stub_beside_its_backend(target: Path) -> None:
    """The backends in a folder of their own, with the stub for this Python: the server looks for it there alone."""
    home = TritonHome(target)
    shutil.copytree(home.shipped / "backends", home.backends)
    stub = home.backends / "python" / "triton_python_backend_stub"
    shutil.copyfile(home.shipped / "python_backend_stubs" / home.python / stub.name, stub)
    stub.chmod(0o755)
    home.server.chmod(0o755)


RECIPE = Recipe(
    release="triton-pytriton-0.7.0",
    size="310 MB",
    requirements=HERE / "triton.txt",
    sources=(Path(__file__),),
    finish=put_stub_beside_its_backend,
)


def main() -> None:
    """Install, then print where."""
    print(RECIPE.install())


if __name__ == "__main__":
    main()
