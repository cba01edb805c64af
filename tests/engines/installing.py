"""Engines' own environments, fetched once, outside the checkout.

They lie in ``$GPU_AUTOSCALER_CACHE`` (``~/.cache/gpu-autoscaler`` unless set), so that every checkout shares them; an
environment's name carries a hash of all that it is made from, so that a change makes a new one. Engines' pins would
bind ours, hence environments of their own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One engine's environment. ``requirements``: locked, with hashes. ``sources``: what else it is made from.

    ``size``: in words, for the person who waits. ``finish`` does what remains, given the environment's folder.
    """

    release: str
    size: str
    requirements: Path
    sources: tuple[Path, ...] = ()
    finish: Callable[[Path], None]

    def directory(self) -> Path:
        """This recipe's own place in the cache."""
        digest = hashlib.sha256(platform.python_version().encode())
        for part in (self.requirements, *self.sources):
            digest.update(part.read_bytes())
        return _cache() / "engines" / f"{self.release}-{digest.hexdigest()[:12]}"

    def install(self) -> Path:
        """Make the environment where it is not there yet; its folder.

        A marker is written last, so that half an installation is begun anew. Raises CalledProcessError.
        """
        target = self.directory()
        marker = target / "complete"
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if marker.exists():
                return target
            shutil.rmtree(target, ignore_errors=True)
            print(f"installing {self.release} into {target} (about {self.size}, once)", file=sys.stderr)
            uv = (sys.executable, "-m", "uv")
            run(*uv, "venv", "--quiet", "--python", sys.executable, str(target))
            wanted = ("--no-deps", "--require-hashes", "-r", str(self.requirements))
            run(*uv, "pip", "install", "--quiet", "--python", str(target / "bin" / "python"), *wanted)
            self.finish(target)
            marker.touch()
        return target


def run(*command: str) -> None:
    """Run to its end, what it prints going to standard error. Raises CalledProcessError."""
    subprocess.run(command, check=True, stdout=sys.stderr)


def _cache() -> Path:
    chosen = os.environ.get("GPU_AUTOSCALER_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "gpu-autoscaler"
