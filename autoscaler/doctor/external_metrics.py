"""Checks of external.metrics.k8s.io: who owns it, whether it answers, and with which certificate."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.raw_json import JsonObject, flag, objects, optional_text, text
from autoscaler.doctor.facts import Certificate, ClusterFacts, known, subject_of
from autoscaler.doctor.finding import CheckId, Findings, error, fine, warning
from autoscaler.doctor.followers import reads_our_number
from autoscaler.ports import PortError

API_SERVICE = "v1beta1.external.metrics.k8s.io"
_SUBJECT = f"APIService {API_SERVICE}"
_OWN_NAME = "gpu-autoscaler"
_OTHERS = {
    "keda": "KEDA",
    "prometheus-adapter": "prometheus-adapter",
    "datadog": "the Datadog Cluster Agent",
}
_EXPIRES_SOON_S = 14 * 86400.0


def served_by(api_service: JsonObject) -> str:
    """The Service behind it, as "namespace/name"; "" where the API server answers itself."""
    name = optional_text(api_service, "spec", "service", "name")
    return f"{optional_text(api_service, 'spec', 'service', 'namespace')}/{name}" if name else ""


def is_ours(api_service: JsonObject, service: JsonObject | None) -> bool:
    """Whether this program serves it, by the names and labels that the chart gives."""
    labels = (service or {}).get("metadata")
    label = optional_text(labels, "labels", "app.kubernetes.io/name") if isinstance(labels, dict) else None
    return label == _OWN_NAME or _OWN_NAME in served_by(api_service)


def check_api_service(facts: ClusterFacts) -> Findings:
    """Who serves external metrics, and whether an HPA gets our number."""
    readers = [hpa for hpa in known(facts.hpas) if reads_our_number(hpa)]
    wanted = bool(readers) or (facts.settings is not None and facts.settings.external_metrics is not None)
    found = known(facts.api_service)
    if found is None:
        if wanted:
            fix = "helm upgrade with externalMetrics.enabled=true and externalMetrics.apiService.create=true"
            yield error(CheckId.API_SERVICE, _SUBJECT, "nobody serves external metrics, so HPAs get no number", fix)
        else:
            yield fine(CheckId.API_SERVICE, _SUBJECT, "nobody serves external metrics, and no HPA reads our number")
        return
    service = facts.services.get(served_by(found))
    if isinstance(service, PortError):
        yield warning(CheckId.API_SERVICE, _SUBJECT, f"its Service can't be read: {service}")
        service = None
    if not is_ours(found, service):
        yield from _foreign(found, readers=len(readers), wanted=wanted)
        return
    for condition in objects(found, "status", "conditions"):
        if text(condition, "type") == "Available" and text(condition, "status") != "True":
            reason, told = optional_text(condition, "reason") or "", optional_text(condition, "message") or ""
            message = f"it is not available ({reason}): {told}; namespaces can't be deleted either until it is"
            yield error(CheckId.API_SERVICE, _SUBJECT, message, _availability_fix(reason, served_by(found)))
    for service_id, read in facts.reads.items():
        namespace, _, name = service_id.partition("/")
        if isinstance(read, PortError):
            fix = "do as it says; an HPA shows the same in `kubectl describe hpa`"
            yield warning(CheckId.API_SERVICE, subject_of(namespace, name), f"an HPA gets no number: {read}", fix)


def _foreign(found: JsonObject, *, readers: int, wanted: bool) -> Findings:
    owner = next((name for key, name in _OTHERS.items() if key in served_by(found)), "another server")
    message = f"{owner} ({served_by(found) or 'the API server'}) owns external metrics"
    if not wanted:
        yield fine(CheckId.API_SERVICE, _SUBJECT, f"{message}, and no HPA reads our number there")
        return
    says = f"HPAs that read our number there get none ({readers})" if readers else "ours is configured and never asked"
    path = "let KEDA read the external scaler: gpu-autoscaler manifests keda SERVICE -f FILE"
    yield error(
        CheckId.API_SERVICE,
        _SUBJECT,
        f"{message}; {says}",
        path
        if "keda" in owner.lower()
        else (
            f"use KEDA's external scaler (gpu-autoscaler manifests keda), or mode: Scale; or take it over from {owner}"
        ),
    )


def _availability_fix(reason: str, service: str) -> str:
    namespace, _, name = service.partition("/")
    look = {
        "ServiceNotFound": f"kubectl -n {namespace} get service {name}: it is gone; helm upgrade makes it again",
        "ServicePortError": f"kubectl -n {namespace} get service {name} -o yaml: spec.ports has not the port",
        "EndpointsNotFound": f"kubectl -n {namespace} get endpointslices,pods: no replica is behind the Service",
        "MissingEndpoints": f"kubectl -n {namespace} get endpointslices,pods: no replica is ready",
    }
    reached = "see that the API server may reach the port (network policy, firewall), and that caBundle is right"
    return look.get(reason, reached)


def check_certificates(facts: ClusterFacts) -> Findings:
    """The authority that the APIService names, our certificate, and whether they belong together."""
    found = facts.api_service
    authorities: list[x509.Certificate] = []
    host = None
    if isinstance(found, dict):
        service = facts.services.get(served_by(found))
        if is_ours(found, service if isinstance(service, dict) else None):
            namespace, _, name = served_by(found).partition("/")
            host = f"{name}.{namespace}.svc"
            if flag(found, "spec", "insecureSkipTLSVerify"):
                fix = "set spec.caBundle (the chart does), and leave insecureSkipTLSVerify out"
                yield warning(CheckId.CERTIFICATE, _SUBJECT, "its server's certificate is not checked", fix)
            try:
                authorities = _bundle(optional_text(found, "spec", "caBundle") or "")
            except ValueError as failure:
                fix = "put the authority's PEM, in base64, into spec.caBundle"
                yield error(CheckId.CERTIFICATE, _SUBJECT, f"spec.caBundle can't be read: {failure}", fix)
            for each in authorities:
                yield from _expiry(facts.now_s, f"caBundle of {_SUBJECT}", each)
    for given in facts.certificates:
        yield from _served_with(facts.now_s, given, host if given.aggregated else None, authorities)


def _served_with(
    now_s: float, given: Certificate, host: str | None, authorities: Sequence[x509.Certificate]
) -> Findings:
    """One of our certificates. ``host``: what the API server asks it for, with which ``authorities``."""
    source = given.source
    try:
        chain = x509.load_pem_x509_certificates(known(given.pem))
    except (PortError, ValueError) as failure:
        yield warning(CheckId.CERTIFICATE, source, f"it can't be read here: {failure}", given.key)
        return
    yield from _expiry(now_s, source, chain[0])
    if host is None:
        return
    if host not in _names(chain[0]):
        message = f"it is for {', '.join(_names(chain[0])) or 'no name'}, and the API server asks for {host}"
        yield error(CheckId.CERTIFICATE, source, message, f"make one with the DNS name {host}")
    if authorities and not any(_signed(each, authorities) for each in chain):
        message = f"no authority in the caBundle of {_SUBJECT} has signed it, so the API server refuses it"
        fix = f"kubectl patch apiservice {API_SERVICE}: spec.caBundle, with the authority of this certificate"
        yield error(CheckId.CERTIFICATE, source, message, fix)


def _bundle(encoded: str) -> list[x509.Certificate]:
    """The certificates of a caBundle. Raises ValueError."""
    if not encoded:
        return []
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(encoded, validate=True))
    except binascii.Error as failure:
        raise ValueError(f"no base64: {failure}") from failure


def _expiry(now_s: float, subject: str, certificate: x509.Certificate) -> Findings:
    ends = certificate.not_valid_after_utc
    left_s = ends.timestamp() - now_s
    fix = "renew it: helm upgrade (selfSigned), or see the Certificate (certManager)"
    if left_s <= 0:
        yield error(CheckId.CERTIFICATE, subject, f"it expired on {ends:%Y-%m-%d}", fix)
    elif left_s < _EXPIRES_SOON_S:
        yield warning(CheckId.CERTIFICATE, subject, f"it expires on {ends:%Y-%m-%d %H:%M} UTC", fix)
    if certificate.not_valid_before_utc > datetime.fromtimestamp(now_s, UTC):
        message = f"it is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
        yield error(CheckId.CERTIFICATE, subject, message, "look at the clocks (check clock)")


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def _signed(certificate: x509.Certificate, authorities: Sequence[x509.Certificate]) -> bool:
    """Whether one of them has signed it, or is it."""
    for authority in authorities:
        if certificate == authority:
            return True
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def check_keda(facts: ClusterFacts) -> Findings:
    """KEDA is there: then its external scaler is the way that disturbs nobody."""
    if isinstance(facts.scaled_objects, NotFoundError):
        return
    known(facts.scaled_objects)
    if facts.settings is not None and facts.settings.external_scaler is None:
        advice = "KEDA is installed, and our external scaler is off: it would leave external metrics to KEDA"
        yield fine(CheckId.KEDA, "KEDA", f"{advice} (kubernetes.externalScaler.enabled: true)")
