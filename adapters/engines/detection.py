"""Whose page is it? The engines that are read, and those that are only recognised so that the user is told."""

from __future__ import annotations

from adapters.engines.exposition import Page
from adapters.engines.signals import EngineTable
from adapters.engines.vllm import VLLM
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Engine

TABLES: tuple[EngineTable, ...] = (VLLM,)

# Families of a server's language runtime and web framework: on a page of their own they say nothing of an engine.
_RUNTIME_PREFIXES = ("python_", "process_", "http_", "go_", "promhttp_")

_RECOGNISED = (
    ("nv_", "Triton Inference Server"),
    ("sglang:", "SGLang"),
    ("sglang_", "SGLang"),
    ("tgi_", "Text Generation Inference"),
    ("trtllm_", "trtllm-serve"),
    ("dynamo_", "Dynamo"),
    ("DCGM_", "dcgm-exporter"),
    ("num_requests_", "NIM"),
)


def detect(page: Page, engine: Engine) -> tuple[EngineTable, str] | Unknown:
    """The table that reads this page, and the prefix of its families there; ``engine`` AUTO tries all tables."""
    names = frozenset(page.names)
    for table in TABLES:
        if engine in (Engine.AUTO, table.engine):
            prefix = table.prefix_on(names)
            if prefix is not None:
                return table, prefix
    telling = [name for name in page.names if not name.startswith(_RUNTIME_PREFIXES)]
    if not page.names:
        return Unknown(UnknownReason.EMPTY_PAGE, "no samples")
    if not telling:
        detail = f"only {_some(page.names)}: statistics switched off, or the engine isn't up yet?"
        return Unknown(UnknownReason.EMPTY_PAGE, detail)
    if engine is Engine.AUTO:
        return Unknown(UnknownReason.UNKNOWN_ENGINE, f"{_looks_like(telling)}: {_some(telling)}")
    return Unknown(UnknownReason.MISSING_SERIES, f"nothing of {engine} here, {_looks_like(telling)}: {_some(telling)}")


def _looks_like(names: list[str]) -> str:
    for prefix, title in _RECOGNISED:
        if any(name.startswith(prefix) for name in names):
            return f"looks like {title}"
    return "no known engine's page"


def _some(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
