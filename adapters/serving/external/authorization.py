"""Who may read a metric: the cluster's own authorizer says so."""

from __future__ import annotations

from adapters.serving.external.answers import FailedError, Failure
from adapters.serving.external.authentication import Caller
from adapters.serving.external.reviews import ReviewApi, ReviewError, Reviews
from autoscaler.domain.caller import Access, User, Verdict

_MASTERS = "system:masters"
# Longer than the 15 s (and the usual longer choices) between two reads of an HPA.
_PROXIED_KEEP_S = 120.0


class Authorizer:
    """Asks the API server, and remembers."""

    def __init__(self, api: ReviewApi, reviews: Reviews[Verdict]) -> None:
        self._api = api
        self._reviews = reviews

    async def check(self, caller: Caller, access: Access) -> None:
        """Raises FailedError: Forbidden, or InternalError where the authorizer gives no answer.

        A request from the front proxy was let through by kube-apiserver's authorizer already, a moment ago. A "yes"
        to its user therefore holds longer than the 10 s that it holds for others, while it is asked again in the
        background: an HPA's read waits for nobody, except for its first time.
        """
        user = caller.user
        if _MASTERS in user.groups:
            return
        key = (user, access)
        verdict = self._reviews.remembered(key)
        if verdict is None and caller.proxied:
            verdict = self._reviews.remembered(key, within_s=_PROXIED_KEEP_S)
            if verdict is not None and verdict.allowed:
                self._reviews.ask_again(key, lambda: self._api.subject_access_review(user, access))
            else:
                verdict = None
        if verdict is None:
            verdict = await self._ask(user, access)
        if not verdict.allowed:
            raise FailedError(Failure.FORBIDDEN, _refusal(user, access, verdict))

    async def _ask(self, user: User, access: Access) -> Verdict:
        try:
            return await self._reviews.answer((user, access), lambda: self._api.subject_access_review(user, access))
        except ReviewError as error:
            raise FailedError(
                Failure.INTERNAL_ERROR,
                f"whether {user.name} may read can't be found out, so nobody is let in: {error}",
            ) from error


def _refusal(user: User, access: Access, verdict: Verdict) -> str:
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return (
        f"{user.name} may not {access.verb} {access.resource}.{access.group} in namespace {access.namespace}{reason}; "
        f"bind a role with apiGroups [{access.group}], resources ['*'], verbs [get, list] to it"
    )
