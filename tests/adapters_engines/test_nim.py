"""NIM's pages: vLLM's families without a prefix, and newer ones with vLLM's own names."""

from __future__ import annotations

from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read

PAGE = (SCRAPES / "nim_llama.prom").read_text()


def test_a_page_without_a_prefix() -> None:
    reading = read(PAGE)
    assert reading.engine == Engine.NIM
    assert known(reading) == {
        "waiting": 1,
        "running": 3,
        "kv_fraction": 0.125,
        "completed": 34,
        "refused": 2,
        "prompt_tokens": 603,
        "generation_tokens": 997,
        "arrivals_stock": 38,  # 1 + max(37, 34 + 3)
        "ttft": (37, 3.78),
        "itl": (963, 1.7),
        "e2e": (34, 5.49),
        "prompt_length": (34, 603),
        "output_length": (34, 997),
    }


def test_success_before_the_finish_reasons_and_these_before_the_times() -> None:
    page = PAGE.replace("request_success_total", "x")
    assert dict(read(page).sources)["completed"] == "request_finish_total"
    assert read(page).completed == 34


def test_vllms_own_names_inside_are_vllms_unless_nim_is_declared() -> None:
    page = "num_request_max 1024\n" + "".join(
        [f"vllm:{name} {value}\n" for name, value in (("num_requests_running", 3), ("num_requests_waiting", 2))]
    )
    assert read(page).engine == Engine.VLLM
    declared = read(page, engine=Engine.NIM)
    assert (declared.engine, declared.running, declared.waiting) == (Engine.NIM, 3, 2)
