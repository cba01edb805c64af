"""From a path to settings: reading the file and the secrets that it points to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from adapters.serving.auth import ApiSettings
from autoscaler.config.building import build_settings, resolve_path
from autoscaler.config.document import MAX_BYTES, Mark
from autoscaler.config.problems import ConfigError, Problem, UnreadableError, document_problem, problem_at
from autoscaler.config.reading import ReadFile, read_file_section
from autoscaler.config.schema import FileSection
from autoscaler.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file as read: its sections, to be compared with later ones, and the settings they come to."""

    section: FileSection
    settings: Settings


def load(path: Path | str) -> Settings:
    """The settings of a configuration file. Raises ConfigError, whose text lists everything that is wrong."""
    file = Path(path)
    return load_text(read_bytes(file), source=str(path), folder=file.absolute().parent).settings


def read_bytes(path: Path) -> bytes:
    """The file's bytes, no more than a configuration may have. Raises UnreadableError."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableError(str(path), [document_problem(f"can't be read: {reason}", Mark(1, 1))]) from error


def load_text(data: bytes, *, source: str, folder: Path) -> Loaded:
    """As ``load``, from the bytes of a file called ``source`` that stands in ``folder``. Raises ConfigError."""
    read = read_file_section(data, source=source)
    api: ApiSettings | Problem | None = None if "api" in read.refused else _api(read, folder)
    problems = [*read.problems, *([api] if isinstance(api, Problem) else [])]
    if problems or not isinstance(api, ApiSettings):
        raise ConfigError(source, problems)
    return Loaded(section=read.section, settings=build_settings(read.section, folder=folder, api=api))


def _api(read: ReadFile, folder: Path) -> ApiSettings | Problem:
    section = read.section.api
    sources = {"token": section.token, "tokenFile": section.token_file, "tokenEnv": section.token_env}
    given = [key for key, value in sources.items() if value is not None]
    if len(given) > 1:
        message = f"the token is given twice: {' and '.join(given)}"
        return problem_at(read.document, ("api", given[1]), message)
    token = section.token
    if section.token_file is not None:
        try:
            token = resolve_path(section.token_file, folder).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"{section.token_file} can't be read: {reason}"
            return problem_at(read.document, ("api", "tokenFile"), message)
    if section.token_env is not None:
        token = os.environ.get(section.token_env)
        if token is None:
            message = f"the environment variable {section.token_env} is not set"
            return problem_at(read.document, ("api", "tokenEnv"), message)
    try:
        return ApiSettings(
            host=section.host,
            port=section.port,
            token=token,
            open=section.open,
            allowed_hosts=tuple(section.allowed_hosts),
        )
    except ValueError as error:
        keys, _, message = str(error).partition(": ")  # "api.host: what is wrong with it"
        return problem_at(read.document, ("api", keys.split()[0].removeprefix("api.")), message)
