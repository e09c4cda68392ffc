"""Work in forked processes: answers in order, errors passed on, an end without an answer said."""

from __future__ import annotations

import os
import signal

import pytest

from coasm.errors import CoasmError, UnsupportedError
from coasm.linter.forked import forked


def test_answers_come_in_order_from_processes_of_their_own() -> None:
    data = object()  # what cannot be sent is there all the same
    answers = list(forked(lambda number: (number, id(data), os.getpid()), 3))
    assert [(number, at) for number, at, _ in answers] == [(n, id(data)) for n in range(3)]
    assert len({pid for *_, pid in answers} | {os.getpid()}) == 4


def test_an_error_is_raised_here() -> None:
    def work(number: int) -> int:
        if number:
            raise UnsupportedError("0x40: v_new: not known")
        return number

    with pytest.raises(UnsupportedError, match="0x40: v_new: not known"):
        list(forked(work, 2))


def test_a_process_that_is_killed_is_an_error() -> None:
    def work(number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(CoasmError, match="exit status -9"):
        list(forked(work, 2))
