"""A code object that can be edited: its listing, changed by instruction, kernel and argument."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from coasm import codeobject
from coasm.asm.follow import follow
from coasm.asm.source import SourceOptions
from coasm.editing.declarations import Declarations
from coasm.editing.joining import Joined
from coasm.editing.lines import InstructionEdits
from coasm.editing.naming import renamed, spelled, without_stand_ins
from coasm.editing.proof import Part, Proof
from coasm.editing.removing import Without
from coasm.editing.snapshot import Place, Setup, Snapshot
from coasm.errors import EditError
from coasm.linter.findings import Finding
from coasm.linter.lint import judge
from coasm.linter.sources import Source
from coasm.reading import CodeObject, Kernel
from coasm.reading.instruction import Instruction

if TYPE_CHECKING:
    from coasm.asm.assemble import Result

__all__ = ["Module", "Text"]

#: What is put in: assembly, or what makes it for an instruction.
Text = str | Callable[[Instruction], str]


class Module:
    """A code object or a listing that can be edited.

    Edits are collected; :meth:`settle`, and everything that shows or writes the result, assembles
    them all at once with LLVM. Until then places (addresses, instructions, labels) are those of the
    code as it was; so in a pass, a function that takes a module and edits it, nothing moves.

    An instruction that no edit is about stays the same bytes, and every branch and address leads to
    what it led to before, or :class:`~coasm.errors.EditError` says what would break, and nothing is
    changed. ``findings`` is what lint says of the result and does not say of the original,
    ``came_from`` where the instructions were before the edits that were settled last, by address.

    Example::

        module = coasm.Module("kernel.co")
        module.replace(lambda one: one.text == "s_nop 0", "s_nop 1")
        assert not module.findings
        module.write("kernel.edited.co")
    """

    def __init__(
        self,
        source: codeobject.CodeObject | str | os.PathLike[str] | bytes,
        *,
        name: str | None = None,
        llvm: str | None = None,
        target: str | None = None,
        code_object_version: int | None = None,
        include: Sequence[str] = (),
        defsym: Sequence[str] = (),
    ) -> None:
        """*source* is what :func:`coasm.load` takes; what follows are for a listing.

        Raises:
            CoasmError: it cannot be read, listed or assembled.
        """
        options = SourceOptions(target, code_object_version, tuple(include), tuple(defsym))
        text, self._like, known = _opened(source, name, llvm, options)
        self._snapshot = Snapshot(text, Setup(known, llvm, options))
        self._originals: tuple[Source, ...] = (self._snapshot.source,)
        #: Address of an instruction → what it was before the edits that were settled last.
        self.came_from: Mapping[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """No edits are there yet."""
        self._edits = InstructionEdits(self._snapshot)
        self._declarations = Declarations(self._snapshot)
        self._names: dict[str, str] = {}

    # What there is.

    @property
    def co(self) -> CodeObject:
        """The code as it was when the edits that are not settled yet began: places are of it."""
        return self._snapshot.co

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of :attr:`co`."""
        return self._snapshot.co.kernels

    @property
    def lines(self) -> dict[int, int]:
        """Address of an instruction of :attr:`co` → its line (from 1 on) in the listing."""
        found = {}
        for index, item in enumerate(self._snapshot.instructions):
            line = self._snapshot.line(index)
            if line is not None:
                found[item.address] = line + 1
        return found

    def kernel(self, name: str | None = None) -> Kernel:
        """A kernel of :attr:`co`; the only one without a name.

        Raises:
            EditError: there is none, or there are several.
        """
        return self._snapshot.kernel(name)

    # Edits of instructions.

    def insert(
        self,
        text: Text,
        *,
        before: Place | None = None,
        after: Place | None = None,
        kernel: str | None = None,
    ) -> int:
        """Put assembly before or after an instruction; how often.

        A place is an address, an instruction of this module, a label, or a function that is asked
        of every instruction of the kernels (of *kernel*). What is put before an instruction is
        behind its labels: whatever jumps there executes it. What is put after one is before the
        labels of the next.

        Raises:
            EditError: there is no such place.
        """
        place, behind = _one_of(before, after)
        found = self._snapshot.at(place, kernel)
        for index in found:
            self._edits.insert(index, self._text(text, index), behind=behind)
        return len(found)

    def replace(self, at: Place, text: Text, *, kernel: str | None = None) -> int:
        """Put assembly in the place of instructions; how many. Their labels stay.

        Raises:
            EditError: there is no such place, or it was edited before.
        """
        found = self._snapshot.at(at, kernel)
        for index in found:
            self._edits.replace(index, self._text(text, index))
        return len(found)

    def delete(self, at: Place, *, kernel: str | None = None) -> int:
        """Take instructions out; how many. Their labels stay, for what comes next.

        Raises:
            EditError: there is no such place, or it was edited before.
        """
        return self.replace(at, "", kernel=kernel)

    def move(
        self,
        at: Place,
        *,
        before: Place | None = None,
        after: Place | None = None,
        kernel: str | None = None,
    ) -> int:
        """Put instructions elsewhere, in their order; how many. Labels stay where they are.

        Raises:
            EditError: there is no such place, several to move to, or it was edited before.
        """
        place, behind = _one_of(before, after)
        to = self._snapshot.at(place, kernel)
        found = self._snapshot.at(at, kernel)
        if len(to) != 1:
            raise EditError(f"{len(to)} places to move to; one is needed")
        if to[0] in found:
            raise EditError("an instruction cannot be moved to itself")
        for put in [self._edits.take(index) for index in found]:
            self._edits.put(to[0], put, behind=behind)
        return len(found)

    def swap(self, one: Place, other: Place) -> None:
        """Let two instructions change places, if :meth:`coasm.Kernel.may_swap` allows it.

        It is asked about the code as it was when the edits began: what several swaps are together
        says ``findings``.

        Raises:
            EditError: it does not, for the reasons that the text has.
        """
        places = sorted(self._one(place) for place in (one, other))
        if self._edits.touched(*places):
            raise EditError("what stands between them is edited already; settle() comes first")
        first, second = (self._snapshot.decoded(at) for at in places)
        kernel = self._kernel_at(first.address)
        allowed = kernel.may_swap(first.address, second.address)
        if not allowed:
            raise EditError("; ".join(allowed.reasons))
        self._edits.swap(*places)

    def label(self, at: Place) -> str:
        """The name of a label before an instruction, for branches that are put in.

        Raises:
            EditError: there is no such place.
        """
        return self._edits.label(self._one(at))

    # Edits of kernels.

    def rename(self, kernel: str | None, name: str) -> None:
        """Give a kernel another name: symbol, descriptor and metadata.

        Raises:
            EditError: there is no such kernel, or another symbol has that name.
        """
        own = self._snapshot.kernel(kernel)
        symbols = {symbol.name for symbol in self.co.symbols} | set(self._names.values())
        for taken in (name, f"{name}.kd"):
            if taken in symbols:
                raise EditError(f"{taken!r} is a symbol of {self._snapshot.setup.name} already")
        spelled(self._snapshot.text, own.name, name)
        with self._declarations.attempt() as declarations:
            declarations.rename(own, name)
        self._names[own.name] = name

    def set_resources(
        self,
        kernel: str | None = None,
        *,
        vgprs: int | None = None,
        agprs: int | None = None,
        sgprs: int | None = None,
        lds: int | None = None,
        scratch: int | None = None,
    ) -> None:
        """Set what a kernel is given: registers, bytes of LDS, bytes of scratch of a work-item.

        The descriptor says it, and the metadata follows. *sgprs* are without VCC and the like.

        Raises:
            EditError: the target does not have it, or the listing's descriptor is data.
        """
        asked = {"vgprs": vgprs, "agprs": agprs, "sgprs": sgprs, "lds": lds, "scratch": scratch}
        with self._declarations.attempt() as declarations:
            declarations.resources(self._snapshot.kernel(kernel), asked)

    def add_argument(
        self,
        name: str,
        size: int,
        *,
        kernel: str | None = None,
        kind: str = "by_value",
        **keys: Any,
    ) -> int:
        """Add an argument behind all that the kernel has, hidden ones too; its offset.

        *kind* is a ``.value_kind``, further *keys* are those of the metadata without their dot
        (``type_name="float*"``, ``address_space="global"``).

        Raises:
            EditError: the metadata would not be what LLVM takes, or the name is there already.
        """
        own = self._snapshot.kernel(kernel)
        if size <= 0:
            raise EditError(f"an argument of {size} bytes")
        given = {".size": size, ".value_kind": kind, **_dotted(keys)}
        if kind == "global_buffer":
            given.setdefault(".address_space", "global")
        with self._declarations.attempt() as declarations:
            return declarations.add_argument(own, name, given)

    def retype_argument(self, which: str | int, *, kernel: str | None = None, **keys: Any) -> None:
        """Change what the metadata says of the argument of a name or an offset.

        *keys* are those of the metadata without their dot: ``size``, ``value_kind``, ``name``; one
        that is None is taken out.

        Raises:
            EditError: there is no such argument, it would reach into another, or the code reads
                more of it than there would be.
        """
        own = self._snapshot.kernel(kernel)
        with self._declarations.attempt() as declarations:
            declarations.retype_argument(own, which, _dotted(keys))

    def remove(self, *kernels: str) -> Module:
        """Take kernels out: code, descriptors, metadata; what they call stays. Edits are settled.

        Raises:
            EditError: there is no such kernel, or something else refers to it.
        """
        self.settle()
        names = {self._snapshot.kernel(name).name for name in kernels}
        without = Without(self._snapshot, names)
        self._become(without.new, without.check)
        return self

    def keep(self, *kernels: str) -> Module:
        """Take all other kernels out: see :meth:`remove`."""
        self.settle()
        kept = {self._snapshot.kernel(name).name for name in kernels}
        return self.remove(*(one.name for one in self.kernels if one.name not in kept))

    def join(self, other: Module) -> Module:
        """Take over everything that another module has, behind what is here. Edits are settled.

        Raises:
            EditError: the two are of different targets or versions, or have a symbol in common.
        """
        self.settle()
        joined = Joined(self._snapshot, other.settle()._snapshot)
        self._become(joined.new, joined.check)
        self._originals += other._originals
        return self

    def _become(self, new: Snapshot, check: Callable[[], None]) -> None:
        check()
        self._snapshot = new
        self._like = None
        self.__dict__.pop("_linted", None)
        self._begin()

    # What comes of it.

    def settle(self) -> Module:
        """Assemble the edits so far, and prove that nothing else changed; the module itself.

        Raises:
            EditError: something else would; the edits are given up.
            AssemblyError: LLVM refuses what was put in; so they are.
        """
        if not (self._edits or self._declarations or self._names):
            return self
        try:
            self._settle()
        finally:
            self._begin()
        return self

    def _settle(self) -> None:
        old, names = self._snapshot, self._names
        written = self._edits.written(self._declarations.spans())
        lines = written.lines
        for symbol, name in names.items():
            both = spelled(old.text, symbol, name)
            lines = without_stand_ins(renamed(lines, both), both)
        end = "\r\n" if "\r\n" in old.text else "\n"
        text, _ = follow(end.join(line.rstrip("\r") for line in lines), old.co.target)
        new = Snapshot(text, old.setup)
        proof = Proof(old, new, written, Part(_with_descriptors(names)))
        proof.check()
        for problem in self._declarations.problems(new.co, names):
            raise EditError(f"{old.setup.name}: {problem}; the edit is not made")
        self._snapshot = new
        self._originals = tuple(_renamed(one, names) for one in self._originals)
        self.came_from = {
            new.decoded(now).address: old.decoded(then).address
            for then, now in proof.partners.items()
        }
        self.__dict__.pop("_linted", None)

    def apply(self, *passes: Callable[[Module], Module | None]) -> Module:
        """Run passes one after another, each on the code that the one before it left.

        A pass edits the module that it is given, or returns another.
        """
        module = self
        for one in passes:
            module = (one(module) or module).settle()
        return module

    @property
    def text(self) -> str:
        """The listing.

        Raises:
            CoasmError: as :meth:`settle`.
        """
        return self.settle()._snapshot.text

    @property
    def result(self) -> Result:
        """What ``coasm asm`` makes of the listing, laid out like the original.

        Raises:
            CoasmError: as :meth:`settle`.
        """
        from coasm.asm.assemble import assemble

        text, (name, llvm, options) = self.text, self._snapshot.setup
        return assemble(text, llvm, name=name, like_object=self._like, options=options)

    @property
    def data(self) -> bytes:
        """The code object.

        Raises:
            CoasmError: as :meth:`settle`.
        """
        return self.result.data

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What lint finds and the original does not have, errors and advice.

        Raises:
            CoasmError: as :meth:`settle`.
        """
        self.settle()
        return self._linted

    @cached_property
    def _linted(self) -> tuple[Finding, ...]:
        source = self._snapshot.source
        new = [judge(source, advice=True, original=one).findings for one in self._originals]
        return tuple(one for one in new[0] if all(one in others for others in new[1:]))

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the listing (a name that ends in ``.s``) or the code object.

        Raises:
            CoasmError: as :meth:`settle`, or the file is there and *force* is not given.
        """
        from coasm.output import check_target, write_file

        name = os.fspath(path)
        check_target(name, force=force)
        data = self.text.encode("utf-8", "surrogateescape") if name.endswith(".s") else self.data
        write_file(name, data)

    def _one(self, place: Place) -> int:
        found = self._snapshot.at(place)
        if len(found) != 1:
            raise EditError(f"{len(found)} instructions where one is meant")
        return found[0]

    def _kernel_at(self, address: int) -> Kernel:
        for kernel in self.kernels:
            if kernel.entry <= address < kernel.entry + kernel.size:
                return kernel
        raise EditError(f"{address:#x} is in no kernel")

    def _text(self, text: Text, index: int) -> str:
        if isinstance(text, str):
            return text
        address = self._snapshot.decoded(index).address
        return text(self._kernel_at(address).instructions.at(address))


def _opened(
    source: codeobject.CodeObject | str | os.PathLike[str] | bytes,
    name: str | None,
    llvm: str | None,
    options: SourceOptions,
) -> tuple[str, codeobject.CodeObject | None, str]:
    """The listing of a source, the object that it is of, and its name for messages."""
    from coasm.asm.exact import exact_listing
    from coasm.llvm import find_llvm
    from coasm.opening import open_code_object, read_given

    if isinstance(source, str) and "\n" in source:
        return source, None, name or "<listing>"
    if isinstance(source, (str, os.PathLike)):
        given = read_given(os.fspath(source))
        if given.listing:
            return given.text, None, name or given.name
        co = codeobject.load(given.data, name=name or given.name)
    else:
        co = open_code_object(source, name=name, llvm=llvm)
    options.refuse(co.name)
    return exact_listing(co, find_llvm(llvm, processor=co.target.name)).text, co, co.name


def _renamed(original: Source, names: Mapping[str, str]) -> Source:
    """An original whose kernels are called otherwise by now, once more."""
    known = {old: names.get(new, new) for old, new in original.renamed.items()}
    more = {old: new for old, new in names.items() if old not in original.renamed.values()}
    return original._replace(renamed={**more, **known})


def _one_of(before: Place | None, after: Place | None) -> tuple[Place, bool]:
    """The place, and whether it is behind it."""
    if before is not None and after is None:
        return before, False
    if after is not None and before is None:
        return after, True
    raise EditError("one of before= and after= is needed")


def _dotted(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {f".{name}": value for name, value in keys.items()}


def _with_descriptors(names: Mapping[str, str]) -> dict[str, str]:
    return {**names, **{f"{old}.kd": f"{new}.kd" for old, new in names.items()}}
