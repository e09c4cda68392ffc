"""Work in several processes that begin as copies of this one: they have its data, unsent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from coasm.errors import CoasmError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["forked"]

Answer = TypeVar("Answer")


def forked(work: Callable[[int], Answer], count: int) -> Iterator[Answer]:
    """What *work* gives for 0 to *count* - 1, in order, each in a process that is forked.

    Raises:
        CoasmError: a process ended without an answer, because it was killed, say.
        Exception: what *work* raised.
    """
    from multiprocessing import get_context

    context = get_context("fork")
    running = []
    try:
        for number in range(count):
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(work, number, sending), daemon=True)
            process.start()
            sending.close()
            running.append((process, receiving))
        for process, receiving in running:
            try:
                answer, error = receiving.recv()
            except EOFError:
                process.join()
                raise CoasmError(
                    f"a process of coasm ended without a result (exit status {process.exitcode}): "
                    "killed, or out of memory"
                ) from None
            if error is not None:
                raise error
            yield answer
    finally:
        for process, receiving in running:
            receiving.close()
            process.terminate()
            process.join()


def _answer(work: Callable[[int], Answer], number: int, sending: Connection) -> None:
    try:
        answer = work(number), None
    except Exception as error:
        sending.send((None, error))
    else:
        sending.send(answer)
