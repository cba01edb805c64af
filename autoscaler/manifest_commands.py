"""The commands ``gpu-autoscaler manifests ...``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autoscaler.manifests import (
    DEFAULT_KUBERNETES,
    DEFAULT_SCALER_ADDRESS,
    KedaOptions,
    KubernetesVersion,
    ManifestError,
    ScalerTls,
    TriggerType,
    hpa_manifests,
    keda_manifests,
)

if TYPE_CHECKING:
    from autoscaler.manifest_sources import ClusterService

app = typer.Typer(
    help="Print objects that let an HPA or KEDA follow the published number of replicas.", no_args_is_help=True
)

Service = Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the InferenceAutoscaler.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="YAML with the InferenceAutoscaler, - reads standard input; else the cluster's."),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Where it is; with --file, where the manifest names none.")
]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="How to reach the cluster, if not as usual.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig, if not its current one.")]
Kubernetes = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        help=f"Version that the objects are for, fields that it lacks are left out; with --file {DEFAULT_KUBERNETES}, "
        "else the cluster's.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the user says that the service is."""

    file: Path | None
    namespace: str | None
    kubeconfig: Path | None
    context: str | None


@app.command()
def hpa(
    service: Service,
    *,
    file: File = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    kubernetes: Kubernetes = None,
) -> None:
    """A HorizontalPodAutoscaler for each target of a service."""
    told = _version(kubernetes)
    place = _Place(file=file, namespace=namespace, kubeconfig=kubeconfig, context=context)
    try:
        found = _found(service, place)
        print(hpa_manifests(found.service, kubernetes=told or found.kubernetes), end="")
    except ManifestError as error:
        _fail(str(error))


@app.command()
def keda(
    service: Service,
    *,
    file: File = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    trigger: Annotated[
        TriggerType, typer.Option(help="external-push wakes a service at zero at once, external at the next poll.")
    ] = TriggerType.EXTERNAL_PUSH,
    scaler_address: Annotated[
        str, typer.Option(help="Host and port of the autoscaler's external scaler.")
    ] = DEFAULT_SCALER_ADDRESS,
    tls_secret: Annotated[
        str | None, typer.Option(help="Use TLS; a Secret beside the service holds the authority (ca.crt).")
    ] = None,
    client_certificate: Annotated[
        bool, typer.Option("--client-certificate", help="That Secret also holds KEDA's tls.crt and tls.key.")
    ] = False,
    kubernetes: Kubernetes = None,
) -> None:
    """A ScaledObject for each target of a service."""
    if client_certificate and tls_secret is None:
        _fail("--client-certificate: needs --tls-secret, which names the Secret that holds it")
    told = _version(kubernetes)
    options = KedaOptions(
        trigger=trigger,
        scaler_address=scaler_address,
        tls=None if tls_secret is None else ScalerTls(secret=tls_secret, client_certificate=client_certificate),
    )
    place = _Place(file=file, namespace=namespace, kubeconfig=kubeconfig, context=context)
    try:
        found = _found(service, place)
        print(keda_manifests(found.service, options, kubernetes=told or found.kubernetes), end="")
    except ManifestError as error:
        _fail(str(error))


def _found(name: str, place: _Place) -> ClusterService:
    """The service, and the version of its cluster as far as that is known. Raises ManifestError."""
    from autoscaler.manifest_sources import ClusterService, service_of_cluster, service_of_file

    if place.file is None:
        return service_of_cluster(name, namespace=place.namespace, kubeconfig=place.kubeconfig, context=place.context)
    if place.kubeconfig is not None or place.context is not None:
        raise ManifestError("--kubeconfig and --context name a cluster, and --file a file: give one or the other")
    service = service_of_file(place.file, name, namespace=place.namespace or "default")
    return ClusterService(service=service, kubernetes=DEFAULT_KUBERNETES)


def _version(text: str | None) -> KubernetesVersion | None:
    try:
        return None if text is None else KubernetesVersion.parse(text)
    except ValueError as error:
        _fail(f"--kubernetes: {error}")


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(2)
