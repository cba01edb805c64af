"""The capacity model against the step-by-step engine: `python -m benchmarks.capacity`.

For each engine, traffic and fleet: the largest rate at which the share of requests is in SLO, simulated (by bisection)
and answered by the model, both over the rate at which the mean ITL meets the SLO; and the share in SLO at the answer.
"""

from __future__ import annotations

import time

from autoscaler.domain.capacity import RequestShape, StepTime
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Slo, Variant
from benchmarks.step_engine import Engine, Traffic, simulate
from predictors.capacity import StepTimeCapacity
from predictors.profiles import find_profile

FLEETS = (1, 10, 40)
SHARES = (0.95, 0.99)
REQUESTS = 30_000
CALLS = 2_000
BATCH_TOKENS = 8192

CONVERSATION = Traffic(prompt=1155, output=211, prompt_cv=0.96, output_cv=0.77)
CODE = Traffic(prompt=2048, output=28, prompt_cv=0.96, output_cv=1.0)
CHAT = Traffic(prompt=256, output=256)
REASONING = Traffic(prompt=1268, output=1527, output_cv=0.9)

CASES = (
    ("l40s", "Llama-3.1-8B", 1, CONVERSATION, 0.05),
    ("h100", "Llama-3.1-8B", 1, CONVERSATION, 0.05),
    ("h100", "Llama-3.1-8B", 1, CONVERSATION, 0.02),
    ("h100", "Llama-3.1-70B", 4, CONVERSATION, 0.05),
    ("h100", "Llama-3.1-8B", 1, CODE, 0.05),
    ("a100", "Llama-3.1-8B", 1, CHAT, 0.05),
    ("h200", "Llama-3.1-70B", 2, REASONING, 0.05),
)
TTFT_S = 2.0


def shape_of(traffic: Traffic) -> RequestShape:
    """The moments of independent lengths."""
    return RequestShape(
        prompt=traffic.prompt,
        output=traffic.output,
        prompt_sq=traffic.prompt**2 * (1 + traffic.prompt_cv**2),
        output_sq=traffic.output**2 * (1 + traffic.output_cv**2),
        prompt_x_output=traffic.prompt * traffic.output,
    )


def mean_rate(step: StepTime, shape: RequestShape, *, itl_s: float) -> float:
    """Requests/s at which the mean ITL is ``itl_s``: (1 - c/S)/w."""
    work_s = step.a_s * shape.prompt + step.d_s * shape.output
    work_s += step.e_s * (shape.prompt_x_output + shape.output_sq / 2)
    return (1 - step.c_s / itl_s) / work_s


def share_at(engine: Engine, traffic: Traffic, *, fleet: int, rps: float, itl_s: float, seed: int) -> float:
    """Share of requests in SLO at ``rps`` requests/s a replica."""
    arrivals_s, prompts, outputs = traffic.draw(REQUESTS, rps * fleet, seed)
    served = simulate(engine, arrivals_s=arrivals_s, prompts=prompts, outputs=outputs, replicas=fleet)
    return served.share(ttft_s=TTFT_S, itl_s=itl_s)


def main() -> None:
    """Print the table, and the cost of one answer."""
    model = StepTimeCapacity(batch_tokens=BATCH_TOKENS)
    print(f"{'engine':<32}{'lengths':<10}{'ITL':>5}  fleet  share  simulated  answer  in SLO at it")
    for gpu, name, tp, traffic, itl_s in CASES:
        profile = find_profile(gpu=gpu, model=name, tp=tp)
        step, shape = profile.step_time, shape_of(traffic)
        engine = Engine(c=step.c_s, d=step.d_s, e=step.e_s, a=step.a_s, budget=BATCH_TOKENS)
        mean_rps = mean_rate(step, shape, itl_s=itl_s)
        variant = Variant(name=profile.name, step_time=step)
        for fleet in FLEETS:
            for share in SHARES:
                slo = Slo(ttft_s=TTFT_S, itl_s=itl_s, share=share)
                answer = model.capacity(model.start(), variant=variant, shape=shape, slo=slo, fleet=fleet)
                if isinstance(answer, Unknown):
                    print(profile.name, traffic, answer)
                    continue
                low, high = 0.02, 1.1
                for _ in range(8):
                    part = (low + high) / 2
                    reached = share_at(engine, traffic, fleet=fleet, rps=part * mean_rps, itl_s=itl_s, seed=1)
                    low, high = (part, high) if reached >= share else (low, part)
                attained = share_at(engine, traffic, fleet=fleet, rps=answer.rps, itl_s=itl_s, seed=2)
                lengths = f"{traffic.prompt:.0f}/{traffic.output:.0f}"
                print(
                    f"{profile.name:<32}{lengths:<10}{itl_s * 1e3:3.0f}ms {fleet:6} {share:6.2f}"
                    f"{low:11.2f}{answer.rps / mean_rps:8.2f}{attained:14.1%}",
                    flush=True,
                )
    _print_cost(model)


def _print_cost(model: StepTimeCapacity) -> None:
    profile = find_profile(gpu="l40s", model="Llama-3.1-8B", tp=1)
    variant = Variant(name=profile.name, step_time=profile.step_time, max_num_seqs=256, kv_tokens=profile.kv_tokens)
    slo, shape, learned = Slo(ttft_s=TTFT_S, itl_s=0.05), shape_of(CONVERSATION), model.start()
    best_s = float("inf")
    for _ in range(5):
        began_s = time.process_time()
        for _ in range(CALLS):
            model.capacity(learned, variant=variant, shape=shape, slo=slo, fleet=10)
        best_s = min(best_s, (time.process_time() - began_s) / CALLS)
    print(f"one answer: {best_s * 1e6:.0f} us of CPU")


if __name__ == "__main__":
    main()
