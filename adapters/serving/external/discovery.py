"""Which API this is: the documents that the aggregator, kubectl and client-go discover it by.

They are constant, whatever services exist: an HPA never reads them, while every namespace's deletion does and must not
wait. ``get`` is the only verb, so that neither the garbage collector nor a quota takes the metrics for objects.
"""

from __future__ import annotations

import hashlib

from adapters.serving.external.answers import JSON, Answer, json_bytes
from autoscaler.domain.publication import DESIRED_REPLICAS

GROUP = "external.metrics.k8s.io"
VERSION = "v1beta1"
KIND = "ExternalMetricValueList"

_GROUP_VERSION = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
_API_GROUP = {"name": GROUP, "versions": [_GROUP_VERSION], "preferredVersion": _GROUP_VERSION}
# The order of preference where a client takes both.
_AGGREGATED_VERSIONS = ("v2", "v2beta1")


def _aggregated(version: str) -> Answer:
    """KEP-3352; k8s.io/api, apidiscovery/v2/types.go."""
    resource = {
        "resource": DESIRED_REPLICAS,
        "responseKind": {"group": GROUP, "version": VERSION, "kind": KIND},
        "scope": "Namespaced",
        "singularResource": "",
        "verbs": ["get"],
    }
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP, "creationTimestamp": None},
                "versions": [{"version": VERSION, "freshness": "Current", "resources": [resource]}],
            }
        ],
    }
    body = json_bytes(document)
    return Answer(
        body=body,
        content_type=f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList",
        headers=(("ETag", f'"{hashlib.sha256(body).hexdigest().upper()}"'), ("Vary", "Accept")),
    )


_AGGREGATED = {version: _aggregated(version) for version in _AGGREGATED_VERSIONS}
_GROUPS = Answer(
    body=json_bytes({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_API_GROUP]}),
    headers=(("Vary", "Accept"),),
)
API_GROUP = Answer(body=json_bytes({"kind": "APIGroup", "apiVersion": "v1", **_API_GROUP}))
RESOURCES = Answer(
    body=json_bytes(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{GROUP}/{VERSION}",
            "resources": [
                {"name": DESIRED_REPLICAS, "singularName": "", "namespaced": True, "kind": KIND, "verbs": ["get"]}
            ],
        }
    )
)


def groups(accept: str, if_none_match: str) -> Answer:
    """``/apis``: the aggregated document where the client takes it, else the list of groups; 304 where it is known."""
    version = next((version for version in _AGGREGATED_VERSIONS if _takes(accept, version)), None)
    if version is None:
        return _GROUPS
    answer = _AGGREGATED[version]
    tag = dict(answer.headers)["ETag"]
    if tag in [each.strip().removeprefix("W/") for each in if_none_match.split(",")]:
        return Answer(status=304, body=b"", content_type=answer.content_type, headers=answer.headers)
    return answer


def _takes(accept: str, version: str) -> bool:
    """True if one of the media types is the aggregated document of that version."""
    wanted = {JSON, "g=apidiscovery.k8s.io", f"v={version}", "as=apigroupdiscoverylist"}
    return any(wanted <= {part.strip() for part in media_type.split(";")} for media_type in accept.lower().split(","))
