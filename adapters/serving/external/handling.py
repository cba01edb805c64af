"""From a request to its answer."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_request import BaseRequest

from adapters.serving.external.answers import Answer, FailedError, Failure, failed, plain
from adapters.serving.external.authentication import Authenticator, Caller
from adapters.serving.external.authorization import Authorizer
from adapters.serving.external.discovery import API_GROUP, GROUP, RESOURCES, VERSION, groups
from adapters.serving.external.targets import Fixed, Target, parse_target
from adapters.serving.external.values import read_metric
from autoscaler.ports import Publications, UnavailableError

_log = logging.getLogger(__name__)

_PROBES = (Fixed.LIVE, Fixed.READY)
_PROBE_METHODS = ("GET", "HEAD")
_NO_OPENAPI = failed(FailedError(Failure.NOT_FOUND, "this API has no OpenAPI document"))
_NOTHING = failed(
    FailedError(
        Failure.NOT_FOUND,
        f"there is nothing here; metrics are read at /apis/{GROUP}/{VERSION}/namespaces/NAMESPACE/METRIC",
    )
)
_ONLY_GET = failed(
    FailedError(
        Failure.METHOD_NOT_ALLOWED, "metrics can only be read; the method must be GET", headers=(("Allow", "GET"),)
    )
)
Proven = Callable[[web.RequestHandler, Caller], None]


class Handler:
    """Answers requests; ``proven`` is told the connection of each whose sender is known."""

    def __init__(
        self,
        publications: Publications,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        now_s: Callable[[], float],
    ) -> None:
        self._publications = publications
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now_s = now_s
        self.trusted = False
        self.proven: Proven = lambda connection, caller: None

    async def handle(self, request: BaseRequest) -> web.StreamResponse:
        """aiohttp's handler. Raises nothing."""
        try:
            answer = await self._answer(request)
        except FailedError as error:
            answer = failed(error)
        except Exception:
            _log.exception("a request for external metrics could not be answered")
            answer = failed(FailedError(Failure.INTERNAL_ERROR, "an error of the autoscaler; its log says which"))
        headers = (*answer.headers, ("Content-Type", answer.content_type), ("Server", "gpu-autoscaler"))
        response = web.Response(status=answer.status, body=answer.body, headers=headers)
        if request.can_read_body or "Upgrade" in request.headers or request.method == "CONNECT":
            response.force_close()  # what follows on this connection is no request
        return response

    async def _answer(self, request: BaseRequest) -> Answer:
        target = parse_target(request.raw_path)
        if target in _PROBES and request.method in _PROBE_METHODS:
            return plain("ok") if target is Fixed.LIVE else self._readiness()
        if target is Fixed.OPENAPI:  # before anybody is asked: the aggregator takes a 404 for "has none"
            return _NO_OPENAPI
        transport = request.transport
        tls = None if transport is None else transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if isinstance(tls, ssl.SSLObject) else None
        caller = await self._authenticator.caller(certificate, request.headers, self._now_s())
        if request.protocol is not None:
            self.proven(request.protocol, caller)
        if request.method != "GET":
            return _ONLY_GET
        if isinstance(target, Fixed):
            return _fixed(target, request)
        label_selector = target.label_selector()
        await self._authorizer.check(caller, target.access)
        return read_metric(
            self._publications,
            namespace=target.namespace,
            metric=target.metric,
            label_selector=label_selector,
            now_s=self._now_s(),
        )

    def _readiness(self) -> Answer:
        """Whether callers can be told apart and services are known; not whether their metrics are."""
        if not self.trusted:
            return plain("ConfigMap kube-system/extension-apiserver-authentication has not been read yet", status=503)
        try:
            self._publications.within("")
        except UnavailableError as error:
            return plain(f"the services are not known yet: {error}", status=503)
        return plain("ok")


def _fixed(target: Target, request: BaseRequest) -> Answer:
    """Discovery, for everybody who is somebody, as the role system:discovery has it; so it needs no authorizer."""
    match target:
        case Fixed.GROUPS:
            accept = ",".join(request.headers.getall("Accept", ()))
            return groups(accept, request.headers.get("If-None-Match", ""))
        case Fixed.GROUP:
            return API_GROUP
        case Fixed.RESOURCES:
            return RESOURCES
    return _NOTHING
