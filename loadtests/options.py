"""Command-line options of a load: what is offered, to whom, and what counts as good. Shared by both
entries.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from autoscaler.domain.service import Slo
from loadtests.arrivals import Arrivals, from_digest, from_profile
from loadtests.client import Measuring, Target
from loadtests.digest import read, shipped
from loadtests.lengths import parse_lengths
from loadtests.rates import parse_formula
from loadtests.records import LoadHead


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the plan, the target and the SLO; the target's URL is the entry's own option."""
    plan = parser.add_argument_group("load", "arrivals from a trace's digest or from a formula")
    plan.add_argument("--trace", default=None, help="a shipped digest's name, or a digest file")
    plan.add_argument("--from-s", type=float, default=0.0, help="begin of the stretch of the trace")
    plan.add_argument("--until-s", type=float, default=None, help="its end; the trace's end if not given")
    plan.add_argument("--duration-s", type=float, default=None, help="squeeze the stretch into this time")
    plan.add_argument("--requests", type=int, default=None, help="thin it to so many requests")
    plan.add_argument("--prompt-scale", type=float, default=1.0, help="factor on the trace's prompt lengths")
    plan.add_argument("--output-scale", type=float, default=1.0, help="factor on the trace's output lengths")
    plan.add_argument("--formula", default=None, help="steps:2x30,8x60 or ramp:, diurnal:, bursts: ...")
    plan.add_argument("--prompt-tokens", default="256~0.5", metavar="MEAN[~CV]", help="lengths under a formula")
    plan.add_argument("--output-tokens", default="64~0.5", metavar="MEAN[~CV]")
    plan.add_argument("--dispersion", type=float, default=1.0, help="of arrivals under a formula; 1 is Poisson")
    plan.add_argument("--seed", type=int, default=1)
    target = parser.add_argument_group("target")
    target.add_argument("--served-model", default="emulated", help="model name in the requests")
    target.add_argument("--chat", action="store_true", help="chat completions instead of completions")
    target.add_argument("--triton", action="store_true", help="inferences by Triton's client; the SLO is --slo-e2e")
    target.add_argument("--timeout-s", type=float, default=120.0, help="a longer request is unfinished")
    target.add_argument("--drain-s", type=float, default=60.0, help="wait so long for answers after the last arrival")
    slo = parser.add_argument_group("objective")
    slo.add_argument("--slo-ttft", type=float, default=2.0, help="seconds to the first token")
    slo.add_argument("--slo-e2e", type=float, default=2.0, help="seconds to the whole answer, with --triton")
    slo.add_argument("--slo-itl", type=float, default=0.1, help="seconds between tokens, mean of a request")
    parser.add_argument("--records", type=Path, default=None, help="write a JSON line for each request here")


def arrivals_of(given: argparse.Namespace) -> Arrivals:
    """The plan that the options describe. Raises ValueError."""
    if (given.trace is None) == (given.formula is None):
        raise ValueError("give either --trace or --formula")
    if given.formula is not None:
        return from_profile(
            parse_formula(given.formula),
            prompts=parse_lengths(given.prompt_tokens),
            outputs=parse_lengths(given.output_tokens),
            dispersion=given.dispersion,
            seed=given.seed,
            label=given.formula,
        )
    file = Path(given.trace)
    digest = read(file) if file.is_file() else shipped(given.trace)
    until_s = digest.duration_s if given.until_s is None else given.until_s
    return from_digest(
        digest,
        from_s=given.from_s,
        until_s=until_s,
        duration_s=until_s - given.from_s if given.duration_s is None else given.duration_s,
        requests=sum(digest.arrivals_between(given.from_s, until_s)) if given.requests is None else given.requests,
        prompt_scale=given.prompt_scale,
        output_scale=given.output_scale,
        seed=given.seed,
    )


def target_of(given: argparse.Namespace, *, url: str) -> Measuring:
    """The target. Raises ValueError."""
    if given.triton:
        try:
            from loadtests.triton_client import TritonTarget  # noqa: PLC0415  (an extra of its own)
        except ImportError as error:
            raise ValueError(f'--triton needs the extra "triton": {error}') from error
        return TritonTarget(url=url, model=given.served_model, timeout_s=given.timeout_s)
    return Target(url=url, model=given.served_model, chat=given.chat, timeout_s=given.timeout_s)


def head_of(given: argparse.Namespace, target: Measuring, arrivals: Arrivals) -> LoadHead:
    """The records' head for a load that begins now. Raises ValueError where a threshold is out of range."""
    return LoadHead(
        url=target.url,
        label=arrivals.label,
        started_s=time.time(),
        duration_s=arrivals.duration_s,
        requests=len(arrivals),
        slo=Slo(e2e_s=given.slo_e2e) if given.triton else Slo(ttft_s=given.slo_ttft, itl_s=given.slo_itl),
    )
