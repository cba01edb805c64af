"""What a user typed -> a study."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import yaml

from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.config.schema import FileSection
from autoscaler.config.units import format_duration
from autoscaler.domain.service import Bounds, Service, Slo
from loadtests.compare.choice import Choice, ChoiceError
from loadtests.compare.configured import drain_s_of, service_of, text_of
from loadtests.compare.engines import measured
from loadtests.compare.study import FLUID_TTFT_S, OURS, Case, EngineModel, OurPolicy, RivalPolicy, Study
from loadtests.rivals.roster import ENGINE_RIVALS, RIVALS, rival
from loadtests.simulation.ours import SHIPPED
from loadtests.workloads.choosing import AnyWorkload, chosen_workload
from loadtests.workloads.workload import fitted_to_peak

# Without a word on it, the busiest minute takes so much of the most replicas allowed.
_PEAK_SHARE = 0.8
_BOUNDS_OVER_PEAK = 1.25
# A setting far outside what is swept is a slip: a percentage for a share, say.
_KNOB_OVER_SWEPT = 10
_NAMES = {
    "static": "static peak",
    "hpa": "HPA, request rate",
    "keda": "KEDA, request rate",
    "knative": "Knative KPA",
    "aibrix": "AIBrix APA",
    "ray": "Ray Serve",
    "wva": "llm-d WVA V2",
    "dynamo": "Dynamo, throughput",
}


def study_of(choice: Choice) -> Study:
    """The study of these options. Raises ChoiceError."""
    _check(choice)
    text = _shipped(choice) if choice.config is None else text_of(choice.config, service=choice.service)
    service = service_of(text, source=str(choice.config or "the shipped defaults"))
    drain_s = drain_s_of(text, service)
    workloads = [_cut(_workload(word), choice.days) for word in choice.traces]
    for workload in workloads:
        if not 0 <= choice.warmup_s < workload.duration_s or choice.warmup_s % 1:
            raise ChoiceError(
                f"--warmup must be whole seconds and shorter than the traffic of {workload.name} "
                f"({format_duration(workload.duration_s)}), got {format_duration(choice.warmup_s)}"
            )
    boots_s = choice.boots_s or (service.startup_s,)
    bounds = service.bounds if choice.peak_replicas is None else _bounds_over(choice.peak_replicas)
    cases = [
        _case(workload, boot_s, service=service, bounds=bounds, drain_s=drain_s, choice=choice)
        for workload in workloads
        for boot_s in boots_s
    ]
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise ChoiceError(f"--trace and --boot: each may be given once, got {', '.join(names)}")
    baseline = _named("--baseline", choice.baseline)
    rivals = [_named("--policy", name).label for name in choice.rivals] or [each.name for each in RIVALS]
    return Study(
        cases=tuple(cases),
        ours=(OurPolicy(label=OURS, text=text), *_changed(text, choice.tried)),
        rivals=tuple(dict.fromkeys([*rivals, baseline.label])),
        seeds=tuple(range(choice.seeds)),
        baseline=baseline,
        knob_values=choice.knob_values,
        refinements=choice.refinements,
    )


def policy_of(word: str) -> RivalPolicy:
    """``hpa``, ``hpa:0.6`` or ``hpa:target=0.6``; any rival's full name will do too. Raises ChoiceError."""
    name, _, setting = word.partition(":")
    try:
        contender = rival(_NAMES.get(name.strip().lower(), name.strip()))
    except ValueError:
        known = "; ".join(each.name for each in ENGINE_RIVALS)
        raise ChoiceError(f"no rival {name!r}; there are: {known}; or short: {', '.join(_NAMES)}") from None
    knob = contender.knob
    if not setting:
        return RivalPolicy(label=contender.name, knob=knob.default)
    key, equals, number = setting.rpartition("=")
    if equals and key.strip() not in (knob.name, knob.name.partition(",")[0]):
        raise ChoiceError(f"{word!r}: the knob of {contender.name} is its {knob.name.partition(',')[0]!r}, got {key!r}")
    low, high = min(knob.values), _KNOB_OVER_SWEPT * max(knob.values)
    low = low / _KNOB_OVER_SWEPT if low > 0 else low
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ChoiceError(
            f"{word!r}: {knob.name} must be a number from {low:g} to {high:g} (default {knob.default:g}), got "
            f"{number!r}"
        )
    return RivalPolicy(label=contender.name, knob=value)


def _named(option: str, word: str) -> RivalPolicy:
    try:
        return policy_of(word)
    except ChoiceError as error:
        raise ChoiceError(f"{option}: {error}") from None


def _check(choice: Choice) -> None:
    """Every number within its range. Raises ChoiceError that names option, range and value."""
    numbers: list[tuple[str, float, float, float]] = [("--boot", boot_s, 0, 86_400) for boot_s in choice.boots_s]
    numbers += [
        ("--seeds", choice.seeds, 1, 10_000),
        ("--knobs", choice.knob_values, 1, 1000),
        ("--refine", choice.refinements, 0, 20),
        ("--metric-lag", choice.metric_lag_s, 0, 3600),
    ]
    if choice.peak_replicas is not None:
        numbers.append(("--peak-replicas", choice.peak_replicas, 0.1, 100_000))
    if choice.capacity_rps is not None:
        numbers.append(("--capacity", choice.capacity_rps, 1e-6, 1e9))
    for option, value, low, high in numbers:
        if not low <= value <= high:
            raise ChoiceError(f"{option} must be a number from {low:,g} to {high:,g}, got {value:g}")


def _workload(word: str) -> AnyWorkload:
    try:
        return chosen_workload(word)
    except ValueError as error:
        raise ChoiceError(f"--trace {word}: {error}") from error


def _cut(workload: AnyWorkload, days: tuple[float, float] | None) -> AnyWorkload:
    if days is None:
        return workload
    first, last = days
    try:
        return workload.cut(first * 86400, min(workload.duration_s, last * 86400))
    except ValueError:
        whole = workload.duration_s / 86400
        raise ChoiceError(
            f"--days must be FROM:TO with 0 <= FROM < TO, and FROM within the {whole:.3g} days of {workload.name}, got "
            f"{first:g}:{last:g}"
        ) from None


def _case(
    workload: AnyWorkload, boot_s: float, *, service: Service, bounds: Bounds, drain_s: float, choice: Choice
) -> Case:
    peak = choice.peak_replicas
    model = _engine_parts(service)
    if choice.engine or (choice.engine is None and model is not None):
        if model is None:
            raise ChoiceError(
                "--model engine needs the service's stepTime (or its profile) and kvTokens in the configuration"
            )
        times, shape = model
        try:
            found = measured(workload, times=times, shape=shape, slo=service.slo)
        except ValueError as error:
            raise ChoiceError(f"{workload.name}: {error}") from error
        return Case(
            workload=workload if peak is None else workload.scaled(peak / found.peak_replicas),
            boot_s=boot_s,
            capacity_rps=found.capacity_rps,
            slo=service.slo,
            bounds=bounds,
            metric_lag_s=choice.metric_lag_s,
            warmup_s=int(choice.warmup_s),
            engine=EngineModel(
                times=times,
                shape=shape,
                curve=dataclasses.replace(found.curve, begin_s=choice.warmup_s),
                service_s=found.service_s,
                drain_s=drain_s,
            ),
        )
    if choice.capacity_rps is None:
        # The traffic stays as it was recorded; replicas are of the size that makes it need so many of them.
        replicas = _PEAK_SHARE * bounds.max_replicas if peak is None else peak
        capacity_rps = workload.peak_rps() / replicas
        if capacity_rps <= 0:
            raise ChoiceError(f"--trace {workload.name}: it has no requests")
    else:
        capacity_rps = choice.capacity_rps
        if peak is not None:
            workload = fitted_to_peak(workload, replicas=peak, capacity_rps=capacity_rps)
    return Case(
        workload=workload,
        boot_s=boot_s,
        capacity_rps=capacity_rps,
        slo=_fluid_slo(service.slo),
        bounds=bounds,
        metric_lag_s=choice.metric_lag_s,
        warmup_s=int(choice.warmup_s),
    )


def _fluid_slo(slo: Slo) -> Slo:
    """What a fluid fleet can judge: the time to first token, in whole seconds."""
    ttft_s = max(1.0, math.floor(slo.ttft_s)) if slo.ttft_s is not None else FLUID_TTFT_S
    return Slo(ttft_s=ttft_s, share=slo.share)


def _bounds_over(peak: float) -> Bounds:
    return Bounds(min_replicas=1, max_replicas=math.ceil(_BOUNDS_OVER_PEAK * peak))


def _engine_parts(service: Service) -> tuple[StepTimes, EngineShape] | None:
    variant = service.variants[0]
    step, kv_tokens = variant.step_time, variant.kv_tokens
    if step is None or kv_tokens is None:
        return None
    times = StepTimes.of_seconds(c_s=step.c_s, d_s=step.d_s, e_s=step.e_s, a_s=step.a_s)
    shape = EngineShape(kv_tokens=int(kv_tokens))
    if variant.max_num_seqs is not None:
        shape = dataclasses.replace(shape, max_num_seqs=variant.max_num_seqs)
    return times, shape


def _shipped(choice: Choice) -> str:
    if choice.service is not None:
        raise ChoiceError(f"--service {choice.service} needs a --config that has it")
    return SHIPPED.text


def _changed(text: str, tried: Sequence[str]) -> list[OurPolicy]:
    """One policy for each value of each key, all else as it is. Raises ChoiceError."""
    changed = []
    for word in tried:
        key, _, values = word.partition("=")
        if not values:
            raise ChoiceError(f"--try must be KEY=VALUE,VALUE such as intervalSeconds=5,15, got {word!r}")
        if key.split(".", maxsplit=1)[0] in ("slo", "minReplicas", "maxReplicas"):
            raise ChoiceError(f"--try {key}: SLO and bounds are the same for every policy; change them in --config")
        for value in values.split(","):
            new = _with(text, key, yaml.safe_load(value))
            service_of(new, source=f"--try {key}={value}")
            changed.append(OurPolicy(label=f"{OURS} {key}={value}", text=new))
    return changed


def _with(text: str, key: str, value: object) -> str:
    """The configuration with one key changed: of the file, or else of its service."""
    document = yaml.safe_load(text)
    path = key.split(".")
    names = {field.alias or name for name, field in FileSection.model_fields.items()}
    place = document if path[0] in names else document["services"][0]
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = value
    return yaml.safe_dump(document, sort_keys=False)
