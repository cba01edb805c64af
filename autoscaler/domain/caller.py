"""Who asks the external metrics API, what for, and whom the cluster lets say so."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An authenticated caller, as Kubernetes names it.

    ``extra``: further facts by lower-case key, handed on to the authorizer.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRefused:
    """A bearer token that names nobody, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A question to the authorizer: may somebody ``verb`` this resource in ``namespace``?"""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The authorizer's answer, and its reason where it gave one."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerTrust:
    """What the ConfigMap kube-system/extension-apiserver-authentication holds.

    ``client_ca_pem``: who signs clients' certificates. ``front_proxy_ca_pem``: who signs the certificate of the proxy
    that names the real user in headers; ``front_proxy_names``: its common names, empty for any. "" where the cluster
    has none of it. Header names compare without regard to case.
    """

    client_ca_pem: str = field(default="", repr=False)
    front_proxy_ca_pem: str = field(default="", repr=False)
    front_proxy_names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
