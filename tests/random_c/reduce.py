"""Makes a program smaller that shows something, by leaving out statements one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.random_c.generate import Node, Program

__all__ = ["reduce"]


def reduce(program: Program, shows: Callable[[Program], bool]) -> Program:
    """*program* with every statement gone (in place) that *shows* does not need.

    A program that no longer compiles does not show it.
    """
    progress = True
    while progress:
        progress = False
        for statements in list(_lists(program)):
            progress |= _shorten(program, statements, shows)
    return program


def _lists(program: Program) -> Iterator[list[Node]]:
    for phase in program.phases:
        yield from _nested(phase)
    for function in program.functions:
        yield from _nested(function.body)


def _nested(statements: list[Node]) -> Iterator[list[Node]]:
    yield statements
    for node in statements:
        yield from _nested(node.body)


def _shorten(program: Program, statements: list[Node], shows: Callable[[Program], bool]) -> bool:
    shorter = False
    size = max(1, len(statements) // 2)
    while size:
        at = 0
        while at < len(statements):
            gone = statements[at : at + size]
            for other in ([], *([node.body] for node in gone if size == 1 and node.body)):
                replaced = [node for body in other for node in body]
                statements[at : at + size] = replaced
                if shows(program):
                    shorter = True
                    break
                statements[at : at + len(replaced)] = gone
            else:
                at += size
        size //= 2
    return shorter
