"""The fixture ``cluster``, for every test with the marker of that name, and the order of those tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.running import Cluster, running_cluster

# Tests in these take a minute or more each. They begin first: one that began last would be waited for alone.
_LONG = frozenset(
    {
        *("test_availability_real", "test_cluster_run_real", "test_foreign_gateway_real", "test_gateway_real"),
        *("test_local_run_real", "test_loop_real", "test_quickstart_real"),
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first, else in the order of their files."""
    items.sort(key=lambda item: item.path.stem not in _LONG)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real control plane, started once a test run, in 3 to 6 seconds. Logs are in its ``folder``.

    Raises MissingProgramError, which says what to do, where its programs have not been built.
    """
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
