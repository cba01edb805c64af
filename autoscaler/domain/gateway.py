"""Where the gateways of a cluster tell what they counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import ServiceId


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GatewayPage:
    """One gateway's page. ``name``: of the gateway among all; another start of it keeps the name."""

    name: str
    url: str


# For each service with a gateway the pages that together tell all of its requests, or why they are not known.
GatewayPages = Mapping[ServiceId, tuple[GatewayPage, ...] | Unknown]
