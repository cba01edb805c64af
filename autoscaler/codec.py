"""Values <-> JSON, the same bytes for the same value.

Dataclasses become objects with a ``kind`` only where the type alone does not tell (Plan or Hold, a value or Unknown);
enums become their words, arrays base64 of compressed bytes. NaN and infinities are refused.
"""

from __future__ import annotations

import base64
import json
import types
import zlib
from typing import Any, TypeVar, Union, get_args, get_origin

import cattrs
import numpy as np

T = TypeVar("T")


def _array_to_json(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), 1)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": base64.b64encode(packed).decode()}


def _array_from_json(value: dict[str, Any], _: Any) -> np.ndarray[Any, Any]:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(value["data"])), dtype=np.dtype(value["dtype"]))
    return flat.reshape(value["shape"]).copy()


def _is_array(kind: Any) -> bool:
    return kind is np.ndarray or get_origin(kind) is np.ndarray


def _is_dataclass_union(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is not Union and origin is not types.UnionType:
        return False
    members = [member for member in get_args(kind) if member is not type(None)]
    return len(members) > 1 and any(hasattr(member, "__dataclass_fields__") for member in members)


def _structure_union(value: Any, kind: Any) -> Any:
    members = get_args(kind)
    if value is None and type(None) in members:
        return None
    if isinstance(value, dict):
        for member in members:
            if getattr(member, "__name__", None) == value.get("kind"):
                return _converter.structure({k: v for k, v in value.items() if k != "kind"}, member)
        raise ValueError(f"none of {kind} is called {value.get('kind')!r}")
    for member in members:
        if isinstance(member, type) and not hasattr(member, "__dataclass_fields__"):
            return _converter.structure(value, member)
    raise ValueError(f"{value!r} is none of {kind}")


def _unstructure_union(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # the only numbers in such a union are measured ones
    plain = _converter.unstructure(value, unstructure_as=type(value))
    return {"kind": type(value).__name__, **plain} if hasattr(value, "__dataclass_fields__") else plain


_converter = cattrs.Converter(unstruct_collection_overrides={tuple: list})
_converter.register_unstructure_hook_func(_is_array, _array_to_json)
_converter.register_structure_hook_func(_is_array, _array_from_json)
_converter.register_unstructure_hook_factory(_is_dataclass_union, lambda _: _unstructure_union)
_converter.register_structure_hook_func(_is_dataclass_union, _structure_union)
_converter.register_unstructure_hook(float, float)  # an integer in a float's place gives the same bytes
_converter.register_structure_hook(str | float, lambda value, _: value)
_converter.register_unstructure_hook(str | float, lambda value: value)


def to_plain(value: Any, kind: Any = None) -> Any:
    """Dicts, lists, strings and numbers only."""
    return _converter.unstructure(value, unstructure_as=kind or type(value))


def from_plain(kind: type[T], plain: Any) -> T:
    """The value again. Raises ValueError where the plain form does not fit ``kind``."""
    try:
        return _converter.structure(plain, kind)
    except Exception as error:  # cattrs raises an ExceptionGroup of many kinds
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def encode(value: Any) -> bytes:
    """Canonical JSON: the same bytes for the same value. Raises ValueError on NaN or an infinity."""
    return json.dumps(to_plain(value), separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def decode(kind: type[T], data: bytes) -> T:
    """The value that ``encode`` wrote. Raises ValueError."""
    try:
        plain = json.loads(data)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    return from_plain(kind, plain)
