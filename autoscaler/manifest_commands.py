"""The commands ``gpu-autoscaler manifests ...``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import yaml

from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.manifests import (
    DEFAULT_KUBERNETES,
    DEFAULT_SCALER_ADDRESS,
    KedaOptions,
    KubernetesVersion,
    ManifestError,
    ScaledService,
    ScalerTls,
    TriggerType,
    hpa_manifests,
    keda_manifests,
)

KIND = "InferenceAutoscaler"

app = typer.Typer(
    help="Print objects that let an HPA or KEDA follow the published number of replicas.", no_args_is_help=True
)

Service = Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the InferenceAutoscaler.")]
File = Annotated[Path, typer.Option("--file", "-f", help="YAML with the InferenceAutoscaler; - reads standard input.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the manifest itself names none.")]
Kubernetes = Annotated[
    str, typer.Option("--kubernetes", help="The cluster's version, such as 1.34; fields that it lacks are left out.")
]


@app.command()
def hpa(
    service: Service, file: File, *, namespace: Namespace = "default", kubernetes: Kubernetes = str(DEFAULT_KUBERNETES)
) -> None:
    """A HorizontalPodAutoscaler for each target of a service."""
    try:
        print(hpa_manifests(_service(file, service, namespace), kubernetes=_version(kubernetes)), end="")
    except ManifestError as error:
        _fail(str(error))


@app.command()
def keda(
    service: Service,
    file: File,
    *,
    namespace: Namespace = "default",
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
    kubernetes: Kubernetes = str(DEFAULT_KUBERNETES),
) -> None:
    """A ScaledObject for each target of a service."""
    if client_certificate and tls_secret is None:
        _fail("--client-certificate: needs --tls-secret, which names the Secret that holds it")
    options = KedaOptions(
        trigger=trigger,
        scaler_address=scaler_address,
        tls=None if tls_secret is None else ScalerTls(secret=tls_secret, client_certificate=client_certificate),
    )
    try:
        print(keda_manifests(_service(file, service, namespace), options, kubernetes=_version(kubernetes)), end="")
    except ManifestError as error:
        _fail(str(error))


def _version(text: str) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(text)
    except ValueError as error:
        _fail(f"--kubernetes: {error}")


def _service(file: Path, name: str, namespace: str) -> ScaledService:
    found = [each for each in _resources(file) if each.name == name]
    resource = found[0] if len(found) == 1 else None
    if resource is None:
        _fail(f"{file} holds {len(found)} {KIND}s that are called {name}, where one is needed")
    if resource.mode is Mode.SCALE:
        _fail(
            f"{name} has mode: Scale, so the autoscaler itself changes the replicas, and would stop at the sight of an "
            "HPA beside it; set mode: Advise"
        )
    return ScaledService(
        namespace=resource.namespace or namespace,
        name=resource.name,
        min_replicas=resource.service.bounds.min_replicas,
        max_replicas=resource.service.bounds.max_replicas,
        sources=resource.sources,
    )


def _resources(file: Path) -> list[AutoscalerResource]:
    """Those of the file that can be used; ends the command where one is wrong."""
    resources = []
    for document in _read(file):
        if not isinstance(document, Mapping) or document.get("kind") != KIND:
            continue
        parsed = parse_resource(document)
        if not isinstance(parsed, AutoscalerResource):
            _fail("\n".join(f"{file}: {parsed.name}: {problem}" for problem in parsed.problems))
        resources.append(parsed)
    if not resources:
        _fail(f"{file} holds no {KIND}")
    return resources


def _read(file: Path) -> list[object]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return list(yaml.safe_load_all(text))
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{file} can't be read: {error}")
    except yaml.YAMLError as error:
        _fail(f"{file} is no YAML: {error}")


def _fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise typer.Exit(2)
