"""Which service a request is for: the only one, the one named in a header, or the one that serves the body's model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.local.template import RoutePolicy

SERVICE_HEADER = "X-GPU-Autoscaler-Service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroutable:
    """Why no service was found, in words for the client; ``code`` and ``param`` as in OpenAI's error objects."""

    message: str
    code: str
    param: str | None


def models_of(policy: RoutePolicy) -> tuple[str, ...]:
    """The model names that choose the service; its own name where it lists none."""
    return policy.models or (policy.service,)


def choose(policies: Sequence[RoutePolicy], *, named: str | None, body: bytes) -> RoutePolicy | Unroutable:
    """The service of a request.

    ``named``: the value of the service header, which wins. ``body`` is looked at only where several services are
    served. Where two services list a model, the first of ``policies`` has it.
    """
    if named is not None:
        for policy in policies:
            if policy.service == named:
                return policy
        served = ", ".join(policy.service for policy in policies)
        return Unroutable(
            message=f"There is no service of the name in {SERVICE_HEADER}. Services: {served}.",
            code="service_not_found",
            param=None,
        )
    if len(policies) == 1:
        return policies[0]
    models = ", ".join(model for policy in policies for model in models_of(policy))
    model = model_in(body)
    if model is None:
        return Unroutable(
            message=f'Name the model in the JSON body ("model"), or the service in {SERVICE_HEADER}. Models: {models}.',
            code="model_not_named",
            param="model",
        )
    for policy in policies:
        if model in models_of(policy):
            return policy
    return Unroutable(
        message=f"The model `{model}` does not exist. Models: {models}.", code="model_not_found", param="model"
    )


def model_in(body: bytes) -> str | None:
    """``model`` of a JSON object; None where there is none, or no JSON."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    model = content.get("model") if isinstance(content, dict) else None
    return model if isinstance(model, str) else None


def model_list(policies: Sequence[RoutePolicy], *, started_s: float) -> dict[str, object]:
    """The answer to ``GET /v1/models``, in OpenAI's form."""
    return {
        "object": "list",
        "data": [
            {"id": model, "object": "model", "created": int(started_s), "owned_by": policy.service}
            for policy in policies
            for model in models_of(policy)
        ],
    }
