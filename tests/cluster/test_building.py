"""What holds without a cluster: what lacks is said, nothing is left behind, addresses are unique."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import build
from tests.cluster.kubelet.addresses import Addresses
from tests.cluster.processes import wait_for

ROOT = Path(__file__).parents[2]

# Starts a process as the fixture does, says its number, and waits for its own end.
_STARTER = """
import sys, time
from pathlib import Path
from tests.cluster.processes import Processes
processes = Processes(Path(sys.argv[1]))
started = processes.start("sleeper", ("sh", "-c", "sleep 600 & sleep 600"))
print(started.pid, flush=True)
time.sleep(600)
"""


def test_what_is_not_built_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_AUTOSCALER_CACHE", str(tmp_path))
    with pytest.raises(build.MissingProgramError, match=r"kube-apiserver is not built .* run `make test-cluster`"):
        build.program("kube-apiserver")
    with pytest.raises(build.MissingProgramError, match="run `make test-cluster`"):
        build.keda_crds()


def test_each_module_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_AUTOSCALER_CACHE", str(tmp_path))
    modules = {each.module for each in build.PROGRAMS}
    places = {build.module_directory(module) for module in modules}
    assert len(places) == len(modules)
    assert all(place.is_relative_to(tmp_path) for place in places)


def test_go_that_is_missing_is_said_in_one_line(tmp_path: Path) -> None:
    environ = {**os.environ, "PATH": str(tmp_path), "GPU_AUTOSCALER_CACHE": str(tmp_path)}
    command = (sys.executable, "-m", "tests.cluster.build")
    done = subprocess.run(command, cwd=ROOT, env=environ, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: the Go toolchain is needed (https://go.dev/dl/): there is no `go` on the PATH\n"


def test_go_that_fails_is_quoted_and_nothing_is_kept(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo go version go1.20.1 && exit\necho go.mod: too new >&2\nexit 1\n'
    )
    go.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "GPU_AUTOSCALER_CACHE": str(tmp_path)}
    command = (sys.executable, "-m", "tests.cluster.build")
    done = subprocess.run(command, cwd=ROOT, env=environ, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "go.mod: too new" in done.stderr
    assert "here: go version go1.20.1" in done.stderr
    assert not any(build.PROGRAMS[0].name == each.name for each in (tmp_path / "cluster").rglob("*"))


def test_nothing_outlives_a_test_run_that_is_killed(tmp_path: Path) -> None:
    run = subprocess.Popen((sys.executable, "-c", _STARTER, str(tmp_path)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with run:
        assert run.stdout is not None
        leader = int(run.stdout.readline())
        group = [psutil.Process(leader), *psutil.Process(leader).children(recursive=True)]
        assert all(each.is_running() for each in group)
        run.kill()
    wait_for(lambda: not any(_lives(each) for each in group), "all are gone")


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@given(st.lists(st.one_of(st.none(), st.integers(min_value=0, max_value=50)), max_size=60))
def test_no_two_pods_have_one_address(steps: list[int | None]) -> None:
    addresses = Addresses()
    held: list[str] = []
    for step in steps:
        if step is None or not held:
            taken = addresses.take()
            assert taken not in held
            held.append(taken)
        else:
            addresses.give_back(held.pop(step % len(held)))
    addresses.close()


def test_clusters_beside_one_another_have_different_networks() -> None:
    made = [Addresses() for _ in range(5)]
    networks = [each.take().split(".")[1] for each in made]
    for each in made:
        each.close()
    assert len(set(networks)) == len(networks)
