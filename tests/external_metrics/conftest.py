"""The server, started, trusting the cluster's authorities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.external_metrics.scene import Scene, a_publication


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """One service, chat, in namespace prod, wants three replicas."""
    scene = Scene(tmp_path)
    scene.shelf.put(a_publication("chat"))
    scene.server.set_trust(scene.trust())
    scene.server.start()
    yield scene
    scene.cluster.gate.set()
    scene.server.stop()
