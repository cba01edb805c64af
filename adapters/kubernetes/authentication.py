"""Who the callers of our own API are: the cluster's trust in certificates, and its word on tokens and rights.

The ConfigMap kube-system/extension-apiserver-authentication is written by kube-apiserver for servers behind its
aggregator (Kubernetes documentation, "Configure the Aggregation Layer"); reading it takes the Role
extension-apiserver-authentication-reader, the two reviews the ClusterRole system:auth-delegator.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.raw_json import JsonObject, flag, found, inner, optional_text, strings, text
from adapters.kubernetes.watching import Watched
from autoscaler.domain.caller import Access, CallerTrust, TokenRefused, User, Verdict
from autoscaler.ports import InvalidAnswerError, PortError

_log = logging.getLogger(__name__)

_CONFIG_MAPS: Final = Collection(group="", version="v1", plural="configmaps", namespace="kube-system")
_NAME: Final = "extension-apiserver-authentication"
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def caller_trust_of(config_map: JsonObject) -> CallerTrust:
    """The ConfigMap's data. Raises InvalidAnswerError, naming the key, where a list of names can't be read.

    A key that is missing trusts nobody, and names no header.
    """
    data = strings(config_map, "data")

    def names(key: str) -> tuple[str, ...]:
        try:
            listed = json.loads(data.get(key, "[]"))
        except ValueError as error:
            raise InvalidAnswerError(f"{key} of ConfigMap kube-system/{_NAME}: no JSON: {error}") from error
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise InvalidAnswerError(f"{key} of ConfigMap kube-system/{_NAME}: wanted a list of texts, got {listed!r}")
        return tuple(listed)

    return CallerTrust(
        client_ca_pem=data.get("client-ca-file", ""),
        front_proxy_ca_pem=data.get("requestheader-client-ca-file", ""),
        front_proxy_names=names("requestheader-allowed-names"),
        user_headers=names("requestheader-username-headers"),
        uid_headers=names("requestheader-uid-headers"),
        group_headers=names("requestheader-group-headers"),
        extra_prefixes=names("requestheader-extra-headers-prefix"),
    )


class TrustWatch:
    """Hands over what the ConfigMap says, at first and after each change."""

    def __init__(self, api: KubernetesApi, use: Callable[[CallerTrust], None], *, now_s: Callable[[], float]) -> None:
        """``use`` is called in the watch's thread; where it raises PortError, what was used last stays in use."""
        self._use = use
        self._used: CallerTrust | None = None
        self._watched = Watched(
            api, _CONFIG_MAPS, caller_trust_of, now_s=now_s, field_selector=f"metadata.name={_NAME}"
        )
        self._watched.subscribe(self._changed)

    def start(self) -> None:
        """Begin to watch."""
        self._watched.start()

    def close(self) -> None:
        """End it."""
        self._watched.close()

    @property
    def failure(self) -> str | None:
        """Why the ConfigMap can't be read or used now; None while all is well."""
        unreadable = next(iter(self._watched.unreadable().values()), None)
        return unreadable or self._watched.failure

    def _changed(self) -> None:
        if not self._watched.synced:
            return
        for trust in self._watched.items().values():
            if trust == self._used:
                continue
            try:
                self._use(trust)
                self._used = trust
            except PortError as error:
                _log.error("%s; what was read before stays in use", error)


class ApiReviews:
    """TokenReview and SubjectAccessReview by the API server. Safe to use from several threads."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def token_review(self, token: str, audiences: tuple[str, ...]) -> User | TokenRefused:
        """Whose token it is. With ``audiences``, one of them must be meant by it; without, the API server itself.

        Raises PortError.
        """
        spec: dict[str, object] = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        review = self._api.create(
            _TOKEN_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        )
        status = inner(review, "status")
        if not flag(status, "authenticated"):
            return TokenRefused(reason=optional_text(status, "error") or "it is no valid token of this cluster")
        # An authenticator that knows no audiences leaves the list empty, and has then checked none.
        meant = _texts(status, "audiences")
        if audiences and not set(audiences) & set(meant):
            return TokenRefused(reason=f"it is meant for {', '.join(meant) or 'no audience'}, not for this API")
        return User(
            name=text(status, "user", "username"),
            groups=_texts(status, "user", "groups"),
            uid=optional_text(status, "user", "uid") or "",
            extra=tuple([(key, _texts(status, "user", "extra", key)) for key in inner(status, "user", "extra")]),
        )

    def subject_access_review(self, user: User, access: Access) -> Verdict:
        """Whether the user may. Raises PortError."""
        spec = {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": {
                "verb": access.verb,
                "group": access.group,
                "version": access.version,
                "resource": access.resource,
                "namespace": access.namespace,
            },
        }
        review = self._api.create(
            _ACCESS_REVIEWS, {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        )
        status = inner(review, "status")
        allowed = flag(status, "allowed") and not flag(status, "denied")
        reason = optional_text(status, "reason") or optional_text(status, "evaluationError") or ""
        return Verdict(allowed=allowed, reason=reason)


def _texts(source: JsonObject, *path: str) -> tuple[str, ...]:
    listed = found(source, *path)
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InvalidAnswerError(f"{'.'.join(path)}: wanted a list of texts, got {listed!r}")
    return tuple(listed)
