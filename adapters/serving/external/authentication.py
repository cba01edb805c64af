"""Who asks: in this order the front proxy's word, a client certificate, a bearer token; else nobody.

The order and the rules are those of k8s.io/apiserver (pkg/authentication/request: headerrequest, x509, bearertoken).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import unquote

from multidict import MultiMapping

from adapters.serving.external.answers import FailedError, Failure
from adapters.serving.external.certificates import PeerJudge
from adapters.serving.external.reviews import ReviewApi, ReviewError, Reviews
from autoscaler.domain.caller import CallerTrust, TokenRefused, User

AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_ANONYMOUS = "system:anonymous"
_MOST_TOKEN_CHARS = 16 * 1024
_NOBODY = (
    "who asks is not proven: read metrics through the API server (kubectl get --raw), or show a client certificate of "
    "the cluster or a bearer token; X-Remote-* headers count from the front proxy alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. ``proxied``: the front proxy says so, having let the request through itself."""

    user: User
    proxied: bool = False


class Authenticator:
    """Finds out who asks."""

    def __init__(self, api: ReviewApi, reviews: Reviews[User | TokenRefused], *, audiences: tuple[str, ...]) -> None:
        self._api = api
        self._reviews = reviews
        self._audiences = audiences
        self._judge = PeerJudge(CallerTrust())

    def judge_by(self, judge: PeerJudge) -> None:
        """Tell callers apart by this from now on. Safe from any thread."""
        self._judge = judge

    async def caller(self, certificate: bytes | None, headers: MultiMapping[str], now_s: float) -> Caller:
        """``certificate``: of the peer, in DER, its key proven. Raises FailedError where nobody is proven."""
        if certificate is not None:
            judge = self._judge
            for standing in judge.standings(certificate, now_s):
                user = standing.user or _named_by_proxy(judge.trust, headers)
                if user is not None:
                    return Caller(user=_with_authenticated(user), proxied=standing.user is None)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            return Caller(user=_with_authenticated(await self._owner(token)))
        raise _unauthorized(_NOBODY)

    async def _owner(self, token: str) -> User:
        if len(token) > _MOST_TOKEN_CHARS or not token.isascii():
            raise _unauthorized("the bearer token is no token of this cluster")
        key = hashlib.sha256(token.encode()).digest()  # the secret itself is not kept
        try:
            owner = await self._reviews.answer(key, lambda: self._api.token_review(token, self._audiences))
        except ReviewError as error:
            raise FailedError(
                Failure.INTERNAL_ERROR, f"the bearer token can't be checked, so nobody is let in: {error}"
            ) from error
        if isinstance(owner, TokenRefused):
            raise _unauthorized(f"the bearer token is not accepted: {owner.reason}")
        return owner


def _named_by_proxy(trust: CallerTrust, headers: MultiMapping[str]) -> User | None:
    """None where the proxy names nobody, or two at once."""
    names = [name for header in trust.user_headers for name in headers.getall(header, ()) if name]
    if len(set(names)) != 1 or not _sound(names):
        return None
    uids = [uid for header in trust.uid_headers for uid in headers.getall(header, ()) if uid]
    groups = tuple([group for header in trust.group_headers for group in headers.getall(header, ())])
    extra = _extra(trust.extra_prefixes, headers)
    if not _sound([*uids, *groups, *(text for key, values in extra.items() for text in (key, *values))]):
        return None
    return User(name=names[0], groups=groups, uid=uids[0] if uids else "", extra=tuple(extra.items()))


def _extra(prefixes: tuple[str, ...], headers: MultiMapping[str]) -> Mapping[str, tuple[str, ...]]:
    """By the rest of the header's name in lower case, percent signs undone."""
    found: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        key = _extra_key(prefixes, header)
        if key is not None:
            found[key] = (*found.get(key, ()), value)
    return found


@lru_cache(maxsize=256)
def _extra_key(prefixes: tuple[str, ...], header: str) -> str | None:
    name = header.lower()
    for prefix in prefixes:
        if name.startswith(prefix.lower()):
            return unquote(name[len(prefix) :])
    return None


def _sound(texts: list[str]) -> bool:
    """Bytes that are no UTF-8 can't be handed on to the authorizer as they are."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_authenticated(user: User) -> User:
    if user.name == _ANONYMOUS or not {AUTHENTICATED, _UNAUTHENTICATED}.isdisjoint(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _unauthorized(message: str) -> FailedError:
    return FailedError(Failure.UNAUTHORIZED, message, headers=(("WWW-Authenticate", "Bearer"),))
