"""One inference by Triton's own client over gevent's sockets, timed. Nothing is monkey-patched."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import gevent
import numpy as np
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

from loadtests.client import PlannedRequest, check_target, outcome_of
from loadtests.records import RequestRecord
from loadtests.triton_server import INPUT, OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonTarget:
    """Where inferences of one item go, in the Open Inference Protocol (KServe v2) over HTTP.

    ``timeout_s``: a request that takes longer is given up and counts as unfinished.
    """

    url: str
    model: str
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        check_target(self.url, self.timeout_s)

    @property
    def path(self) -> str:
        """The path that is asked."""
        return f"/v2/models/{self.model}/infer"

    def measure(self, request: PlannedRequest, *, begin_s: float) -> RequestRecord:
        """Send one request and time its answer, which comes whole: its first output is its last.

        ``begin_s``: the load's begin on the monotonic clock. Raises nothing.
        """
        due_s = begin_s + request.due_s
        sent_s = time.monotonic()
        status: int | None = None
        problem = ""
        try:
            with gevent.Timeout(self.timeout_s):
                problem = self._infer(float(request.number))
                status = 200
        except gevent.Timeout:
            problem = f"took longer than {self.timeout_s:g} s"
        except gevent.GreenletExit:
            problem = "still under way when the run ended"
        except InferenceServerException as error:
            problem = str(error.message())
            status = int(told) if (told := str(error.status())).isdecimal() else None
        except (OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        e2e_s = time.monotonic() - due_s
        return RequestRecord(
            number=request.number,
            due_s=request.due_s,
            late_s=max(0.0, sent_s - due_s),
            prompt_tokens=1,
            asked_tokens=1,
            output_tokens=0 if problem else 1,
            outcome=outcome_of(status, problem),
            status=status,
            ttft_s=None if problem else e2e_s,
            itl_s=None,
            e2e_s=e2e_s,
            error=problem,
        )

    def _infer(self, value: float) -> str:
        """Ask; what is wrong with the answer, if anything."""
        # The client's own limits would cut a long wait short; the time-out is kept by the caller.
        host = urlsplit(self.url).netloc
        limits = {"connection_timeout": self.timeout_s, "network_timeout": self.timeout_s}
        with InferenceServerClient(host, **limits) as client:
            item = InferInput(INPUT, [1, 1], "FP32")
            item.set_data_from_numpy(np.array([[value]], dtype=np.float32))
            answer = client.infer(self.model, [item]).as_numpy(OUTPUT)
        if answer is None or answer.tolist() != [[value]]:
            return f"another answer than {value:g}"
        return ""
