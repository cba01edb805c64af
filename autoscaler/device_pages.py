"""The devices on a metrics page: the engines' parser, and the GPU exporters' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.engines.content import wrong_type
from adapters.engines.exposition import PageParser
from adapters.engines.fetched import FetchedPage
from adapters.engines.page_reader import parse_page
from adapters.gpus.pages import UNFIT, devices_on, sample_names
from adapters.gpus.reading_json import Plain, plain_device
from adapters.gpus.samples import without_failed_values
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Unknown
from autoscaler.policy.device_health import faults_of


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
