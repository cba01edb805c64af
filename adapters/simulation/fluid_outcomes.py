"""What became of each request in the fluid model, from its cumulative curves."""

from __future__ import annotations

import numpy as np

from adapters.simulation.fluid_steps import Floats
from adapters.simulation.serving import Outcome, Outcomes


def outcomes_of(arrivals: Floats, accepted: Floats, served: Floats, step: int) -> Outcomes:
    """Whole requests in order of arrival; of a second's requests the last are those refused.

    A request is served in the step in which all of it is; its time to first token is the number of steps from its own
    to that one. Times between tokens are not known.
    """
    came = np.repeat(np.arange(len(arrivals)), arrivals.astype(np.int64))
    number = np.arange(1, len(came) + 1) - np.repeat(np.cumsum(arrivals) - arrivals, arrivals.astype(np.int64))
    taken = np.diff(accepted)[came]
    known = came < step
    code = np.where(known & (number > taken + 1e-6), Outcome.REFUSED, Outcome.UNFINISHED).astype(np.uint8)
    place = accepted[came] + number
    at_step = np.searchsorted(served[: step + 1], place - 1e-6) - 1
    done = known & (code != Outcome.REFUSED) & (at_step < step)
    code[done] = Outcome.FINISHED
    ttft_s = np.where(done, at_step - came, np.nan)
    unknown = np.full(len(came), np.nan)
    return Outcomes(
        ttft_s=ttft_s,
        itl_s=unknown,
        queue_s=ttft_s,
        e2e_s=unknown,
        finish_s=np.where(done, at_step + 1.0, np.nan),
        code=code,
        preemptions=np.zeros(len(came), dtype=np.int64),
    )
