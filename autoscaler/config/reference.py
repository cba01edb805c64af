"""Documentation and examples made of the schema: ``python -m autoscaler.config.reference [--check]``.

Written, all below the present folder: docs/configuration.md, docs/configuration.schema.json, examples/full.yaml,
docs/inferenceautoscaler.md and the chart's custom resource definition.
With ``--check`` nothing is written; the exit code is 1 where a file is not as it would be written.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from autoscaler.config.key_tables import allowed, inline, key_tables
from autoscaler.config.resource_crd import definition_file
from autoscaler.config.resource_reference import resource_page
from autoscaler.config.shape import Key, json_schema, root
from autoscaler.config.watching import RESTART_KEYS

_VALUES = {
    "name": "chat",
    "slo": {"ttft": "2s", "itl": "50ms"},
    "command": "vllm serve org/model --port {port}",
    "url": "http://127.0.0.1:9090",
    "username": "reader",
}
_EXAMPLES = {
    "StatisticsSection": ({"protocol": "grpc", "port": 8001},),
    "PolicySection": ([{"type": "Percent", "value": 100, "periodSeconds": 60}],),
    "DevicesSection": ({"kind": "gpu", "count": 2},),
    "StepTimeSection": (
        {"profile": "h100_sxm/Meta-Llama-3.1-8B/tp1"},
        {"c": "6.4ms", "d": "10us", "e": "41ns", "a": "24us"},
    ),
    "VariantSection": ([{"name": "slice", "cost": 0.2, "devices": {"kind": "mig-1g.10gb"}}, {"name": "whole"}],),
    "DeviceSection": ([0, 1, {"id": "MIG-5c1d", "kind": "mig-1g.10gb"}],),
}
# In a comment, because they change what the rest of the example means.
_WRITTEN_OUT = frozenset({"KubernetesSection", "PrometheusSection", "BasicAuthSection"})
_WIDTH = 110
_AIRY_INDENT = 4

_INTRODUCTION = """\
# Configuration

One YAML file says what to serve and what to promise. The smallest one:

```yaml
{minimal}```

`gpu-autoscaler run --config chat.yaml` takes it from there. [examples/full.yaml](../examples/full.yaml) has every key
with its default.

**On one machine or in a cluster.** With `services` the controller runs them here, as processes. With the key
`kubernetes` in place of them it works in a cluster, where services are [InferenceAutoscaler](inferenceautoscaler.md)
objects; the [chart](kubernetes.md) writes the file then.

**How it is read.** Unknown keys, keys given twice and values out of range are refused, all at once, each with its
line, what is allowed, what was given and the nearest right key. Durations are text with a unit (`"500ms"`, `"2s"`,
`"1m30s"`; units `ns us ms s m h d`) or a number of seconds, except for keys that end in `Seconds`, which take a number.
Sizes are text (`"64MiB"`, `"500k"`) or a number of bytes. Relative paths start at the folder of the file. Anchors and
merge keys (`<<`) work; words are those of YAML 1.2, so `on` and `yes` are text.

**Editors** complete and check keys by the JSON schema that `gpu-autoscaler schema` prints. With the YAML language
server, put this in the first line: `# yaml-language-server: $schema=configuration.schema.json`.

**Changes** to the file are taken up without a restart; a file that can't be used is refused with the same list of
problems, and the settings before stay in force. New values of {restart} wait for a restart, which the log says.

**Commands** are run without a shell. Each replica has a port of its own, so `{{port}}` must occur in the command or in
`env`. Filled in are `{{port}}`, `{{host}}`, `{{name}}` (of the replica), `{{service}}`, `{{variant}}`, `{{model}}` and
`{{devices}}` (as in `CUDA_VISIBLE_DEVICES`); other text in braces, such as JSON, stays as it is.

This page is made from the schema by `make docs`.
"""


def configuration_page(minimal: str) -> str:
    """docs/configuration.md; ``minimal``: the text of the smallest example."""
    restart = ", ".join(f"`{key}`" for key in RESTART_KEYS)
    parts = [_INTRODUCTION.format(minimal=minimal, restart=restart)]
    parts += key_tables(root(), "The file")
    return "".join(parts)


def full_example() -> str:
    """examples/full.yaml: every key with its default, and what it means."""
    lines = [
        "# yaml-language-server: $schema=../docs/configuration.schema.json",
        "# Every key with its default (null: unset). Only services with name, slo and command has to be given.",
        "# Made from the schema by `make docs`; docs/configuration.md has the ranges.",
    ]
    lines += _example(root(), indent="")
    return "\n".join(lines) + "\n"


def generated_files(folder: Path) -> dict[Path, str]:
    """What has to stand in which file below ``folder``."""
    minimal = (folder / "examples" / "minimal.yaml").read_text(encoding="utf-8")
    resources = folder / "examples" / "kubernetes"
    smallest = (resources / "inferenceautoscaler.yaml").read_text(encoding="utf-8")
    variants = (resources / "inferenceautoscaler-variants.yaml").read_text(encoding="utf-8")
    return {
        folder / "docs" / "configuration.md": configuration_page(minimal),
        folder / "docs" / "configuration.schema.json": json.dumps(json_schema(), indent=1) + "\n",
        folder / "docs" / "inferenceautoscaler.md": resource_page(smallest=smallest, variants=variants),
        folder / "examples" / "full.yaml": full_example(),
        folder / "charts" / "gpu-autoscaler" / "crds" / "inferenceautoscalers.yaml": definition_file(),
    }


def _example(section: Key, *, indent: str) -> Iterator[str]:
    for name, key in section.children():
        if len(indent) <= _AIRY_INDENT:
            yield ""
        for line in textwrap.wrap(_comment(key).replace("``", ""), _WIDTH - len(indent) - 2):
            yield f"{indent}# {line}"
        if name == "services":
            assert key.section is not None
            yield "services:"
            yield from _list_item(_example(key.section, indent="    "))
        elif name in _VALUES:
            yield from _given(name, key, indent)
        elif key.section is not None and isinstance(key.default, dict):
            yield f"{indent}{name}:"
            yield from _example(key.section, indent=indent + "  ")
        else:
            if key.section is not None and key.section.kind in _WRITTEN_OUT:
                yield f"{indent}# {name}:"
                yield from (f"{indent}# {line}".rstrip() for line in _example(key.section, indent="  "))
            elif key.section is not None:
                examples = _EXAMPLES[key.section.kind]
                yield f"{indent}# For example: " + " or ".join(inline(example) for example in examples)
            yield f"{indent}{name}: {inline(key.default)}"


def _comment(key: Key) -> str:
    """The description, and the range where it is no more than words or numbers."""
    short = "enum" in key.schema or key.schema.get("type") in ("integer", "number")
    return f"{key.description} Allowed: {allowed(key)}." if short else key.description


def _given(name: str, key: Key, indent: str) -> Iterator[str]:
    value = _VALUES[name]
    if key.section is None or not isinstance(value, dict):
        yield f"{indent}{name}: {inline(value)}"
        return
    yield f"{indent}{name}:"
    for child_name, child in key.section.children():
        yield from (f"{indent}  # {line}" for line in textwrap.wrap(child.description, _WIDTH))
        yield f"{indent}  {child_name}: {inline(value.get(child_name, child.default))}"


def _list_item(lines: Iterator[str]) -> Iterator[str]:
    """The lines of one list entry, the first key after the dash."""
    begun = False
    for line in lines:
        if not begun and line.strip() and not line.lstrip().startswith("#"):
            begun = True
            yield f"  - {line.strip()}"
        elif begun or line.strip():
            yield line


def main() -> int:
    """Write the files, or check them."""
    check = sys.argv[1:] == ["--check"]
    stale = [
        (path, text)
        for path, text in generated_files(Path.cwd()).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if check:
            print(f"{path} is not what the schema says; run `make docs`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
