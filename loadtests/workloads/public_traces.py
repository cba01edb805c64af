"""The public traces that can be fetched: where they are published, under which licence, and whom to cite."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_AZURE_REPOSITORY = "https://raw.githubusercontent.com/Azure/AzurePublicDataset/master/data"
_AZURE_WEEK = "https://azurepublicdatasettraces.blob.core.windows.net/azurellminfererencetrace"
_BURSTGPT = "https://raw.githubusercontent.com/HPMLL/BurstGPT/main/data"
_MOONCAKE = "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/FAST25-release/traces"
_SERVEGEN = "https://codeload.github.com/alibaba/ServeGen/tar.gz/refs/heads/main"

_SPLITWISE = "Patel et al., Splitwise, ISCA 2024"
_DYNAMOLLM = "Stojkovic et al., DynamoLLM, HPCA 2025 (arXiv 2408.00741)"
_BURST = "Wang et al., BurstGPT, arXiv 2401.17644"
_SERVE = "Xiang et al., ServeGen, NSDI 2026 (arXiv 2505.09999)"
_MOON = "Qin et al., Mooncake, FAST 2025"


class Form(Enum):
    """What is published: requests in a file of their own, or ServeGen's archive of clients."""

    REQUESTS = "requests"
    SERVEGEN = "servegen"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTrace:
    """A published trace. ``file``: its name where it is published, by which it is found in a folder too.

    ``inside``: the folder of the archive that holds it. ``sha256``: of the published file; None: not known, then only
    its columns, and ``requests`` where that number is published, tell whether it is whole. ``large``: over 100 MB, so
    only fetched by name.
    """

    name: str
    url: str
    file: str
    licence: str
    cite: str
    form: Form = Form.REQUESTS
    inside: str | None = None
    sha256: str | None = None
    requests: int | None = None
    large: bool = False

    @property
    def cached_file(self) -> str:
        """Its name in the cache: as published, or the table of rates that is made of an archive."""
        return self.file if self.form is Form.REQUESTS else f"{self.name}.csv"


def _azure(name: str, base: str, file: str, cite: str, *, sha256: str | None = None) -> PublicTrace:
    return PublicTrace(
        name=name,
        url=f"{base}/{file}",
        file=file,
        licence="CC-BY-4.0",
        cite=cite,
        sha256=sha256,
        large=base == _AZURE_WEEK,
    )


def _servegen(name: str, inside: str) -> PublicTrace:
    return PublicTrace(
        name=name,
        url=_SERVEGEN,
        file="ServeGen-main.tar.gz",
        licence="Apache-2.0",
        cite=_SERVE,
        form=Form.SERVEGEN,
        inside=inside,
        large=True,
    )


PUBLIC_TRACES = (
    _azure(
        "azure-2023-conv",
        _AZURE_REPOSITORY,
        "AzureLLMInferenceTrace_conv.csv",
        _SPLITWISE,
        sha256="2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
    ),
    _azure(
        "azure-2023-code",
        _AZURE_REPOSITORY,
        "AzureLLMInferenceTrace_code.csv",
        _SPLITWISE,
        sha256="54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
    ),
    _azure("azure-2024-conv-week", _AZURE_WEEK, "AzureLLMInferenceTrace_conv_1week.csv", _DYNAMOLLM),
    _azure("azure-2024-code-week", _AZURE_WEEK, "AzureLLMInferenceTrace_code_1week.csv", _DYNAMOLLM),
    PublicTrace(
        name="burstgpt-1",
        url=f"{_BURSTGPT}/BurstGPT_1.csv",
        file="BurstGPT_1.csv",
        licence="CC-BY-4.0",
        cite=_BURST,
    ),
    PublicTrace(
        name="burstgpt-2",
        url=f"{_BURSTGPT}/BurstGPT_2.csv",
        file="BurstGPT_2.csv",
        licence="CC-BY-4.0",
        cite=_BURST,
    ),
    _servegen("servegen-m-large", "data/language/m-large"),
    _servegen("servegen-deepseek-r1", "data/reason/deepseek-r1"),
    PublicTrace(
        name="mooncake-conversation",
        url=f"{_MOONCAKE}/conversation_trace.jsonl",
        file="conversation_trace.jsonl",
        licence="Apache-2.0",
        cite=_MOON,
        requests=12_031,
    ),
    PublicTrace(
        name="mooncake-synthetic",
        url=f"{_MOONCAKE}/synthetic_trace.jsonl",
        file="synthetic_trace.jsonl",
        licence="Apache-2.0",
        cite=_MOON,
    ),
    PublicTrace(
        name="mooncake-toolagent",
        url=f"{_MOONCAKE}/toolagent_trace.jsonl",
        file="toolagent_trace.jsonl",
        licence="Apache-2.0",
        cite=_MOON,
    ),
)


def public_trace(name: str) -> PublicTrace | None:
    """The trace of that name; None: there is none."""
    return next((trace for trace in PUBLIC_TRACES if trace.name == name), None)


def default_cache() -> Path:
    """Where fetched traces are kept: ``$XDG_CACHE_HOME``, or ``~/.cache``, and in it ``gpu-autoscaler/traces``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpu-autoscaler" / "traces"
