"""What every section of the file shares: its strictness, and the kinds of value with their ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from autoscaler.config.command import split_command
from autoscaler.config.units import Duration

_DAY_S = 86400.0


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def default_of(kind: type, name: str) -> Any:
    """The default of a domain type's field, so that it is written down once."""
    return kind.__dataclass_fields__[name].default  # type: ignore[attr-defined]


def _form(text: str) -> dict[str, Any]:
    return {"x-form": text}


def _text_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _whole_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _reflow(schema: dict[str, Any]) -> None:
    """Docstrings are wrapped for the source; descriptions are one line."""
    for part in (schema, *schema.get("properties", {}).values()):
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
        part.pop("title", None)


def needs_one_of(*alternatives: tuple[str, ...]) -> Callable[[dict[str, Any]], None]:
    """Tells the schema that a section needs all keys of one of the alternatives."""

    def add(schema: dict[str, Any]) -> None:
        _reflow(schema)
        schema["anyOf"] = [{"required": list(keys)} for keys in alternatives]

    return add


class Section(BaseModel):
    """A mapping of the file: unknown keys and loosely typed values are refused."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        alias_generator=_camel,
        use_attribute_docstrings=True,
        json_schema_extra=_reflow,
    )


Threshold = Annotated[float, Duration(above_s=0.0, at_most_s=_DAY_S)]
Seconds = Annotated[float, Duration(above_s=0.0)]
SecondsOrZero = Annotated[float, Duration()]
StepTerm = Annotated[float, Duration(at_most_s=60.0)]
Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        max_length=63,
        json_schema_extra=_form("a name of up to 63 lower-case letters, digits and dashes"),
    ),
]
DeviceKind = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9.+-]{0,62}$",
        json_schema_extra=_form('a kind of device: "gpu", or a MIG profile such as "mig-1g.10gb"'),
    ),
]
DeviceId = Annotated[
    str,
    BeforeValidator(_whole_as_text),
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9/._-]{0,127}$"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9/._-]{0,127}$"},
            ],
            "x-form": "a device's index or UUID, as CUDA_VISIBLE_DEVICES takes it",
        }
    ),
]
Command = Annotated[
    list[Annotated[str, Field(max_length=32_768)]],
    BeforeValidator(split_command),
    Field(min_length=1, max_length=1000),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "pattern": r"\S"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1000},
            ],
            "x-form": "a command line, or the list of its words",
        }
    ),
]
EnvName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", json_schema_extra=_form("the name of an environment variable")),
]
EnvValue = Annotated[
    str,
    BeforeValidator(_whole_as_text),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "x-form": "text, or a whole number"}),
]
Env = Annotated[
    dict[EnvName, EnvValue],
    Field(json_schema_extra=_form("a mapping of variable names to text")),
]
Names = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=256)]],
    BeforeValidator(_text_list),
    Field(max_length=100),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 256},
                {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 256}, "maxItems": 100},
            ],
            "x-form": "a model name, or a list of them",
        }
    ),
]
UrlPath = Annotated[
    str,
    Field(pattern=r"^/[!-~]*$", max_length=1024, json_schema_extra=_form("a URL path that begins with /")),
]
Host = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,252}$",
        json_schema_extra=_form("a host name or an address without brackets"),
    ),
]
FileName = Annotated[
    str, Field(min_length=1, max_length=4096, json_schema_extra=_form("a path; a relative one starts at this file"))
]
Port = Annotated[int, Field(ge=0, le=65535)]
