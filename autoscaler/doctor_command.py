"""The command ``gpu-autoscaler doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.commands.output import Output


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's configuration file, to be checked too.")
    ] = None,
    *,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Look at this namespace alone; may be given again.")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="How to reach the cluster, if not as the file says.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    account: Annotated[
        str,
        typer.Option("--as", help="Whose rights to check: system:serviceaccount:NAMESPACE:NAME of the controller."),
    ] = "",
    lease_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the controller, where its Lease is.")
    ] = None,
    through_api_server: Annotated[
        bool, typer.Option("--through-api-server", help="Fetch the metrics pages through the API server's pod proxy.")
    ] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table or json; by default json in a pipe.")
    ] = Output.AUTO,
) -> None:
    """Check a cluster, or this machine, and a configuration: each finding with its fix. Exit code 1 on an error."""
    from autoscaler.commands.examining import Asked, examine

    asked = Asked(
        config=config,
        namespaces=tuple(namespace or ()),
        kubeconfig=kubeconfig,
        context=context,
        account=account,
        lease_namespace=lease_namespace,
        through_api_server=through_api_server,
    )
    examine(asked, output=output)
