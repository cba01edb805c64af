"""Fleets step by step, as slow and plain as they can be: the yardstick of the compiled ones.

Written from the rules alone: one step at a time, a list for each queue, whole picoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.simulation.requests import Requests
from adapters.simulation.serving import Router
from adapters.simulation.step_times import EngineShape, StepTimes, picoseconds


@dataclass
class Job:
    """A request's course; times in picoseconds."""

    prompt: int
    output: int
    cached: int
    arrived: int
    generated: int = 0
    unprefilled: int = 0
    preemptions: int = 0
    scheduled: int | None = None
    first: int | None = None
    finish: int | None = None
    gaps: list[int] = field(default_factory=list)
    latest: int = 0

    @property
    def context(self) -> int:
        return self.prompt + self.generated


class Engine:
    """Continuous batching. ``boundary``: when the step under way ends, or when an idle engine begins one."""

    def __init__(self, times: StepTimes, shape: EngineShape) -> None:
        self.times = times
        self.shape = shape
        self.queue: list[Job] = []
        self.decoding: list[Job] = []
        self.partial: Job | None = None
        self.completing: list[Job] = []
        self.boundary: int | None = None
        self.in_flight = 0
        self.steps = 0
        self.tokens = 0
        self.most_used = 0

    def arrive(self, job: Job, now: int) -> None:
        self.queue.append(job)
        self.in_flight += 1
        if self.boundary is None:
            self.boundary = now

    def used(self) -> int:
        held = [*self.decoding, *self.completing, *([self.partial] if self.partial else [])]
        return sum(job.context for job in held)

    def at_boundary(self) -> None:
        assert self.boundary is not None
        now = self.boundary
        self._end_step(now)
        room_was_made = self._make_room()
        prefilled = self._prefill_partial()
        if not room_was_made:
            prefilled += self._admit(prefilled, now)
        self.most_used = max(self.most_used, self.used())
        if not self.decoding and not prefilled:
            self.boundary = None
            return
        times = self.times
        context = sum(job.context for job in self.decoding)
        self.boundary = now + times.c + times.d * len(self.decoding) + times.e * context + times.a * prefilled
        self.steps += 1

    def _end_step(self, now: int) -> None:
        advanced = self.decoding + self.completing
        for job in advanced:
            job.generated += 1
            self.tokens += 1
            if job.first is None:
                job.first = now
            else:
                job.gaps.append(now - job.latest)
            job.latest = now
            if job.generated == job.output:
                job.finish = now
                self.in_flight -= 1
        self.decoding = [job for job in advanced if job.finish is None]
        self.completing = []

    def _budget(self) -> int:
        return self.shape.chunk_tokens - len(self.decoding)

    def _places_needed(self) -> int:
        """What is held now, and a token for each sequence that gets one in this step."""
        ends = self.partial is not None and self.partial.unprefilled <= self._budget()
        return self.used() + len(self.decoding) + ends

    def _make_room(self) -> bool:
        taken_out = False
        while self._places_needed() > self.shape.kv_tokens:
            if self.partial is not None:
                victim, self.partial = self.partial, None
            else:
                victim = self.decoding.pop()
            victim.preemptions += 1
            self.queue.insert(0, victim)
            taken_out = True
        return taken_out

    def _prefill_partial(self) -> int:
        if self.partial is None:
            return 0
        return self._prefill(self.partial, self._budget())

    def _prefill(self, job: Job, budget: int) -> int:
        taken = min(budget, job.unprefilled)
        job.unprefilled -= taken
        if job.unprefilled:
            self.partial = job
        else:
            self.partial = None
            self.completing.append(job)
        return taken

    def _admit(self, prefilled: int, now: int) -> int:
        budget = self._budget() - prefilled
        admitted = 0
        while self.queue and budget > admitted:
            head = self.queue[0]
            running = len(self.decoding) + len(self.completing) + (self.partial is not None)
            promised = self.used() + len(self.decoding) + len(self.completing)
            if running >= self.shape.max_num_seqs or promised + head.context + 1 > self.shape.kv_tokens:
                break
            self.queue.pop(0)
            if head.scheduled is None:
                head.scheduled = now
            head.unprefilled = head.context - head.cached
            admitted += self._prefill(head, budget - admitted)
        return admitted


class Batcher:
    """Dynamic batching. ``boundary``: when the batch under way ends, or when the next may begin."""

    def __init__(self, *, base: int, per_request: int, max_batch: int, max_delay: int) -> None:
        self.base, self.per_request, self.max_batch, self.max_delay = base, per_request, max_batch, max_delay
        self.queue: list[Job] = []
        self.batch: list[Job] = []
        self.boundary: int | None = None
        self.in_flight = 0

    def arrive(self, job: Job, now: int) -> None:
        self.queue.append(job)
        self.in_flight += 1
        if not self.batch:
            self._wait(now)

    def _wait(self, now: int) -> None:
        full = len(self.queue) >= self.max_batch
        self.boundary = now if full else max(now, self.queue[0].arrived + self.max_delay)

    def at_boundary(self) -> None:
        assert self.boundary is not None
        now = self.boundary
        for job in self.batch:
            job.finish = now
            self.in_flight -= 1
        self.batch = []
        if not self.queue:
            self.boundary = None
            return
        self._wait(now)
        if self.boundary > now:
            return
        self.batch, self.queue = self.queue[: self.max_batch], self.queue[self.max_batch :]
        for job in self.batch:
            job.scheduled = now
        self.boundary = now + self.base + self.per_request * len(self.batch)


def jobs_of(requests: Requests) -> list[Job]:
    """One for each request."""
    columns = (requests.at_s, requests.prompt_tokens, requests.output_tokens, requests.cached_tokens)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Job(prompt=prompt, output=output, cached=cached, arrived=picoseconds(at_s))
        for at_s, prompt, output, cached in rows
    ]


def serve(jobs: list[Job], replicas: Sequence[Engine | Batcher], router: Router) -> None:
    """All of them to their finish. An arrival is routed before what happens at the same moment."""
    for number, job in enumerate(jobs):
        _run(replicas, job.arrived)
        if router is Router.ROUND_ROBIN:
            chosen = replicas[number % len(replicas)]
        else:
            chosen = min(replicas, key=lambda replica: replica.in_flight)
        chosen.arrive(job, job.arrived)
    _run(replicas, None)


def _run(replicas: Sequence[Engine | Batcher], before: int | None) -> None:
    for replica in replicas:
        while replica.boundary is not None and (before is None or replica.boundary < before):
            replica.at_boundary()
