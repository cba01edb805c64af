"""The JSON schema of the file, and its keys as a tree to be walked: by the messages, the docs and the examples."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.config.fields import Section
from autoscaler.config.schema import FileSection
from autoscaler.config.units import format_bytes, format_duration

JsonSchema = Mapping[str, Any]


@functools.cache
def json_schema() -> JsonSchema:
    """JSON schema (2020-12) of the configuration file, with every key's description, default and range.

    ``x-form`` and ``x-example`` say in words what a value looks like, ``x-unit`` in what its default is counted,
    ``x-secret`` that it is never shown.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpu-autoscaler configuration",
        **section_schema(FileSection),
    }


def section_schema(section: type[Section]) -> dict[str, Any]:
    """JSON schema of a section and of those below it, its own words (``x-...``) as in ``json_schema``."""
    schema = section.model_json_schema(by_alias=True)
    for definition in schema.get("$defs", {}).values():
        if "enum" in definition:
            definition.pop("title", None)
            definition.pop("description", None)
    return schema


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file: its part of the schema, references followed and ``null`` left out.

    ``definitions``: what references in the schema name.
    """

    schema: JsonSchema
    definitions: JsonSchema

    def child(self, key: str | int) -> Key | None:
        """The key below this one; None where there is no such key."""
        if isinstance(key, int):
            items = self.schema.get("items")
            return _key(items, self.definitions) if items else None
        if key in self.schema.get("properties", {}):
            return _key(self.schema["properties"][key], self.definitions)
        additional = self.schema.get("additionalProperties") or next(
            iter(self.schema.get("patternProperties", {}).values()), None
        )
        return _key(additional, self.definitions) if additional else None

    def children(self) -> Iterator[tuple[str, Key]]:
        """The keys below, in their order."""
        for name, schema in self.schema.get("properties", {}).items():
            yield name, _key(schema, self.definitions)

    @property
    def section(self) -> Key | None:
        """The mapping that this key holds, itself or as the items of its list; None where it holds a value."""
        if self.schema.get("properties"):
            return self
        item = self.child(0)
        return item if item is not None and item.schema.get("properties") else None

    @property
    def secret(self) -> bool:
        """Whether its value is never shown."""
        return bool(self.schema.get("x-secret"))

    @property
    def kind(self) -> str:
        """The name of the section type; the same for keys that hold the same keys. Empty for values."""
        return str(self.schema.get("x-kind", ""))

    @property
    def about(self) -> str:
        """What a section of this kind is for."""
        return str(self.schema.get("x-about", ""))

    @property
    def example(self) -> str:
        """How a value may be written, where its form alone does not tell."""
        return str(self.schema.get("x-example", ""))

    @property
    def examples(self) -> tuple[str, ...]:
        """Values that may be given, for the editor to offer."""
        return tuple(self.schema.get("examples", ()))

    @property
    def description(self) -> str:
        """What it means."""
        return str(self.schema.get("description", ""))

    def required(self, name: str) -> bool:
        """Whether the key ``name`` below must be given."""
        return name in self.schema.get("required", ())

    @property
    def default(self) -> object:
        """Its default as a file would write it."""
        value = self.schema.get("default")
        unit = self.schema.get("x-unit")
        if unit == "seconds" and value is not None:
            return format_duration(value)
        if unit == "bytes" and value is not None:
            return format_bytes(value)
        return value

    @property
    def form(self) -> str:
        """What a value looks like, its range included."""
        schema = self.schema
        if "x-form" in schema:
            return str(schema["x-form"])
        if "enum" in schema:
            return "one of " + ", ".join(schema["enum"])
        words = {
            "integer": "a whole number" + _range(schema),
            "number": "a number" + _range(schema),
            "boolean": "true or false",
            "array": "a list" + _count(schema, "minItems", "maxItems", "entries"),
            "string": "text" + _count(schema, "minLength", "maxLength", "characters"),
            "object": "a mapping of " + ", ".join(schema.get("properties", {})),
        }
        return words[schema["type"]]


def root() -> Key:
    """The file as a whole."""
    return root_of(json_schema())


def root_of(schema: JsonSchema) -> Key:
    """The whole that a schema with its definitions describes."""
    return Key(schema, schema["$defs"])


def key_at(path: tuple[str | int, ...], top: Key) -> Key | None:
    """The key at ``path`` below ``top``; None where there is none."""
    key: Key | None = top
    for step in path:
        key = key.child(step) if key is not None else None
    return key


def all_paths(top: Key | None = None) -> Iterator[tuple[tuple[str, ...], Key]]:
    """Every key below ``top`` (the file) with its path, list indices left out, outer keys first."""
    pending: list[tuple[tuple[str, ...], Key]] = [((), top or root())]
    while pending:
        path, key = pending.pop(0)
        for name, child in key.children():
            yield (*path, name), child
            if child.section is not None:
                pending.append(((*path, name), child.section))


def _key(schema: JsonSchema, definitions: JsonSchema) -> Key:
    merged: dict[str, Any] = dict(schema)
    while True:
        if "$ref" in merged:
            name = merged.pop("$ref").rsplit("/", 1)[-1]
            definition = definitions[name]
            merged = {**definition, "x-kind": name, "x-about": definition.get("description", ""), **merged}
        elif structure := _structure(merged.get("anyOf", ())):
            del merged["anyOf"]
            merged = {**structure, **merged}
        else:
            return Key(merged, definitions)


def _structure(choices: Sequence[JsonSchema]) -> JsonSchema | None:
    """Of several forms of a value the one with keys or entries below it, or the only one that is not null."""
    real = [choice for choice in choices if choice.get("type") != "null"]
    structured = [choice for choice in real if choice.keys() & {"$ref", "properties", "items"}]
    return next(iter(structured), real[0] if len(real) == 1 else None)


def _range(schema: JsonSchema) -> str:
    lower, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    upper, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if lower is not None and upper is not None:
        return f" from {lower:g} to {upper:g}" if upper < 10**6 else f" from {lower} to {upper}"
    parts = [
        f" of at least {lower:g}" if lower is not None else "",
        f" above {above:g}" if above is not None else "",
        f" of at most {upper:g}" if upper is not None and upper < 10**6 else "",
        f" of at most {upper}" if upper is not None and upper >= 10**6 else "",
        f" below {below:g}" if below is not None else "",
    ]
    return " and".join(part for part in parts if part)


def _count(schema: JsonSchema, least: str, most: str, noun: str) -> str:
    lower, upper = schema.get(least), schema.get(most)
    if lower and upper:
        return f" of {lower} to {upper} {noun}"
    if lower:
        return f" of at least {lower} {noun}"
    return f" of at most {upper} {noun}" if upper else ""
