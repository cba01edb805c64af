"""What a replica's command line says about itself: its placeholders, its model's names, the devices it spreads over."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence

PLACEHOLDERS = ("port", "metrics_port", "grpc_port", "host", "name", "service", "variant", "model", "devices")

_PLACEHOLDER = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
_PARALLEL = (
    ("--tensor-parallel-size", "-tp", "--tp", "--tp-size"),
    ("--pipeline-parallel-size", "-pp", "--pp", "--pp-size"),
    ("--data-parallel-size", "-dp", "--dp", "--dp-size"),
)
_SECRET_NAME = re.compile(r"(?i)(^|[-_])(api[-_]?key|key|token|secret|password|passwd|credentials?)($|[-_])")
HIDDEN = "(hidden)"


def split_command(value: object) -> object:
    """A command line split as a shell would (no variables, no pipes). Raises ValueError; other values pass."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"the command line can't be split: {error}") from error


def placeholders(text: str) -> Iterator[str]:
    """Names in braces, in order; other text in braces, such as JSON or ``{{x}}``, is none."""
    yield from _PLACEHOLDER.findall(text)


def unknown_placeholder(name: str) -> str:
    """What to tell about a placeholder that does not exist."""
    near = difflib.get_close_matches(name, PLACEHOLDERS, n=1, cutoff=0.5)
    hint = f"did you mean {{{near[0]}}}? " if near else ""
    known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
    return f"{{{name}}} is no placeholder; {hint}known: {known}"


def option_values(argv: Sequence[str], *names: str) -> list[str]:
    """The words given to the last of these options: ``--x a b`` and ``--x=a``; empty where there is none."""
    found: list[str] = []
    for index, word in enumerate(argv):
        option, joined, value = word.partition("=")
        if option not in names:
            continue
        if joined:
            found = [value]
        else:
            rest = argv[index + 1 :]
            end = next((at for at, later in enumerate(rest) if later.startswith("-")), len(rest))
            found = list(rest[:end])
    return found


def model_names(argv: Sequence[str]) -> tuple[str, ...]:
    """The names under which the engine serves its model, as far as its command tells; a placeholder tells none."""
    served = option_values(argv, "--served-model-name")
    if served:
        return _told(served)
    model = option_values(argv, "--model", "--model-path", "--model-id")
    if model:
        return _told(model[:1])
    for index, word in enumerate(argv[:-2]):
        if word.rsplit("/", 1)[-1] == "vllm" and argv[index + 1] == "serve":
            return () if argv[index + 2].startswith("-") else _told([argv[index + 2]])
    return ()


def _told(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not _PLACEHOLDER.search(name))


def parallel_devices(argv: Sequence[str]) -> int:
    """Devices that one replica spreads over: the product of the engine's parallel sizes, 1 where none is given."""
    product = 1
    for names in _PARALLEL:
        values = option_values(argv, *names)
        if values and values[0].isdecimal() and int(values[0]) > 0:
            product *= int(values[0])
    return product


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of that name holds something to keep."""
    return _SECRET_NAME.search(name) is not None


def without_secrets(argv: Sequence[str]) -> list[str]:
    """The command with the values of options such as ``--api-key`` hidden."""
    shown: list[str] = []
    hide_next = False
    for word in argv:
        option, joined, _ = word.partition("=")
        secret = word.startswith("-") and is_secret_name(option)
        if hide_next and not word.startswith("-"):
            shown.append(HIDDEN)
        elif secret and joined:
            shown.append(f"{option}={HIDDEN}")
        else:
            shown.append(word)
        hide_next = (secret and not joined) or (hide_next and not word.startswith("-"))
    return shown
