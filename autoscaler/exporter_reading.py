"""The devices of a cluster, by the pages of its GPU exporters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from adapters.engines.fetching import fetch_page, open_session
from adapters.kubernetes.gpu_exporters import ExporterPage
from autoscaler.device_pages import DevicePageReader
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Unknown
from autoscaler.policy.device_attribution import unshared

_MAX_CONNECTIONS = 32


class ExporterReader:
    """Reads the pages of all exporters of a cluster."""

    def __init__(self, pages: Callable[[], Sequence[ExporterPage]], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._pages = pages
        self._timeout_s = timeout_s
        self._reader = DevicePageReader()

    def read(self, at_s: float) -> DevicesRead:
        """The devices of all nodes, by the nodes' own names; of one whose page can't be read, why not."""
        pages = self._pages()
        devices: list[GpuReading] = []
        warnings: list[str] = []
        for page, fetched in zip(pages, asyncio.run(self._fetched(pages)), strict=True):
            read = fetched if isinstance(fetched, Unknown) else self._reader.read(fetched.body, at_s=at_s)
            if isinstance(read, Unknown):
                warnings.append(f"the devices of node {page.node} are not known: {read}")
                continue
            of_node = [replace(each, node=page.node) for each in read.devices]
            devices += unshared(of_node, {page.node}) if page.shared else of_node
            warnings += [f"node {page.node}: {warning}" for warning in read.warnings]
        return DevicesRead(devices=tuple(devices), warnings=tuple(warnings))

    async def _fetched(self, pages: Sequence[ExporterPage]) -> Sequence[FetchedPage | Unknown]:
        async with open_session(max_connections=_MAX_CONNECTIONS) as session:
            return await asyncio.gather(
                *(
                    fetch_page(session, page.url, timeout_s=self._timeout_s, max_bytes=DEFAULT_MAX_BYTES)
                    for page in pages
                )
            )
