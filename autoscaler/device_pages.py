"""The devices on a metrics page: the engines' parser, and the GPU exporters' tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adapters.engines.content import wrong_type
from adapters.engines.exposition import PageParser
from adapters.engines.fetching import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage, fetch_page, open_session
from adapters.engines.page_reader import parse_page
from adapters.gpus.pages import UNFIT, devices_on, sample_names
from adapters.gpus.reading_json import Plain, plain_device
from adapters.gpus.samples import without_failed_values
from adapters.kubernetes.gpu_exporters import ExporterPage
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Unknown
from autoscaler.policy.device_attribution import unshared
from autoscaler.policy.device_health import faults_of

_MAX_CONNECTIONS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """The devices of a page, and what is to be said of them."""

    devices: tuple[GpuReading, ...]
    warnings: tuple[str, ...]

    def plain(self) -> Sequence[dict[str, Plain]]:
        """For JSON; see ``plain_device``."""
        return [plain_device(each, faults_of(each)) for each in self.devices]


class DevicePageReader:
    """Reads exporters' pages, and remembers the series it has met. For one thread."""

    def __init__(self) -> None:
        self._parser = PageParser(sample_names(), cache_bytes=8 * 1024 * 1024)

    def read(self, body: bytes, *, at_s: float) -> DevicesRead | Unknown:
        """The devices of a page, none where it's no GPU exporter's; or why it can't be read."""
        page = parse_page(self._parser, without_failed_values(body))
        if isinstance(page, Unknown):
            return page
        return devices_on(zip(page.series, page.values, strict=True), at_s=at_s)


def report_devices(page: FetchedPage | Unknown) -> DeviceReport:
    """The devices on a page that a person looks at; none where there is no page."""
    if isinstance(page, Unknown) or wrong_type(page.content_type) is not None:
        return DeviceReport(devices=(), warnings=())
    read = DevicePageReader().read(page.body, at_s=0.0)
    if isinstance(read, Unknown) or not read.devices:
        return DeviceReport(devices=(), warnings=())
    broken = [
        f"{each.key} is no capacity: {', '.join(faults)}"
        for each in read.devices
        for faults in [faults_of(each)]
        if not isinstance(faults, Unknown) and faults
    ]
    return DeviceReport(devices=read.devices, warnings=(UNFIT, *broken, *read.warnings))


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
