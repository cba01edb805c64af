"""By which labels a replica's series are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from yarl import URL

from adapters.prometheus.promql import one_of
from autoscaler.domain.cluster import Replica

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Way(Enum):
    """A way to find a replica's series.

    POD: ``namespace`` and ``pod`` that service discovery set. EXPORTED: the same as a page had them that somebody else
    passed on, whom ``pod`` names. INSTANCE: the address that was scraped.
    """

    POD = ("namespace", "pod")
    EXPORTED = ("exported_namespace", "exported_pod")
    INSTANCE = ("instance",)

    def key(self, replica: Replica) -> tuple[str, ...] | None:
        """The labels' values for this replica; None where it can't be found in this way."""
        if self is Way.INSTANCE:
            address = address_of(replica)
            return None if address is None else (address,)
        return pod_of(replica)

    def matchers(self, replicas: Sequence[Replica]) -> list[str]:
        """Matchers of what these replicas' series, and possibly some others, have."""
        keys = [key for each in replicas if (key := self.key(each)) is not None]
        return [one_of(label, [key[index] for key in keys]) for index, label in enumerate(self.value)]

    def found(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The key by which series with these labels are a replica's."""
        return tuple([labels.get(label, "") for label in self.value])


def names_another(labels: Mapping[str, str], replica: Replica) -> bool:
    """Labels of a target at the replica's address that name another pod: the one that had the address before."""
    pod = pod_of(replica)
    named = {labels[label] for label in ("exported_pod", "pod") if label in labels}
    return pod is not None and bool(named) and pod[1] not in named


def pod_of(replica: Replica) -> tuple[str, str] | None:
    """Namespace and name of its pod, None outside of a cluster."""
    namespace, slash, name = replica.name.partition("/")
    return (namespace, name) if slash else None


def address_of(replica: Replica) -> str | None:
    """Host and port of its metrics page, as the label ``instance`` writes them."""
    if replica.metrics_url is None:
        return None
    url = URL(replica.metrics_url)
    host = f"[{url.host}]" if url.host is not None and ":" in url.host else url.host
    return f"{host}:{url.port or _DEFAULT_PORTS.get(url.scheme)}"
