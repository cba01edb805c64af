"""The scorecard for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadtests.scorecard import Percentiles, Scorecard, ServiceFigures


def service_table(figures: ServiceFigures) -> Table:
    """What the requests got."""
    table = Table(title=figures.label, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in service_rows(figures):
        table.add_row(name, value)
    return table


def scorecard_view(card: Scorecard) -> RenderableType:
    """All of the card, its verdict last."""
    cost = Table(title="replica-seconds", title_justify="left")
    for column in ("fleet", "replica-seconds", "most replicas", "in time", "compared"):
        cost.add_column(column, justify="left" if column == "fleet" else "right")
    for row in cost_rows(card):
        cost.add_row(*row)
    if card.failures:
        verdict = Text("\n".join(f"✗ {failure}" for failure in card.failures), style="bold red")
    else:
        verdict = Text("✓ the run did its job", style="bold green")
    notes = Text("\n".join(f"{baseline.name}: {baseline.how}" for baseline in card.baselines), style="dim")
    return Group(service_table(card.service), cost, notes, verdict)


def service_rows(figures: ServiceFigures) -> tuple[tuple[str, str], ...]:
    """Names and values, formatted."""
    slo = figures.slo
    asked = [f"TTFT <= {slo.ttft_s:g} s"] if slo.ttft_s is not None else []
    asked += [f"ITL <= {slo.itl_s * 1e3:g} ms"] if slo.itl_s is not None else []
    asked += [f"whole answer <= {slo.e2e_s:g} s"] if slo.e2e_s is not None else []
    return (
        ("requests", f"{figures.requests}"),
        (f"in SLO ({', '.join(asked)})", f"{figures.share_in_slo:.2%}"),
        ("refused / unfinished", f"{figures.refused} / {figures.unfinished}"),
        *_times(figures),
        ("generator late p99", _millisecond(figures.late_s.p99)),
    )


def _times(figures: ServiceFigures) -> tuple[tuple[str, str], ...]:
    """Of tokens; where there are none and answers come whole, of the answers."""
    if figures.slo.e2e_s is not None and (figures.slo.ttft_s, figures.slo.itl_s) == (None, None):
        return (("whole answer p50 / p95 / p99", _milliseconds(figures.ttft_s)),)
    return (
        ("TTFT p50 / p95 / p99", _milliseconds(figures.ttft_s)),
        ("ITL p50 / p95 / p99 (a request's mean)", _milliseconds(figures.itl_s)),
        ("output tokens", f"{figures.output_tokens}"),
    )


def cost_rows(card: Scorecard) -> tuple[tuple[str, str, str, str, str], ...]:
    """The fleet of the run, then the baselines: name, replica-seconds, most replicas, share, this run
    against it.
    """
    fleet = card.fleet
    own = (
        f"this run ({fleet.changes} changes)",
        f"{fleet.replica_seconds:.0f}",
        f"{fleet.peak_replicas}",
        f"{card.service.share_in_slo:.2%}",
        "",
    )
    others = tuple(
        (
            baseline.name,
            f"{baseline.replica_seconds:.0f}",
            f"{baseline.peak_replicas}",
            f"{baseline.share_served:.2%}",
            f"{fleet.replica_seconds / baseline.replica_seconds - 1:+.0%}" if baseline.replica_seconds else "",
        )
        for baseline in card.baselines
    )
    return (own, *others)


def _milliseconds(percentiles: Percentiles) -> str:
    values = (percentiles.p50, percentiles.p95, percentiles.p99)
    return " / ".join(_millisecond(value) for value in values)


def _millisecond(value: float | None) -> str:
    return "-" if value is None else f"{value * 1e3:.0f} ms"
