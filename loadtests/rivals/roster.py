"""All rivals, in the order of reports."""

from __future__ import annotations

from loadtests.rivals.aibrix import AIBRIX_APA, AIBRIX_KPA
from loadtests.rivals.dynamo_load import DYNAMO_LOAD
from loadtests.rivals.dynamo_sla import DYNAMO_SLA
from loadtests.rivals.dynamo_throughput import DYNAMO_THROUGHPUT
from loadtests.rivals.hpa import HPA_IN_FLIGHT, HPA_PODS, HPA_RATE, HPA_VALUE
from loadtests.rivals.keda import KEDA_QUEUE, KEDA_RATE
from loadtests.rivals.knative import KNATIVE_KPA, KNATIVE_RPS
from loadtests.rivals.ray_serve import RAY_SERVE
from loadtests.rivals.seen import Contender
from loadtests.rivals.static_peak import STATIC_PEAK
from loadtests.rivals.wva_saturation import WVA_V1
from loadtests.rivals.wva_tokens import WVA_V2

RIVALS: tuple[Contender, ...] = (
    STATIC_PEAK,
    HPA_RATE,
    HPA_IN_FLIGHT,
    HPA_VALUE,
    HPA_PODS,
    KEDA_RATE,
    KEDA_QUEUE,
    KNATIVE_KPA,
    KNATIVE_RPS,
    AIBRIX_APA,
    AIBRIX_KPA,
    RAY_SERVE,
    WVA_V1,
    WVA_V2,
    DYNAMO_THROUGHPUT,
    DYNAMO_LOAD,
)
# With those that need more than a fluid fleet can show.
ENGINE_RIVALS: tuple[Contender, ...] = (*RIVALS, DYNAMO_SLA)


def rival(name: str) -> Contender:
    """The rival of that name. Raises ValueError that lists them all."""
    for contender in ENGINE_RIVALS:
        if contender.name == name:
            return contender
    known = ", ".join(contender.name for contender in ENGINE_RIVALS)
    raise ValueError(f"no rival {name!r}; there are: {known}")
