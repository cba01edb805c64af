"""CPU time and memory of one tick: ``python -m benchmarks.decide [--services 1000] [--replicas 10]``.

Every service has a week of history in its forecaster, and every replica a fresh page at each tick. Scraping and
parsing are not in it (see ``benchmarks.scrape``).
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import time
from copy import deepcopy
from dataclasses import replace

from autoscaler.compose import build_models, collect_garbage_less_often
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.params import Params
from autoscaler.domain.reading import EngineReading, Histogram, Observations
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState, ServiceState
from autoscaler.policy import learning
from autoscaler.policy.deciding import decide
from autoscaler.ports import MeasuredRate, Models

TTFT_BOUNDS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
ITL_BOUNDS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LENGTH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
WEEK_S = 7 * 86400.0
HISTORY_STEP_S = 60.0


def rate_rps(service: int, at_s: float) -> float:
    """A day's swing with a phase of the service's own."""
    return 20.0 * (1.2 + math.sin(2 * math.pi * at_s / 86400.0 + service))


def histogram(bounds: tuple[float, ...], count: float, around: float) -> Histogram:
    """``count`` observations, all in the bucket that holds ``around``."""
    return Histogram(bounds, tuple([count if bound >= around else 0.0 for bound in bounds]), count, count * around)


def reading(name: str, service: int, at_s: float, served: float) -> EngineReading:
    """A page after ``served`` requests of 200 prompt and 100 output tokens."""
    return EngineReading(
        replica=name,
        at_s=at_s,
        engine="vllm",
        started_s=1.0,
        asleep=False,
        waiting=0.0,
        running=4.0 + service % 7,
        kv_fraction=0.3,
        kv_capacity_tokens=100_000.0,
        completed=served,
        refused=0.0,
        preemptions=0.0,
        prompt_tokens=200 * served,
        generation_tokens=100 * served,
        arrivals_stock=served + 4.0 + service % 7,
        ttft=histogram(TTFT_BOUNDS_S, served, 0.2),
        itl=histogram(ITL_BOUNDS_S, 100 * served, 0.02),
        e2e=histogram(TTFT_BOUNDS_S, served, 2.0),
        queue_time=histogram(TTFT_BOUNDS_S, served, 0.005),
        prompt_length=histogram(LENGTH_BOUNDS, served, 200.0),
        output_length=histogram(LENGTH_BOUNDS, served, 100.0),
    )


def week_old(service: Service, index: int, now_s: float, models: Models, params: Params) -> ServiceState:
    """A memory whose forecaster saw a week."""
    state = learning.fresh(service, models, params)
    learned = state.forecaster
    at_s = now_s - WEEK_S
    while at_s < now_s:
        at_s += HISTORY_STEP_S
        rate = MeasuredRate(end_s=at_s, span_s=HISTORY_STEP_S, rate_rps=rate_rps(index, at_s), lead_s=75.0)
        [learned] = models.forecaster.learn_all([learned], [rate])
    return replace(state, forecaster=learned)


def main() -> None:
    """Run it and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--ticks", type=int, default=8)
    wanted = parser.parse_args()
    collect_garbage_less_often()
    models, params = build_models(), Params()
    variant = Variant(
        name="default", step_time=StepTime(c_s=0.0064, d_s=1.05e-5, e_s=4.1e-8, a_s=2.4e-5), max_num_seqs=256
    )
    services = tuple(
        Service(id=ServiceId(f"service-{index:04d}"), slo=Slo(ttft_s=2.0, itl_s=0.05), variants=(variant,))
        for index in range(wanted.services)
    )
    now_s = 1_790_000_000.0
    # A few different histories, shared: their bytes are what counts, and learning a thousand weeks takes an hour.
    kinds = [week_old(services[0], index, now_s, models, params) for index in range(3)]
    state = ControllerState(services={service.id: deepcopy(kinds[index % 3]) for index, service in enumerate(services)})
    replicas = tuple(
        Replica(
            name=f"{service.id}-{number}",
            service=service.id,
            variant="default",
            phase=Phase.READY,
            created_s=now_s - 9000,
            ready_s=now_s - 8900,
            metrics_url="http://127.0.0.1:8000/metrics",
        )
        for service in services
        for number in range(wanted.replicas)
    )
    targets = tuple(Target(service=each.id, variant="default", replicas=wanted.replicas) for each in services)
    served = dict.fromkeys((replica.name for replica in replicas), 1000.0)
    spent = []
    for _ in range(wanted.ticks):
        now_s += params.interval_s
        for index, service in enumerate(services):
            for number in range(wanted.replicas):
                name = f"{service.id}-{number}"
                served[name] += rate_rps(index, now_s) * params.interval_s / wanted.replicas
        engines = {
            replica.name: reading(replica.name, number % 7, now_s, served[replica.name])
            for number, replica in enumerate(replicas)
        }
        began_s = time.process_time()
        _, state = decide(
            now_s=now_s,
            state=state,
            services=services,
            snapshot=ClusterSnapshot(at_s=now_s, devices=(), replicas=replicas, targets=targets),
            observations=Observations(at_s=now_s, engines=dict(engines), gateways={}),
            models=models,
            params=params,
        )
        spent.append(time.process_time() - began_s)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"services {wanted.services}, replicas each {wanted.replicas}, ticks {wanted.ticks}")
    print(f"CPU seconds a tick: median {statistics.median(spent[1:]):.3f}, largest {max(spent[1:]):.3f}")
    print(f"peak memory {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
