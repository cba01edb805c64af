"""The keys of a schema as tables for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from autoscaler.config.shape import Key


def key_tables(top: Key, name: str, *, prefix: str = "") -> Iterator[str]:
    """One heading and table for each section below ``top``.

    ``name``: the heading of the outermost; ``prefix``: what stands before the paths of those below it.
    """
    documented: dict[str, str] = {}
    for path, key in ((name, top), *_sections(top, prefix)):
        section = key.section
        assert section is not None
        yield f"\n## {path}\n\n"
        kind = section.kind
        if kind in documented:
            yield f"The keys of `{documented[kind]}`.\n"
            continue
        if kind:
            documented[kind] = path
            yield f"{section.about}\n\n".replace("``", "`")
        yield "| key | default | allowed | meaning |\n|---|---|---|---|\n"
        yield from (_row(section, key_name, child) for key_name, child in section.children())


def _sections(key: Key, prefix: str) -> Iterator[tuple[str, Key]]:
    """Those below ``key``, each before those below it."""
    section = key.section
    assert section is not None
    for name, child in section.children():
        if child.section is not None:
            path = f"{prefix}{name}{'[]' if child.schema.get('type') == 'array' else ''}"
            yield path, child
            yield from _sections(child, f"{path}.")


def _row(section: Key, name: str, key: Key) -> str:
    default = "required" if section.required(name) else _default_text(key)
    meaning = key.description.replace("``", "`")
    if key.examples:
        meaning += " Shipped: " + ", ".join(f"`{example}`" for example in key.examples) + "."
    cells = (f"`{name}`", default, allowed(key), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default_text(key: Key) -> str:
    if key.default is None:
        return "unset"
    return "below" if key.section is not None and key.default else f"`{inline(key.default)}`"


def allowed(key: Key) -> str:
    """What a value of the key looks like."""
    if key.section is not None:
        return "mapping" if key.schema.get("type") == "object" else "list, of mappings"
    return key.form.removeprefix("a ").removeprefix("an ").removeprefix("the ").replace("whole number", "integer")


def inline(value: object) -> str:
    """The value as YAML in one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()
