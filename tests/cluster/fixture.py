"""The fixture ``cluster``, for every test with the marker of that name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.running import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real control plane, started once a test run, in 3 to 6 seconds. Logs are in its ``folder``.

    Raises MissingProgramError, which says what to do, where its programs have not been built.
    """
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
