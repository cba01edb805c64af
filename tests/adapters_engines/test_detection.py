"""Whose page it is: told by the page, declared by the user, of several engines, or of none."""

from __future__ import annotations

import pytest

from adapters.engines.detection import TABLES
from adapters.engines.signals import sample_names
from autoscaler.domain.reading import UnknownReason
from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, read, refused

PAGES = {
    Engine.VLLM: "vllm_0.32_cpu_overloaded.prom",
    Engine.SGLANG: "sglang_dp2_tp2.prom",
    Engine.TGI: "tgi_3_overloaded.prom",
    Engine.TRITON: "triton_cpu_loaded.prom",
    Engine.TRTLLM: "trtllm_serve.prom",
    Engine.NIM: "nim_llama.prom",
    Engine.DYNAMO: "dynamo_frontend.prom",
    Engine.LMDEPLOY: "lmdeploy_dp2.prom",
}


def page(engine: Engine) -> str:
    return (SCRAPES / PAGES[engine]).read_text()


def test_every_engine_that_can_be_declared_has_a_table_and_a_page() -> None:
    assert {table.engine for table in TABLES} == set(Engine) - {Engine.AUTO} == set(PAGES)


@pytest.mark.parametrize("engine", PAGES)
def test_a_page_is_told_by_itself_and_reads_the_same_when_declared(engine: Engine) -> None:
    detected = read(page(engine))
    assert detected.engine == engine
    assert detected == read(page(engine), engine=engine)
    assert detected.warnings == () or engine is Engine.SGLANG


@pytest.mark.parametrize("engine", PAGES)
def test_a_page_of_another_engine_than_the_declared_is_named(engine: Engine) -> None:
    declared = Engine.DYNAMO if engine is not Engine.DYNAMO else Engine.TGI
    answer = refused(page(engine), engine=declared)
    title = next(table.title for table in TABLES if table.engine is engine and "with" not in table.title)
    assert answer.reason is UnknownReason.MISSING_SERIES
    assert f"nothing of {declared} here, looks like {title}" in answer.detail


def test_two_engines_on_a_page_are_a_question_to_the_user() -> None:
    both = page(Engine.SGLANG) + page(Engine.TGI)
    answer = refused(both)
    assert answer.reason is UnknownReason.UNKNOWN_ENGINE
    assert "several engines on one page: SGLang, Text Generation Inference" in answer.detail
    declared = read(both, engine=Engine.TGI)
    assert declared.arrivals_stock == 100
    assert declared.warnings == ("series of SGLang on this page are left aside",)


def test_vllm_within_triton_is_vllms_and_tritons_own_series_are_left_aside() -> None:
    vllm = 'vllm:num_requests_running{model="m",version="1"} 3\nvllm:num_requests_waiting{model="m",version="1"} 2\n'
    reading = read(page(Engine.TRITON).replace('"dbl"', '"m"') + vllm)
    assert (reading.engine, reading.waiting) == (Engine.VLLM, 2)
    assert reading.warnings == ("series of Triton Inference Server on this page are left aside",)
    assert read(page(Engine.TRITON) + vllm, engine=Engine.TRITON, model="dbl").waiting == 32


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 99\n', "dcgm-exporter", id="GPU page alone"),
        pytest.param("dynamo_component_inflight_requests 1\n", "a Dynamo worker", id="Dynamo worker"),
        pytest.param("te_queue_size 1\n", "Text Embeddings Inference", id="TEI"),
        pytest.param("my_app_requests_total 1\n", "no known engine's page: my_app_requests_total", id="unknown"),
        pytest.param("num_requests_max 1\n", "no known engine's page", id="a name near NIM's"),
    ],
)
def test_a_page_of_no_engine_says_what_it_looks_like(body: str, said: str) -> None:
    answer = refused(body)
    assert answer.reason is UnknownReason.UNKNOWN_ENGINE
    assert said in answer.detail


@pytest.mark.parametrize("table", TABLES, ids=[table.title for table in TABLES])
def test_a_table_names_only_signals_that_it_has(table: object) -> None:
    (found,) = [one for one in TABLES if one is table]
    names = {signal.name for signal in found.signals}
    referred = {*found.required, *found.arrivals_of}
    referred |= {name for derived in found.derived for name in derived.of}
    referred |= {name for sums in found.sums for name in (sums.count, sums.total)}
    referred |= {name for signal in found.signals for name in signal.first_use or ()}
    assert referred <= names
    wanted = set(found.sample_names())
    for prefix in found.prefixes:
        for signal in found.signals:
            for alias in signal.aliases:
                assert wanted.issuperset(sample_names(signal.kind, alias.family(prefix)))
