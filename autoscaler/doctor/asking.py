"""Whether an account has rights, asked of the API server itself.

SelfSubjectAccessReview and SubjectAccessReview: Kubernetes API reference, authorization.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.raw_json import JsonObject, flag
from autoscaler.doctor.rights import Asked, Right
from autoscaler.ports import PortError

_REVIEWS = "/apis/authorization.k8s.io/v1"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whose rights: ``user`` "" means whoever asks."""

    user: str = ""

    def __str__(self) -> str:
        return self.user or "the user of this kubeconfig"

    @property
    def groups(self) -> tuple[str, ...]:
        """Those that the API server gives to it by itself (Kubernetes docs, "Service account tokens")."""
        if not self.user.startswith(_SERVICE_ACCOUNT):
            return ("system:authenticated",)
        namespace = self.user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")

    @property
    def namespace(self) -> str | None:
        """Of a service account."""
        if not self.user.startswith(_SERVICE_ACCOUNT):
            return None
        return self.user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]


def ask_rights(api: KubernetesApi, rights: Sequence[Right], account: Account) -> list[Asked]:
    """The answers, in the order of the rights. Raises nothing: a question that failed says so in its answer."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda right: _ask(api, right, account), rights))


def _ask(api: KubernetesApi, right: Right, account: Account) -> Asked:
    try:
        refused = tuple(verb for verb in right.verbs if not _allowed(api, right, verb, account))
    except PortError as error:
        return Asked(right=right, account=str(account), failure=error)
    return Asked(right=right, account=str(account), refused=refused)


def _allowed(api: KubernetesApi, right: Right, verb: str, account: Account) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes: JsonObject = {
        "group": right.group,
        "resource": resource,
        "verb": verb,
        **({"subresource": subresource} if subresource else {}),
        **({"namespace": right.namespace} if right.namespace else {}),
        **({"name": right.name} if right.name else {}),
    }
    kind, plural = "SelfSubjectAccessReview", "selfsubjectaccessreviews"
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if account.user:
        kind, plural = "SubjectAccessReview", "subjectaccessreviews"
        spec |= {"user": account.user, "groups": list(account.groups)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return flag(api.create(f"{_REVIEWS}/{plural}", body), "status", "allowed")
