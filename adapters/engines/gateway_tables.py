"""Gateways that are not ours, as tables: which series tell the requests of a service, and when each one moves.

Sources of the names: kubernetes-sigs/gateway-api-inference-extension ``pkg/epp/metrics`` and llm-d's router (endpoint
picker); Envoy's cluster statistics and Istio's standard metrics; ``litellm/integrations/prometheus.py`` of
BerriAI/litellm; ``lib/runtime/src/metrics/prometheus_names.rs`` of ai-dynamo/dynamo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adapters.engines.signals import Kind
from autoscaler.domain.gateway import GatewayKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand: the first family of ``names`` with a series on the page, its series of the service added up.

    ``but``: a label and a value of it whose series do not count. ``sign``: 1 or -1. ``lacking``: families come with a
    gateway's first request, so one that is absent has counted nothing; not this one: why it may be absent.
    """

    names: tuple[str, ...]
    kind: Kind = Kind.COUNTER
    sign: int = 1
    but: tuple[str, str] | None = None
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTable:
    """How one gateway's page is read.

    ``witness``: starts of names, one of which is on each of its pages, whatever was asked of it. ``label``: what tells
    the service apart where the user names no labels. ``arrivals``: terms of a stock whose difference over time is the
    count of arrivals. ``waiting``, ``in_flight``: terms of gauges; none: it does not tell. ``ended_only``: as of
    ForeignGatewayReading.
    """

    kind: GatewayKind
    witness: tuple[str, ...]
    label: str
    arrivals: tuple[Term, ...]
    waiting: tuple[Term, ...] = ()
    in_flight: tuple[Term, ...] = ()
    ended_only: bool = False


# A request is counted once it is given to a replica; until then it is in the queue of flow control, and one that is
# turned away there is counted by its outcome alone.
_QUEUE = Term(
    names=("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size"), kind=Kind.GAUGE
)
_TURNED_AWAY = Term(
    names=("llm_d_epp_flow_control_requests_total", "inference_extension_flow_control_requests_total"),
    but=("outcome", "Dispatched"),
)
_ENDPOINT_PICKER = GatewayTable(
    kind=GatewayKind.ENDPOINT_PICKER,
    witness=("llm_d_epp_", "inference_extension_", "inference_objective_", "inference_model_", "inference_pool_"),
    label="model_name",
    arrivals=(
        Term(names=("llm_d_epp_request_total", "inference_objective_request_total", "inference_model_request_total")),
        _QUEUE,
        _TURNED_AWAY,
    ),
    waiting=(_QUEUE,),
    in_flight=(
        _QUEUE,
        Term(
            names=(
                "llm_d_epp_request_running",
                "inference_objective_running_requests",
                "inference_model_running_requests",
            ),
            kind=Kind.GAUGE,
        ),
    ),
)

# Retries are requests to Envoy's clusters too; what its circuit breaker refused was asked for, and never sent.
_ENVOY = GatewayTable(
    kind=GatewayKind.ENVOY,
    witness=("envoy_",),
    label="envoy_cluster_name",
    arrivals=(
        Term(
            names=("envoy_cluster_upstream_rq_total",),
            lacking="no such cluster, or its statistics are filtered out",
        ),
        Term(names=("envoy_cluster_upstream_rq_retry",), sign=-1),
        Term(names=("envoy_cluster_upstream_rq_pending_active",), kind=Kind.GAUGE),
        Term(names=("envoy_cluster_upstream_rq_pending_overflow",)),
    ),
    waiting=(Term(names=("envoy_cluster_upstream_rq_pending_active",), kind=Kind.GAUGE),),
    in_flight=(
        Term(names=("envoy_cluster_upstream_rq_active",), kind=Kind.GAUGE),
        Term(names=("envoy_cluster_upstream_rq_pending_active",), kind=Kind.GAUGE),
    ),
)

_ISTIO = GatewayTable(
    kind=GatewayKind.ISTIO,
    witness=("istio_", "envoy_"),
    label="destination_service_name",
    arrivals=(Term(names=("istio_requests_total",)),),
    ended_only=True,
)

_LITELLM = GatewayTable(
    kind=GatewayKind.LITELLM,
    witness=("litellm_",),
    label="requested_model",
    arrivals=(Term(names=("litellm_proxy_total_requests_metric_total",)),),
    ended_only=True,
)

# Counted at its end; the gauge holds a request from its receipt until then.
_DYNAMO_IN_FLIGHT = Term(names=("dynamo_frontend_inflight_requests",), kind=Kind.GAUGE)
_DYNAMO = GatewayTable(
    kind=GatewayKind.DYNAMO,
    witness=("dynamo_",),
    label="model",
    arrivals=(Term(names=("dynamo_frontend_requests_total",)), _DYNAMO_IN_FLIGHT),
    waiting=(Term(names=("dynamo_frontend_queued_requests",), kind=Kind.GAUGE),),
    in_flight=(_DYNAMO_IN_FLIGHT,),
)

GATEWAY_TABLES: Mapping[GatewayKind, GatewayTable] = {
    each.kind: each for each in (_ENDPOINT_PICKER, _ENVOY, _ISTIO, _LITELLM, _DYNAMO)
}
