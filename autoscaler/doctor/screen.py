"""Findings for the eyes, errors first, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoscaler.doctor.finding import Finding, Severity

_STYLES: Mapping[Severity, str] = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.OK: "green"}


def findings_screen(findings: Sequence[Finding]) -> RenderableType:
    """A table of the findings, grouped by how bad they are, and how many there are of each."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("check", style="cyan", no_wrap=True)
    table.add_column("object", overflow="fold")
    table.add_column("found", overflow="fold", ratio=3)
    for severity in Severity:
        for finding in (each for each in findings if each.severity is severity):
            said = Text(finding.message)
            if finding.fix:
                said.append(f"\nfix: {finding.fix}", "dim" if severity is Severity.OK else "italic")
            table.add_row(Text(finding.check, _STYLES[severity]), finding.subject, said)
    return Group(table, _summary(findings))


def findings_plain(findings: Sequence[Finding]) -> dict[str, object]:
    """``{"errors": N, "warnings": N, "findings": [{check, severity, object, message, fix}]}``, errors first."""
    counts = Counter(finding.severity for finding in findings)
    rows = [
        {
            "check": str(each.check),
            "severity": str(each.severity),
            "object": each.subject,
            "message": each.message,
            "fix": each.fix,
        }
        for severity in Severity
        for each in findings
        if each.severity is severity
    ]
    return {"errors": counts[Severity.ERROR], "warnings": counts[Severity.WARNING], "findings": rows}


def _summary(findings: Sequence[Finding]) -> Text:
    counts = Counter(finding.severity for finding in findings)
    parts = [
        (f"{counts[each]} {each}{'' if counts[each] == 1 else 's'}", each)
        for each in (Severity.ERROR, Severity.WARNING)
    ]
    text = Text("\n")
    for index, (told, severity) in enumerate(parts):
        text.append(", " if index else "")
        text.append(told, _STYLES[severity] if counts[severity] else "green")
    return text
