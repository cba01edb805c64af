"""Whose page is it? The engines that are read, and those that are only recognised so that the user is told."""

from __future__ import annotations

from adapters.engines.dynamo import DYNAMO
from adapters.engines.exposition import Page
from adapters.engines.lmdeploy import LMDEPLOY
from adapters.engines.nim import NIM
from adapters.engines.sglang import SGLANG
from adapters.engines.signals import EngineTable
from adapters.engines.tgi import TGI
from adapters.engines.triton import TRITON
from adapters.engines.triton_trtllm import TRITON_TRTLLM
from adapters.engines.trtllm import TRTLLM
from adapters.engines.vllm import VLLM
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Engine

# Where two tables fit a page, the earlier one is taken: it says more.
TABLES: tuple[EngineTable, ...] = (VLLM, SGLANG, TGI, TRTLLM, LMDEPLOY, DYNAMO, NIM, TRITON_TRTLLM, TRITON)

# Families of a server's language runtime and web framework: on a page of their own they say nothing of an engine.
_RUNTIME_PREFIXES = ("python_", "process_", "http_", "go_", "promhttp_")

# Pages that are not read as an engine's, but can be named.
_OTHERS = (
    ("DCGM_", "dcgm-exporter: the page of GPUs, not of an engine"),
    ("dynamo_component_", "a Dynamo worker without its engine's own series"),
    ("te_", "Text Embeddings Inference"),
    ("llamacpp:", "llama.cpp's server"),
)


def detect(page: Page, engine: Engine) -> tuple[EngineTable, str] | Unknown:
    """The table that reads this page, and the prefix of its families there; ``engine`` AUTO tries all tables.

    Two engines on one page are a question that only the user can answer: Unknown(UNKNOWN_ENGINE) names them.
    """
    fitting = _fitting(page, engine)
    if fitting:
        table, prefix = fitting[0]
        titles = [other.title for other, _ in fitting if not other.hosts]
        if len(titles) > 1:
            both = ", ".join(titles)
            return Unknown(UnknownReason.UNKNOWN_ENGINE, f"several engines on one page: {both}; say which one counts")
        return table, prefix
    telling = [name for name in page.names if not name.startswith(_RUNTIME_PREFIXES)]
    if not page.names:
        return Unknown(UnknownReason.EMPTY_PAGE, "no samples")
    if not telling:
        detail = f"only {_some(page.names)}: statistics switched off, or the engine isn't up yet?"
        return Unknown(UnknownReason.EMPTY_PAGE, detail)
    if engine is Engine.AUTO:
        return Unknown(UnknownReason.UNKNOWN_ENGINE, f"{_looks_like(page, telling)}: {_some(telling)}")
    detail = f"nothing of {engine} here, {_looks_like(page, telling)}: {_some(telling)}"
    return Unknown(UnknownReason.MISSING_SERIES, detail)


def beside(table: EngineTable, page: Page) -> tuple[str, ...]:
    """What to tell the user of the other engines on a page that ``table`` reads."""
    others = [other.title for other, _ in _fitting(page, Engine.AUTO) if other.engine is not table.engine]
    return (f"series of {', '.join(others)} on this page are left aside",) if others else ()


def _fitting(page: Page, engine: Engine) -> list[tuple[EngineTable, str]]:
    """The tables that know something on the page, in order of ``TABLES``, each with its prefix; one an engine."""
    names = frozenset(page.names)
    fitting: dict[Engine, tuple[EngineTable, str]] = {}
    for table in TABLES:
        if engine in (Engine.AUTO, table.engine) and table.engine not in fitting:
            prefix = table.prefix_on(names, declared=engine is not Engine.AUTO)
            if prefix is not None:
                fitting[table.engine] = (table, prefix)
    return list(fitting.values())


def _looks_like(page: Page, names: list[str]) -> str:
    titles = [table.title for table, _ in _fitting(page, Engine.AUTO)]
    titles += [title for prefix, title in _OTHERS if any(name.startswith(prefix) for name in names)]
    return f"looks like {titles[0]}" if titles else "no known engine's page"


def _some(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
