"""Options of a comparison that takes seconds."""

from __future__ import annotations

from loadtests.compare.choice import Choice

CHOICE = Choice(
    traces=("steps:8x300,16x300",),
    config=None,
    boots_s=(30.0,),
    seeds=2,
    peak_replicas=8.0,
    capacity_rps=None,
    engine=None,
    days=None,
    rivals=("static", "hpa"),
    baseline="hpa:0.6",
    tried=(),
    knob_values=3,
    refinements=1,
    metric_lag_s=15.0,
)
