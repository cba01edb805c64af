"""Who may read: this machine alone, whoever has the token, or everybody, and then only by an explicit word."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field

_MIN_TOKEN_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Where the API listens and who may read it.

    ``port`` 0 takes a free one. ``token``: the secret that readers must show; ``open``: everybody may read.
    ``allowed_hosts``: further names by which a reverse proxy or a name server of one's own calls this API.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    token: str | None = field(default=None, repr=False)
    open: bool = False
    allowed_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.host or self.host == "*" or any(letter.isspace() for letter in self.host):
            raise ValueError(
                f"api.host: must be one address or host name, such as 127.0.0.1 or 0.0.0.0, got {self.host!r}"
            )
        if not 0 <= self.port <= 65535:
            raise ValueError(f"api.port: must lie in [0, 65535] (0 takes a free port), got {self.port}")
        if self.token is not None and (len(self.token) < _MIN_TOKEN_CHARS or not _sendable(self.token)):
            raise ValueError(
                f"api.token: must be at least {_MIN_TOKEN_CHARS} printable ASCII characters without spaces, got "
                f"{len(self.token)} characters; `openssl rand -hex 16` makes one"
            )
        if self.token is not None and self.open:
            raise ValueError("api.token and api.open: a secret was given, yet everybody is let in; leave one out")
        if not self.loopback and self.token is None and not self.open:
            raise ValueError(
                f"api.host: {self.host} can be reached from other machines; set api.token (readers must then show "
                "it), or api.open: true if everybody who reaches it may read"
            )

    @property
    def loopback(self) -> bool:
        """True where only this machine can connect."""
        return _is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Session:
    """What a browser keeps instead of the token: derived from it, so that it outlives a restart, yet not it."""

    name: str
    value: str

    @classmethod
    def of_token(cls, token: str) -> Session:
        """The cookie's name differs by token, so that two controllers on one host don't take each other's."""
        return cls(f"gpu_autoscaler_{_derived(token, 'name')[:8]}", _derived(token, "session"))


class Gatekeeper:
    """Answers whether a request may pass, from its headers alone."""

    def __init__(self, settings: ApiSettings) -> None:
        self._token = settings.token
        self._session = Session.of_token(settings.token) if settings.token is not None else None
        self._hosts = frozenset(_plain_host(host) for host in settings.allowed_hosts)
        self._check_host = settings.loopback or bool(self._hosts)

    @property
    def session(self) -> Session | None:
        """The cookie that a browser gets; None where no token is asked for."""
        return self._session

    def knows_host(self, headers: list[str]) -> bool:
        """True if the request was meant for us.

        A page of another site whose name was made to resolve to this machine (DNS rebinding) still sends that
        site's name.
        """
        if not self._check_host:
            return True
        names = [_plain_host(header) for header in headers]
        return bool(names) and all(name in self._hosts or _is_loopback(name) for name in names)

    def admits(self, authorization: str, cookies: dict[str, str]) -> bool:
        """True where no token is asked for, or the request shows it as a bearer or the cookie made of it."""
        if self._session is None:
            return True
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.accepts(given.strip()):
            return True
        return _same(cookies.get(self._session.name, ""), self._session.value)

    def accepts(self, token: str) -> bool:
        """True for the token itself."""
        return self._token is not None and _same(token, self._token)


def _sendable(token: str) -> bool:
    return all(33 <= ord(letter) <= 126 for letter in token)


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), f"gpu-autoscaler {purpose}".encode(), hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    """Constant time, whatever the lengths."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, expected)]
    return hmac.compare_digest(*digests)


def _plain_host(header: str) -> str:
    """The name of a Host header: without port, brackets and a trailing dot, in lower case."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        host = name
    return host.rstrip(".")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
