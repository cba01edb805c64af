"""The page of the documentation about InferenceAutoscaler, made of the sections' types."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaler.config.key_tables import key_tables
from autoscaler.config.resource_crd import COLUMNS, SHORT_NAME
from autoscaler.config.resource_reading import resource_keys
from autoscaler.config.resource_rules import expressions
from autoscaler.config.resource_schema import ResourceSection
from autoscaler.config.resource_status_schema import StatusSection
from autoscaler.config.shape import all_paths, root_of, section_schema

_INTRODUCTION = """\
# InferenceAutoscaler

One object for each inference service of a cluster says what to promise and what runs the replicas. The smallest one:

```yaml
{smallest}```

**What it does.** In `mode: Advise`, the default, nothing but the object's status is written: an HPA or KEDA that reads
the number from us scales the target, or you look first. In `mode: Scale` we write the target's `/scale` ourselves.
There is no scale subresource here, so that no HPA can take this object for its target.

**Keys** mean the same as those of a service in the [configuration file](configuration.md). What starts a replica
(`command`, `env`, `model`, `readyPath`, `devices`) is the pod template's to say, and so it is not here.
Durations are text with units (`500ms`, `2s`, `1m30s`; units `ns us ms s m h`).

**Several kinds of replica**, such as MIG slices and whole GPUs, are variants: each has a target and a cost of its own,
and the cheapest that will do are wanted.

```yaml
{variants}```

**A service at zero replicas** (`minReplicas: 0`) needs a [gateway](gateway.md) in front of it, named by `gateway`, to
be woken by its next request.

**What is wrong is refused** by the API server, with the key and what is allowed. What it can't see (a profile that is
not shipped, say) holds this object alone: its condition `Ready` is `False` and lists every problem.

`kubectl get {short}` shows {columns};
`-o wide` adds {wide}.

This page is made from the schema by `make docs`.
"""

_STATUS = """
## What the status says

The latest decision, written by the controller that leads and read by all: each replica of the controller answers HPA
and KEDA from it. Without `desiredReplicas` there is no number, and they get an error with the text of `unknown`; so
they do once the decision is older than `staleAfterSeconds`. Neither is ever answered as zero.

| condition | `True` | `False` |
|---|---|---|
| `Ready` | the spec is valid and its targets exist | `InvalidSpec` or `TargetUnusable`; the message says why |
| `Active` | at least one replica is wanted | `ScaledToZero`; `Unknown` while no number is given |
| `Limited` | a bound, a rate policy, a quota or the devices hold the number, the reason says which | `NotLimited` |
| `MetricsKnown` | the demand is measured; `PartialCoverage`: not at every replica | why it is unknown, and what to do |
| `OwnerConflict` | somebody else, named in the message, writes the number too: nothing is changed | `SoleOwner` |
| `TargetSchedulable` | no pod waits in vain for a node | `Unschedulable`: what the nodes lack |
"""


def resource_page(*, smallest: str, variants: str) -> str:
    """docs/inferenceautoscaler.md, with the texts of two examples: the smallest, and one with variants."""
    spec = resource_keys().child("spec")
    assert spec is not None
    shown = [f"`{name}`" for name, _, _, priority in COLUMNS if priority == 0]
    wide = [f"`{name}`" for name, _, _, priority in COLUMNS if priority > 0]
    parts = [
        _INTRODUCTION.format(
            smallest=smallest, variants=variants, short=SHORT_NAME, columns=", ".join(shown), wide=", ".join(wide)
        )
    ]
    parts += key_tables(spec, "spec", prefix="spec.")
    parts += _rules()
    parts.append(_STATUS)
    parts += key_tables(root_of(section_schema(StatusSection)), "status", prefix="status.")
    return "".join(parts)


def _rules() -> Iterator[str]:
    rules, told = expressions(), set()
    yield "\n## Rules that join keys\n\nThe API server refuses what breaks one of them.\n\n"
    yield "| key | message |\n|---|---|\n"
    for rule in rules[ResourceSection.__name__]:
        yield f"| `metadata` | {rule.message} |\n"
    for path, key in all_paths(resource_keys()):
        if key.kind in rules and key.kind not in told:
            told.add(key.kind)
            for rule in rules[key.kind]:
                yield f"| `{'.'.join(path)}{rule.field or ''}` | {rule.message} |\n"
