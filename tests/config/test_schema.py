"""The JSON schema agrees with the loader, and what is generated from it is current."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from autoscaler.config import json_schema
from autoscaler.config.document import Plain, parse_document
from autoscaler.config.reading import read_file_section
from autoscaler.config.reference import generated_files
from autoscaler.config.shape import Key, all_paths, root

EXAMPLES = sorted(Path("examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """Checks values by the schema alone."""
    schema = dict(json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid_by_schema_and_loader(validator: jsonschema.Draft202012Validator, path: Path) -> None:
    data = path.read_bytes()
    validator.validate(parse_document(data).data)
    assert read_file_section(data, source=path.name).problems == ()


@pytest.mark.parametrize(("path", "key"), [pytest.param(path, key, id=".".join(path)) for path, key in all_paths()])
def test_every_key_says_what_it_means_and_what_is_allowed(path: tuple[str, ...], key: Key) -> None:
    assert key.description.endswith("."), path
    assert key.form
    parent: Key | None = root()
    for name in path[:-1]:
        below = parent.child(name) if parent is not None else None
        parent = below.section if below is not None else None
    assert parent is not None
    assert parent.required(path[-1]) or "default" in key.schema, path


WRONG: tuple[Plain, ...] = (None, True, -1, 0, 10**19, 1.5, "", "x y", "5 s", "-1s", "/", [], [1], {}, {"zz": 1})


def _documents() -> Iterator[tuple[tuple[str | int, ...], Plain, Plain]]:
    """The full example with one key after the other set to each of ``WRONG``: path, value, document."""
    text = Path("examples/full.yaml").read_bytes()
    paths = [path for path in parse_document(text).values if path and isinstance(path[-1], str)]
    for path in paths:
        for value in WRONG:
            data = parse_document(text).data
            here = data
            for step in path[:-1]:
                here = here[step]  # type: ignore[index]
            here[path[-1]] = value  # type: ignore[index]
            yield path, value, data


# What joins several keys, or the text of a command, is beyond a schema.
BEYOND = (
    "placeholder",
    "needs {port}",
    "must be at most maxReplicas",
    "every start would fail",
    "is missing: a command",
    "has no meaning beside kubernetes",
)


def test_the_schema_refuses_what_the_loader_refuses(validator: jsonschema.Draft202012Validator) -> None:
    disagreements = []
    for path, value, document in _documents():
        problems = read_file_section(json.dumps(document).encode(), source="x").problems
        single = [problem for problem in problems if not any(word in problem.message for word in BEYOND)]
        if validator.is_valid(document) and single:
            disagreements.append((path, value, single[0].message))
        if not validator.is_valid(document) and not problems:
            disagreements.append((path, value, "only the schema refuses it"))
    assert disagreements == []


def test_generated_files_are_current() -> None:
    stale = [path for path, text in generated_files(Path()).items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"
