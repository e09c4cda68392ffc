"""Times of whole processes: wall clock and CPU, interleaved, as medians."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

__all__ = ["cpu_of_children", "interleaved", "run"]


def run(command: Sequence[str], **environment: str) -> None:
    """Run *command*, its output thrown away; a failure ends the benchmark."""
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def interleaved(candidates: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Wall seconds of each candidate, one after the other, *rounds* times after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, function in candidates.items():
            started = time.perf_counter()
            function()
            if number:
                times[name].append(time.perf_counter() - started)
    return times


def cpu_of_children(function: Callable[[], None]) -> float:
    """CPU seconds (user and system) of the processes that *function* waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    function()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def ratios(over: list[float], under: list[float]) -> tuple[float, float, float]:
    """Minimum, median and maximum of the ratio, pair by pair."""
    found = [a / b for a, b in zip(over, under, strict=True)]
    return min(found), statistics.median(found), max(found)
