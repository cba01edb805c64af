"""Shipped step times by GPU, model and tensor parallelism: where a service starts before it has measured its own.

The figures (step_time_profiles.csv) are least-squares fits of our own to the operator tables of NVIDIA's
AIConfigurator 0.12 (Apache-2.0) for vLLM 0.24, vLLM 0.14 on A100; docs/capacity.md says how they were made.
"""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from autoscaler.domain.capacity import StepTime

_MS = 1e-3


class UnknownProfileError(LookupError):
    """No profile is shipped for this GPU, model and tensor parallelism; the message names the nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Step time of one engine replica on ``tp`` GPUs, and the tokens its KV cache holds (16 bit).

    ``decode_error``, ``prefill_error``: mean absolute relative error of the fit to the tables.
    """

    gpu: str
    model: str
    tp: int
    step_time: StepTime
    kv_tokens: float
    decode_error: float
    prefill_error: float

    @property
    def name(self) -> str:
        """As a configuration file writes it: GPU/model/tensor parallelism."""
        return f"{self.gpu}/{self.model}/tp{self.tp}"


@cache
def profiles() -> tuple[Profile, ...]:
    """All shipped profiles, sorted by name."""
    text = files("predictors").joinpath("step_time_profiles.csv").read_text(encoding="utf-8")
    found = [_profile(row) for row in csv.DictReader(text.splitlines())]
    return tuple(sorted(found, key=lambda each: each.name))


def find_profile(*, gpu: str, model: str, tp: int) -> Profile:
    """The profile of this GPU, model and tensor parallelism, however their names are usually spelt.

    "NVIDIA H100 80GB HBM3" and "meta-llama/Llama-3.1-8B-Instruct" find h100_sxm and Meta-Llama-3.1-8B. Raises
    UnknownProfileError, which names the nearest profile.
    """
    wanted = (_plain_gpu(gpu), _plain_model(model), tp)
    for each in profiles():
        if (_plain_gpu(each.gpu), _plain_model(each.model), each.tp) == wanted:
            return each
    nearest = max(profiles(), key=lambda each: (_nearness(each, *wanted), each.name))
    raise UnknownProfileError(
        f"no step-time profile for GPU {gpu!r}, model {model!r} and tensor parallelism {tp}; nearest: {nearest.name}"
    )


def _profile(row: dict[str, str]) -> Profile:
    return Profile(
        gpu=row["gpu"],
        model=row["model"],
        tp=int(row["tp"]),
        step_time=StepTime(
            c_s=float(row["c_ms"]) * _MS,
            d_s=float(row["d_ms_per_seq"]) * _MS,
            e_s=float(row["e_ms_per_context_token"]) * _MS,
            a_s=float(row["a_ms_per_prefill_token"]) * _MS,
        ),
        kv_tokens=float(row["kv_tokens"]),
        decode_error=float(row["decode_error_percent"]) / 100,
        prefill_error=float(row["prefill_error_percent"]) / 100,
    )


def _plain_gpu(name: str) -> str:
    """Without vendor, socket and the usual memory; a card of another form (PCIe, NVL, 40 GB) keeps its suffix."""
    return re.sub(r"nvidia|hbm\w*|sxm\d?|(?:48|80|141)\s?gb|[\s_-]", "", name.lower())


def _plain_model(name: str) -> str:
    """Without the owner and "instruct", which share the architecture and so the step time."""
    plain = re.sub(r"[\s_]", "-", name.lower().rsplit("/", 1)[-1])
    return re.sub(r"^meta-|-instruct(?=-|$)", "", plain)


def _nearness(profile: Profile, gpu: str, model: str, tp: int) -> float:
    """Model above all, then GPU, then tensor parallelism."""
    of_model = difflib.SequenceMatcher(None, _plain_model(profile.model), model).ratio()
    of_gpu = difflib.SequenceMatcher(None, _plain_gpu(profile.gpu), gpu).ratio()
    return 4 * of_model + 3 * of_gpu + min(profile.tp, tp) / max(profile.tp, tp, 1)
