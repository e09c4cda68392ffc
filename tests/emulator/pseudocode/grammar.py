"""AMD's pseudo-code: text → tokens → a tree of tuples, the first item of each says what it is.

Expressions: ``number name member index slice part concat call cast unary binary choice``.
Statements: ``assign update if for declare break return lambda``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

__all__ = ["Number", "parse"]

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?:ULL|LL|U|F)?)"
    r"|(?P<type>\d+'[UIFB])"
    r"|(?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><>|<<|>>|<=|>=|==|!=|&&|\|\||\+:|\+=|-=|\*\*|[-+*/%&|^~!?:;,.()\[\]{}<>=])"
)
_NUMBER = re.compile(r"(0x[0-9a-fA-F]+|\d+\.\d+|\d+)(ULL|LL|U|F)?")
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
_ENDS = ("endif", "endfor", "elsif", "else", ")")


class Number(NamedTuple):
    """A literal: its type (``u32 i64 f16 …``) and the text of its digits."""

    kind: str
    digits: str


def _number(text: str) -> Number:
    width, _, rest = text.rpartition("'")
    match = _NUMBER.fullmatch(rest)
    assert match, text
    digits, suffix = match[1], match[2] or ""
    if "." in digits:
        return Number(f"f{width or (32 if suffix == 'F' else 64)}", digits)
    size = int(width) if width else 64 if "LL" in suffix else 32
    if not width and not suffix and int(digits, 0) >> 32:
        size = 64
    signed = "U" not in suffix and not digits.startswith("0x")
    return Number(f"{'i' if signed else 'u'}{size}", digits)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise SyntaxError(f"{text[at : at + 30]!r}")
            at = match.end()
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match[0]))
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        text = self.peek()
        if wanted and text != wanted:
            raise SyntaxError(f"{text!r} where {wanted!r} should be")
        self.at += 1
        return text

    def accept(self, wanted: str) -> bool:
        if self.peek() == wanted:
            self.at += 1
            return True
        return False

    # Statements.

    def block(self) -> list[Node]:
        found = []
        while self.peek() and self.peek() not in _ENDS:
            if not self.accept(";"):
                found.append(self.statement())
        return found

    def statement(self) -> Node:
        word = self.peek()
        if word == "if":
            return self.condition()
        if word == "for":
            return self.loop()
        if word == "declare":
            return self.declaration()
        if word == "break":
            return (self.take(),)
        if word == "return":
            self.take()
            return ("return", self.expression())
        left = self.expression()
        if self.peek() in ("+=", "-="):
            sign = self.take()[0]
            return ("update", sign, left, self.expression())
        if not self.accept("="):
            return ("value", left)
        if self.accept("lambda"):
            return self.function(left[1])
        targets = [left]
        right = self.expression()
        while self.accept("="):
            targets.append(right)
            right = self.expression()
        return ("assign", targets, right)

    def condition(self) -> Node:
        self.take()
        arms = []
        test: Node | None = self.expression()
        self.take("then")
        while True:
            arms.append((test, self.block()))
            if self.accept("endif"):
                return ("if", arms)
            if self.accept("elsif"):
                test = self.expression()
                self.take("then")
            else:
                self.take("else")
                test = None

    def loop(self) -> Node:
        self.take()
        name = self.take()
        self.take("in")
        first = self.expression()
        self.take(":")
        last = self.expression()
        self.take("do")
        body = self.block()
        self.take("endfor")
        return ("for", name, first, last, body)

    def declaration(self) -> Node:
        self.take()
        name = self.take()
        self.take(":")
        size, letter = self.take().split("'")
        count = 0
        if self.accept("["):
            count = int(self.take())
            self.take("]")
        return ("declare", name, f"{letter.lower()}{size}", count)

    def function(self, name: str) -> Node:
        self.take("(")
        names = [self.take()]
        while self.accept(","):
            names.append(self.take())
        self.take(")")
        self.take("(")
        body = self.block()
        self.take(")")
        return ("lambda", name, names, body)

    # Expressions.

    def expression(self) -> Node:
        test = self.binary(0)
        if not self.accept("?"):
            return test
        yes = self.expression()
        self.take(":")
        return ("choice", test, yes, self.expression())

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            sign = self.take()
            left = ("binary", sign, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "+", "~", "!"):
            return ("unary", self.take(), self.unary())
        return self.postfix(self.primary())

    def primary(self) -> Node:
        kind, word = self.kind(), self.take()
        if kind in ("number", "sized"):
            return ("number", _number(word))
        if kind == "type":
            size, letter = word.split("'")
            self.take("(")
            inner = self.expression()
            self.take(")")
            return ("cast", f"{letter.lower()}{size}", inner)
        if word == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if word == "{":
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.take("}")
            return ("concat", parts)
        if kind != "name":
            raise SyntaxError(f"{word!r} at the start of an expression")
        if self.accept("("):
            arguments = []
            while not self.accept(")"):
                arguments.append(self.expression())
                self.accept(",")
            return ("call", word, arguments)
        return ("name", word)

    def postfix(self, node: Node) -> Node:
        while True:
            if self.accept("."):
                node = ("member", node, self.take())
            elif self.accept("["):
                first = self.expression()
                if self.accept(":"):
                    node = ("slice", node, first, self.expression())
                elif self.accept("+:"):
                    node = ("part", node, first, self.expression())
                else:
                    node = ("index", node, first)
                self.take("]")
            else:
                return node


@cache
def parse(text: str) -> tuple[Node, ...]:
    """The statements of a piece of pseudo-code.

    Raises:
        SyntaxError: it is no pseudo-code.
    """
    parser = _Parser(text)
    found = tuple(parser.block())
    if parser.peek():
        raise SyntaxError(f"{parser.peek()!r} is left over")
    return found
