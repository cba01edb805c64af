"""Where the gateways of a cluster tell what they counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import ServiceId


class GatewayKind(StrEnum):
    """Whose gateway it is, which says how its page is read."""

    GPU_AUTOSCALER = "GPUAutoscaler"
    ENDPOINT_PICKER = "EndpointPicker"
    ENVOY = "Envoy"
    ISTIO = "Istio"
    LITELLM = "LiteLLM"
    DYNAMO = "Dynamo"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GatewayPage:
    """One gateway's page. ``name``: of the gateway among all; another start of it keeps the name.

    ``match``: labels of the series that are the service's, on the page of a gateway that is not ours.
    """

    name: str
    url: str
    kind: GatewayKind = GatewayKind.GPU_AUTOSCALER
    match: tuple[tuple[str, str], ...] = ()


# For each service with a gateway the pages that together tell all of its requests, or why they are not known.
GatewayPages = Mapping[ServiceId, tuple[GatewayPage, ...] | Unknown]
