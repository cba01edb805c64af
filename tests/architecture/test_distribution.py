"""What is shipped and locked: dependencies, and the names of places that must not be written down."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

# Written apart, so that this file does not hold what it looks for.
_HOSTS = tuple(
    name.replace("_", "")
    for name in ("py_pi.org", "python_hosted.org", "npm_js.org", "deb.deb_ian.org", "proxy.go_lang.org", "crates_.io")
)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_OWN = {"autoscaler", "predictors", "adapters", "loadtests", "benchmarks", "tests"}
# Packages whose types are part of the interface of a declared one.
_PART_OF = {
    "gevent": "locust",
    "markupsafe": "jinja2",
    "multidict": "aiohttp",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "yarl": "aiohttp",
}
# Looked for and used where a user has installed it; the project works without.
_OPTIONAL = {"ray"}
# Run by the engine's own Python.
_RUN_ELSEWHERE = {"make_tiny_model.py"}
_LOCKS = ("constraints.txt", "tests/engines/vllm.txt", "tests/engines/triton.txt")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, list[str]]:
    """Requirements of the project by extra; "" holds those without."""
    told = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": told["dependencies"], **told["optional-dependencies"]}


@pytest.fixture(scope="module")
def pins(root: Path) -> dict[str, set[Version]]:
    """Locked versions by name; a name may have several, for different Pythons."""
    found: dict[str, set[Version]] = {}
    for name, version in _PIN.findall((root / "constraints.txt").read_text(encoding="utf-8")):
        found.setdefault(canonicalize_name(name), set()).add(Version(version))
    return found


def test_every_dependency_is_locked_at_an_allowed_version(
    project: dict[str, list[str]], pins: dict[str, set[Version]]
) -> None:
    requirements = [Requirement(text) for texts in project.values() for text in texts]
    missing = [
        str(requirement)
        for requirement in requirements
        if not any(version in requirement.specifier for version in pins.get(canonicalize_name(requirement.name), ()))
    ]
    assert missing == [], "run `make lock`"


@pytest.mark.parametrize(
    ("folders", "extras"),
    [
        pytest.param(("autoscaler", "predictors", "adapters"), ("", "nvml", "triton"), id="what is run"),
        pytest.param(("loadtests", "adapters/simulation"), ("", "loadtest", "triton"), id="load tests"),
        pytest.param(("tests", "benchmarks"), ("", "nvml", "triton", "loadtest", "dev"), id="tests"),
    ],
)
def test_every_import_is_a_declared_dependency(
    tracked: tuple[Path, ...],
    root: Path,
    project: dict[str, list[str]],
    folders: tuple[str, ...],
    extras: tuple[str, ...],
) -> None:
    declared = {canonicalize_name(Requirement(text).name) for extra in extras for text in project[extra]}
    distributions = packages_distributions()
    offenders = [
        f"{path}: {module}"
        for path in tracked
        if path.suffix == ".py" and _belongs(path) in folders and path.name not in _RUN_ELSEWHERE
        for module in _imported(ast.parse((root / path).read_text(encoding="utf-8")))
        if module not in _OWN | _OPTIONAL and module not in sys.stdlib_module_names
        if not (root / path).with_name(f"{module}.py").exists()
        if not declared.intersection(
            canonicalize_name(name) for name in (*distributions.get(module, ()), _PART_OF.get(module, ""))
        )
    ]
    assert offenders == []


def _belongs(path: Path) -> str:
    """Simulations come with the load tests, as do the packages that they need."""
    simulated = path.parts[:2] == ("adapters", "simulation")
    return "adapters/simulation" if simulated else path.parts[0]


def _imported(tree: ast.Module) -> set[str]:
    """Top-level names of the modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("name", _LOCKS)
def test_every_locked_version_has_its_hashes(root: Path, name: str) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", (root / name).read_text(encoding="utf-8").strip())
    assert len(entries) > 30
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry or not _PIN.match(entry)] == []


@pytest.mark.parametrize("name", _LOCKS)
def test_locks_name_no_index(root: Path, name: str) -> None:
    text = (root / name).read_text(encoding="utf-8")
    assert re.findall(r"^-.*|https?://\S*", text, re.MULTILINE) == []


def test_no_file_names_the_host_of_a_registry(tracked: tuple[Path, ...], root: Path) -> None:
    offenders = []
    for path in tracked:
        data = (root / path).read_bytes()
        offenders += [f"{path}: {host}" for host in _HOSTS if host.encode() in data]
    assert offenders == []


def test_the_ci_script_can_be_run(root: Path) -> None:
    assert (root / ".ci" / "run").stat().st_mode & 0o111
