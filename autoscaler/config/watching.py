"""The configuration file while the controller runs: changes are taken up, broken ones are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.config.building import build_settings
from autoscaler.config.loading import Loaded, load_text, read_bytes
from autoscaler.config.problems import ConfigError, UnreadableError
from autoscaler.config.schema import FileSection
from autoscaler.config.settings import Settings

# What a running process has opened cannot change under it.
RESTART_KEYS: Mapping[str, str] = {
    "inventory": "inventory",
    "gateway": "gateway",
    "api": "api",
    "stateDir": "state_dir",
    "retention": "retention",
    "kubernetes": "kubernetes",
    "prometheus": "prometheus",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """A changed file was taken up. ``waiting``: keys whose new values are used only after a restart."""

    settings: Settings
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The file can't be used; the settings before stay in force. ``error``: the list of what is wrong."""

    error: str


class ConfigFile:
    """One file, read again by ``poll``.

    Its contents are compared, not its dates, so that it does not matter how it is replaced (written in place, renamed
    over, a link that now points elsewhere).
    """

    def __init__(self, path: Path | str) -> None:
        """Read it. Raises ConfigError."""
        self._source = str(path)
        self._path = Path(path).absolute()
        data = read_bytes(self._path)
        self._running = self._load(data)
        self._seen: str | None = _digest(data)
        self._misses = 0
        self._refusal: str | None = None
        self._waiting: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file, from the root."""
        return self._path

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._running.settings

    @property
    def refusal(self) -> str | None:
        """What is wrong with the file as it stands now; None while it is in force."""
        return self._refusal

    @property
    def waiting(self) -> tuple[str, ...]:
        """Keys whose values in the file wait for a restart."""
        return self._waiting

    def poll(self) -> Reloaded | Refused | None:
        """What became of a change since the last poll; None where there was none. Each change is told once."""
        try:
            data = read_bytes(self._path)
        except UnreadableError as error:
            self._misses += 1
            # While a file is replaced it may be gone for a moment.
            return self._refuse(str(error), seen=None) if self._misses > 1 else None
        self._misses = 0
        digest = _digest(data)
        if digest == self._seen:
            return None
        try:
            loaded = self._load(data)
        except ConfigError as error:
            return self._refuse(str(error), seen=digest)
        self._seen, self._refusal = digest, None
        self._waiting = _differing(self._running.section, loaded.section)
        self._running = self._without_restart(loaded)
        return Reloaded(settings=self._running.settings, waiting=self._waiting)

    def _load(self, data: bytes) -> Loaded:
        return load_text(data, source=self._source, folder=self._path.parent)

    def _refuse(self, error: str, *, seen: str | None) -> Refused | None:
        known = error == self._refusal
        self._seen, self._refusal = seen, error
        return None if known else Refused(error=error)

    def _without_restart(self, loaded: Loaded) -> Loaded:
        """The new file with the keys that wait for a restart as they are now."""
        running = self._running
        kept = {attribute: getattr(running.section, attribute) for attribute in RESTART_KEYS.values()}
        section = loaded.section.model_copy(update=kept)
        settings = build_settings(section, folder=self._path.parent, api=running.settings.api)
        return Loaded(section=section, settings=settings)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _differing(before: FileSection, after: FileSection) -> tuple[str, ...]:
    return tuple(
        key for key, attribute in RESTART_KEYS.items() if getattr(before, attribute) != getattr(after, attribute)
    )
