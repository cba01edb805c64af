"""``python -m tests.cluster.build``: build the programs of the test cluster from source, those that are missing.

They lie outside the checkout, in ``$GPU_AUTOSCALER_CACHE`` (``~/.cache/gpu-autoscaler`` unless set), one folder per Go
module, named by a hash of all that it is made from: every checkout shares them, a change of versions makes new ones.
The first run takes a quarter of an hour on two cores; needs the Go toolchain and nothing else, no C compiler.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "binaries"
KUBERNETES = "v1.36.3"
HELM = "v4.3.2"
_VERSION = "k8s.io/component-base/version"
_STRIPPED = "-s -w"
_OF_KUBERNETES = (
    f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor={KUBERNETES[1:].split('.', maxsplit=1)[0]} "
    f"-X {_VERSION}.gitMinor={KUBERNETES.split('.')[1]} {_STRIPPED}"
)
_KEDA_MODULE = "github.com/kedacore/keda/v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program: name, the Go module under ``binaries`` that pins it, package, linker's flags, build tags."""

    name: str
    module: str
    package: str
    ldflags: str = _STRIPPED
    tags: str = ""


# The order in which a test cluster needs them. The controller-manager before the scheduler: they share most packages.
PROGRAMS = (
    Program(name="etcd", module="etcd", package="."),
    *(
        Program(name=name, module="kubernetes", package=f"k8s.io/kubernetes/cmd/{name}", ldflags=_OF_KUBERNETES)
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    ),
    Program(
        name="helm",
        module="helm",
        package="helm.sh/helm/v4/cmd/helm",
        ldflags=f"-X helm.sh/helm/v4/internal/version.version={HELM} {_STRIPPED}",
    ),
    Program(name="keda-operator", module="keda", package=f"{_KEDA_MODULE}/cmd/operator"),
    Program(name="keda-adapter", module="keda", package=f"{_KEDA_MODULE}/cmd/adapter"),
    # Without the ways to find targets in clouds, which are most of what there is to build.
    Program(
        name="prometheus",
        module="prometheus",
        package="github.com/prometheus/prometheus/cmd/prometheus",
        tags="remove_all_sd",
    ),
)


class MissingProgramError(RuntimeError):
    """A program of the test cluster is not built. The message says how to build it."""


class BuildError(RuntimeError):
    """A program can't be built. The message says why."""


def cache_directory() -> Path:
    """Where programs are kept between runs."""
    chosen = os.environ.get("GPU_AUTOSCALER_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "gpu-autoscaler") / "cluster"


def module_directory(module: str) -> Path:
    """Where the programs of one Go module are kept, built or not."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}\n".encode())
    for source in sorted((SOURCES / module).iterdir()):
        digest.update(source.read_bytes())
    for each in PROGRAMS:
        if each.module == module:
            digest.update(f"{each.package} {each.ldflags} {each.tags}".rstrip().encode() + b"\n")
    return cache_directory() / f"{module}-{digest.hexdigest()[:12]}"


def program(name: str) -> Path:
    """A built program. Raises MissingProgramError where it isn't there, KeyError for a name that isn't ours."""
    path = module_directory({each.name: each.module for each in PROGRAMS}[name]) / name
    if not path.exists():
        raise MissingProgramError(f"{name} is not built ({path} is missing): run `make test-cluster`")
    return path


def keda_crds() -> Path:
    """Folder of KEDA's custom resource definitions. Raises MissingProgramError where it isn't there."""
    path = module_directory("keda") / "crds"
    if not path.exists():
        raise MissingProgramError(f"KEDA's resource definitions are missing ({path}): run `make test-cluster`")
    return path


def build_missing() -> None:
    """Build what is missing, one program after the other, each kept as soon as it is made.

    A second builder waits for the first. Raises BuildError.
    """
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for each in PROGRAMS:
            folder = module_directory(each.module)
            if not (folder / each.name).exists():
                folder.mkdir(exist_ok=True)
                _build(each, folder / each.name)
        if not (module_directory("keda") / "crds").exists():
            _keep_keda_crds(module_directory("keda") / "crds")


def _build(wanted: Program, target: Path) -> None:
    sources = SOURCES / wanted.module
    _check_toolchain(sources)
    print(f"building {wanted.name} ({wanted.package}) into {target.parent}", flush=True)
    started_s = time.monotonic()
    partial = target.with_name(f"{target.name}.partial")
    options = ("-trimpath", "-buildvcs=false", "-ldflags", wanted.ldflags, "-tags", wanted.tags, "-o", str(partial))
    _go("build", *options, wanted.package, sources=sources)
    partial.rename(target)
    size_mb = target.stat().st_size / 1e6
    print(f"built {wanted.name}: {time.monotonic() - started_s:.0f} s, {size_mb:.0f} MB", flush=True)


def _keep_keda_crds(target: Path) -> None:
    """Copy the definitions out of KEDA's module, which is read-only as all of Go's module cache."""
    module = _go("list", "-m", "-f", "{{.Dir}}", _KEDA_MODULE, sources=SOURCES / "keda")
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for definition in (Path(module) / "config" / "crd" / "bases").glob("*.yaml"):
        copy = Path(shutil.copy(definition, partial))
        copy.chmod(copy.stat().st_mode | stat.S_IWUSR)
    partial.rename(target)


def _check_toolchain(sources: Path) -> None:
    """The module's go.mod must be readable by the toolchain. Raises BuildError, with what Go says to it."""
    if shutil.which("go") is None:
        raise BuildError("the Go toolchain is needed (https://go.dev/dl/): there is no `go` on the PATH")
    try:
        _go("list", "-m", sources=sources)
    except BuildError as error:
        have = subprocess.run(("go", "version"), check=False, capture_output=True, text=True).stdout.strip()
        raise BuildError(
            f"{error}\nGo is too old or broken? {sources}/go.mod says what is needed, here: {have}"
        ) from None


def _go(*arguments: str, sources: Path) -> str:
    """Run the toolchain in a module's folder; answers what it prints. Raises BuildError where it fails."""
    environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        ("go", *arguments),
        cwd=sources,
        env=environ,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments)} in {sources} failed:\n{done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    """Build what is missing, then say where it is."""
    try:
        build_missing()
    except BuildError as error:
        sys.exit(f"error: {error}")
    print("\n".join(str(program(each.name)) for each in PROGRAMS))


if __name__ == "__main__":
    main()
