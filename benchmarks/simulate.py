"""How fast fleets of engines are simulated: `python -m benchmarks.simulate`.

Requests per second of CPU time, by engine, lengths, fleet and load (a share of the rate at which the mean step time
would grow without end); the better of two runs. Then a day of 5 M requests: with everything read every 15 s, and with
the real controller, which decides every 15 s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from adapters.simulation.delays import Fixed
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.replicas import ReplicaKind
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Bounds, Slo
from loadtests.digest import shipped
from loadtests.lengths import LengthQuantiles, lognormal_lengths
from loadtests.simulation.ours import Ours
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import EngineServing, Setup
from predictors.profiles import find_profile

CHUNKS = {"l40s": 2048, "h100": 8192}
FLEETS = {1: 200_000, 10: 400_000, 100: 1_000_000, 1000: 2_000_000}
LOADS = (0.1, 0.5, 0.7)
SLO = Slo(ttft_s=2.0, itl_s=0.05)
DAY_S, DAY_REQUESTS, TICK_S = 86_400.0, 5_000_000, 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A kind of traffic."""

    name: str
    prompts: LengthQuantiles
    outputs: LengthQuantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A measured engine of an 8B model; times in seconds."""

    gpu: str
    c_s: float
    d_s: float
    e_s: float
    a_s: float
    shape: EngineShape

    def fleet(self, requests: Requests, *, replicas: int) -> EngineFleet:
        """All of them open."""
        times = StepTimes.of_seconds(c_s=self.c_s, d_s=self.d_s, e_s=self.e_s, a_s=self.a_s)
        fleet = EngineFleet(requests, times=times, shape=self.shape, slo=SLO)
        for _ in range(replicas):
            fleet.open(fleet.add())
        return fleet


def kinds_of_lengths() -> tuple[Lengths, ...]:
    """Conversation as Azure recorded it in 2023, and reasoning with its mean lengths."""
    conversation = shipped("azure2023_conv")
    return (
        Lengths(name="conversation", prompts=conversation.prompt_tokens, outputs=conversation.output_tokens),
        Lengths(
            name="reasoning",
            prompts=lognormal_lengths(mean=1268, cv=0.9),
            outputs=lognormal_lengths(mean=1527, cv=0.9),
        ),
    )


def engine_on(gpu: str) -> Engine:
    """The engine of an 8B model on ``gpu``."""
    profile = find_profile(gpu=gpu, model="Llama-3.1-8B", tp=1)
    step = profile.step_time
    shape = EngineShape(kv_tokens=int(profile.kv_tokens), chunk_tokens=CHUNKS[gpu])
    return Engine(gpu=gpu, c_s=step.c_s, d_s=step.d_s, e_s=step.e_s, a_s=step.a_s, shape=shape)


def poisson(engine: Engine, lengths: Lengths, *, rate_rps: float, size: int, seed: int = 1) -> Requests:
    """``size`` requests at ``rate_rps``."""
    rng = np.random.default_rng(seed)
    at_s = np.cumsum(rng.exponential(1 / rate_rps, size))
    most = engine.shape.kv_tokens // 2
    return Requests(
        at_s=at_s,
        prompt_tokens=np.minimum(lengths.prompts.draw(rng, size), most),
        output_tokens=np.minimum(lengths.outputs.draw(rng, size), most),
        cached_tokens=np.zeros(size, dtype=np.int64),
        duration_s=float(at_s[-1]),
    )


def saturation_rps(engine: Engine, lengths: Lengths) -> float:
    """Requests a second that one replica's marginal costs allow at most: 1/w of the capacity model."""
    sample = poisson(engine, lengths, rate_rps=1.0, size=50_000)
    prompts, outputs = sample.prompt_tokens.astype(float), sample.output_tokens.astype(float)
    work_s = engine.a_s * prompts + engine.d_s * outputs + engine.e_s * outputs * (prompts + outputs / 2)
    return 1 / float(work_s.mean())


def requests_per_cpu_s(engine: Engine, requests: Requests, *, replicas: int) -> float:
    """The better of two runs."""
    fastest_s = np.inf
    for _ in range(2):
        fleet = engine.fleet(requests, replicas=replicas)
        began_s = time.process_time()
        fleet.advance(requests.duration_s)
        fastest_s = min(fastest_s, time.process_time() - began_s)
    return len(requests) / float(fastest_s)


def day_with_pages(engine: Engine, lengths: Lengths) -> str:
    """A day in which a controller reads every page and the gateway at each tick."""
    rate_rps = DAY_REQUESTS / DAY_S
    replicas = int(np.ceil(rate_rps / (0.6 * saturation_rps(engine, lengths))))
    requests = poisson(engine, lengths, rate_rps=rate_rps, size=DAY_REQUESTS)
    fleet = engine.fleet(requests, replicas=replicas)
    began_s = time.process_time()
    for until_s in np.arange(TICK_S, requests.duration_s, TICK_S).tolist():
        fleet.advance(until_s)
        fleet.gateway()
        for replica in range(replicas):
            fleet.page(replica)
    return f"{replicas} replicas: {time.process_time() - began_s:.1f} s of CPU time"


def day_with_controller(engine: Engine, lengths: Lengths) -> str:
    """The same day under the shipped controller, told nothing but the engine's profile."""
    rate_rps = DAY_REQUESTS / DAY_S
    replicas = int(np.ceil(rate_rps / (0.6 * saturation_rps(engine, lengths))))
    setup = Setup(
        serving=EngineServing(
            requests=poisson(engine, lengths, rate_rps=rate_rps, size=DAY_REQUESTS),
            times=StepTimes.of_seconds(c_s=engine.c_s, d_s=engine.d_s, e_s=engine.e_s, a_s=engine.a_s),
            shape=engine.shape,
        ),
        slo=SLO,
        bounds=Bounds(min_replicas=1, max_replicas=4 * replicas),
        kinds=(ReplicaKind(startup=Fixed(60.0)),),
        initial=replicas,
    )
    profile = f"{engine.gpu if engine.gpu != 'h100' else 'h100_sxm'}/Meta-Llama-3.1-8B/tp1"
    serving = f"command: 'serve --port {{port}}', stepTime: {{profile: {profile}}}"
    ours = Ours(text=f"services: [{{name: service, slo: {{ttft: 2s, itl: 50ms}}, {serving}}}]\n")
    began_s = time.process_time()
    result = simulate(setup, ours, seed=1)
    took_s = time.process_time() - began_s
    share = 1 - result.score.missed / result.score.requests
    return f"{result.gpu_hours / 24:.1f} replicas on average, {share:.2%} in SLO: {took_s:.1f} s of CPU time"


def main() -> None:
    """Print the tables."""
    kinds = kinds_of_lengths()
    warm = engine_on("l40s")
    requests_per_cpu_s(warm, poisson(warm, kinds[0], rate_rps=1.0, size=100), replicas=1)
    print("million requests per CPU second")
    print(f"{'engine, lengths':26}{'replicas':>9}" + "".join(f"{f'load {load}':>10}" for load in LOADS))
    for gpu in CHUNKS:
        engine = engine_on(gpu)
        for lengths in kinds:
            most_rps = saturation_rps(engine, lengths)
            for replicas, size in FLEETS.items():
                speeds = []
                for load in LOADS:
                    requests = poisson(engine, lengths, rate_rps=load * most_rps * replicas, size=size)
                    speeds.append(requests_per_cpu_s(engine, requests, replicas=replicas) / 1e6)
                row = "".join(f"{speed:10.2f}" for speed in speeds)
                print(f"{f'8B {gpu}, {lengths.name}':26}{replicas:9}{row}", flush=True)
    print(f"a day of {DAY_REQUESTS:,} conversations, pages read every {TICK_S:g} s")
    for gpu in CHUNKS:
        print(f"  8B {gpu}, {day_with_pages(engine_on(gpu), kinds[0])}", flush=True)
    print("the same day with the real controller")
    for gpu in CHUNKS:
        print(f"  8B {gpu}, {day_with_controller(engine_on(gpu), kinds[0])}", flush=True)


if __name__ == "__main__":
    main()
