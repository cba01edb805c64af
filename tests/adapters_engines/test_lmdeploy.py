"""LMDeploy's page: two data-parallel engines, and tokens that its own counter counts twice."""

from __future__ import annotations

from autoscaler.domain.service import Engine
from tests.adapters_engines.known import SCRAPES, known, read

PAGE = (SCRAPES / "lmdeploy_dp2.prom").read_text()


def test_two_engines_add_up() -> None:
    reading = read(PAGE)
    assert reading.engine == Engine.LMDEPLOY
    assert known(reading) == {
        "waiting": 5,
        "running": 7,
        "kv_fraction": 0.75,
        "completed": 40,
        "prompt_tokens": 4000,
        "generation_tokens": 2000,
        "arrivals_stock": 54,  # 5 + max(49, 40 + 7)
        "ttft": (49, 9.5),
        "itl": (2400, 60),
        "e2e": (40, 80),
        "queue_time": (40, 4),
        "prompt_length": (40, 3200),
        "output_length": (40, 2000),
    }
