"""Assembly sources, of coasm and of others → a relocatable object with what is known of it.

:func:`build` is the one way in for whoever reads a source: ``asm``, ``lint``, ``run``, ``info``.
What a source is for is what its directives say, or the command line; what was made is read from the
object that LLVM made, not from the text. Where the two differ it is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from coasm.asm.build import (
    Built,
    Declared,
    assemble_listing,
    encode,
    feature_list,
    link_object,
)
from coasm.asm.debug import describes, without_debug
from coasm.asm.follow import follow
from coasm.asm.linking import declared_linking
from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import Elf
from coasm.errors import AssemblyError, CoasmError, UnsupportedError
from coasm.llvm import Llvm, find_llvm
from coasm.llvm.run import TRIPLE, Setup, assemble, search_folders
from coasm.target import ABI_TO_COV, TargetID, relative

if TYPE_CHECKING:
    from coasm.asm.lines import Included, Line

__all__ = ["NO_OPTIONS", "BuiltSource", "SourceOptions", "build", "declared"]

_TARGET = re.compile(r'^[ \t]*\.amdgcn_target[ \t]+"([^"\\]*)"', re.M)
# LLVM 23 writes amdgpu9.42 and the like, which LLVM 22 does not know, where amdgcn stood before.
_TARGET_PARTS = re.compile(r"(amdgcn|amdgpu[\w.]*)-([^-]*)-([^-]*)-([^-]*)-(.*)")
_MISMATCH = r"(.+?):(\d+):\d+: error: \.amdgcn_target directive's target id (\S+) does not match"
_VERSION = re.compile(r"^[ \t]*\.amdhsa_code_object_version[ \t]+(\d+)", re.M)
_FEATURES = re.compile(r"^// coasm: features((?: [+-][a-z0-9-]+)+)[ \t\r]*$", re.M)
_METADATA_TARGET = re.compile(r"^[ \t]*amdhsa\.target:[ \t]*(?:!str[ \t]*)?['\"]?([^\s'\"]+)", re.M)
_METADATA_VERSION = re.compile(
    r"^[ \t]*amdhsa\.version:\s*(?:\[\s*(\d+)\s*,\s*(\d+)\s*\]|-[ \t]*(\d+)\s*\n\s*-[ \t]*(\d+))",
    re.M,
)
_SEARCHED = {
    _TARGET: ".amdgcn_target",
    _VERSION: ".amdhsa_code_object_version",
    _FEATURES: "coasm: features",
    _METADATA_TARGET: "amdhsa.target",
    _METADATA_VERSION: "amdhsa.version",
}
_WAVE = r"(?m)^[ \t]*(?:-[ \t]+)?(?:\.amdhsa_wavefront_size32[ \t]+|\.wavefront_size:\s*)(\d+)"
_OLD = (
    r"(?m)^[ \t]*(\.hsa_code_object_(?:version|isa)|\.amdgpu_hsa_kernel|\.amd_kernel_code_t"
    r"|\.amd_amdgpu_hsa_metadata)\b"
)
_INCLUDE = r'(?m)^[ \t]*(?:[\w.$]+:[ \t]*)?\.include[ \t]+"([^"\n]+)"'
_TOKEN = r'(?s)"(?:[^"\\\n]|\\.)*"|//[^\n]*|;[^\n]*|/\*.*?(?:\*/|\Z)'
_SYMBOL = r"(?s)[A-Za-z_.$][\w.$]*=.+"

#: The version of the metadata → the code object version it is of. LLVM no longer writes v3, which
#: v4 differs from in the target ID alone. Source: LLVM AMDGPU usage, "Code Object Metadata".
_METADATA_OF = {(1, 0): 4, (1, 1): 4}
#: Code object versions that LLVM writes.
_WRITES = (4, 5, 6)
_WAVE64, _TRUE16, _FAKE16 = "+wavefrontsize64", "+real-true16", "-real-true16"
#: How many files a source may include.
_MOST_FILES = 200


class SourceOptions(NamedTuple):
    """What a user says about a source beside its text.

    ``target`` is a target ID (``gfx942:xnack-``), ``include`` folders for ``.include`` and
    ``.incbin``, ``defsym`` symbols as ``NAME=VALUE``.
    """

    target: str | None = None
    code_object_version: int | None = None
    include: tuple[str, ...] = ()
    defsym: tuple[str, ...] = ()

    def refuse(self, name: str) -> None:
        """Raise where anything is said, for *name* is no source."""
        if any(self):
            raise CoasmError(
                f"{name}: no assembly source, and --target, --code-object-version, -I and --defsym "
                "are for one"
            )


NO_OPTIONS = SourceOptions()


class _Source(NamedTuple):
    """A source as it is read: its name for messages, its text, the files that it includes."""

    name: str
    text: str
    files: Mapping[str, Included]
    setup: Setup
    newer: bool = False  # its .amdgcn_target is as LLVM 23 writes it

    @property
    def texts(self) -> dict[str, str]:
        """Each file's text by its path, the source first."""
        return {self.name: self.text, **{file.path: file.text for file in self.files.values()}}


@dataclass(frozen=True)
class BuiltSource:
    """An assembled source.

    ``what`` is what the object is for, ``built`` the relocatable object, ``notes`` what a user
    should know of what was taken for granted (a line each), ``warnings`` the assembler's.
    """

    source: _Source
    what: Declared
    built: Built
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    llvm: Llvm

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return self.source.name

    @cached_property
    def data(self) -> bytes:
        """The code object.

        Raises:
            AssemblyError: the linker refused it.
        """
        return self.linked(self._linking)[0]

    def linked(self, linking: tuple[str, ...]) -> tuple[bytes, bool]:
        """The code object by these options, and whether its debug information was left out.

        Raises:
            AssemblyError: the linker refused it.
        """
        assert self.built.object is not None
        try:
            data = link_object(self.built.object, self.llvm, linking)
            if describes(self.source.text, data):
                return data, False
            return link_object(without_debug(self.built.object), self.llvm, linking), True
        except CoasmError as error:
            raise type(error)(f"{self.name}: {error}") from None

    @property
    def _linking(self) -> tuple[str, ...]:
        """How the object is linked, where the source's head says it."""
        return declared_linking(self.source.text) or ()

    @cached_property
    def co(self) -> CodeObject:
        """The code object, loaded; the emulator's faults name the source's lines."""
        from dataclasses import replace

        remarks = (*self.notes, *self.warnings)
        return replace(load(self.data, name=self.name), line_of=self.line_of, remarks=remarks)

    @cached_property
    def lines(self) -> dict[int, Line]:
        """Address → line of the instructions of the code object; empty where they are not known.

        The source is assembled once more for them.
        """
        from coasm.asm.lines import Line, Spot, is_plain, line_table, lines_of_marks, mark_lines

        source, what = self.source, self.what
        text = self.built.text or source.text
        marked = None if is_plain(text) else mark_lines(source.name, text, source.files)
        made = assemble(
            self.llvm,
            encode(text if marked is None else marked.text),
            what.target,
            what.code_object_version,
            ",".join(feature_list(what)),
            source.setup._replace(line_table=marked is None),
        )
        if made.data is None or not self._is_same(made.data):
            return {}
        try:
            linked = Elf(link_object(made.data, self.llvm, self._linking), self.name)
            table = next((s.data for s in linked.sections if s.name == ".debug_line"), b"")
            if marked is not None:
                return lines_of_marks(table, marked)
            plain = line_table(table)
        except (CoasmError, IndexError):
            return {}
        return {at: Line(number, Spot(self.name, number)) for at, number in plain.items()}

    def line_of(self, address: int) -> str | None:
        """The file and line of the instruction at *address*, for messages."""
        line = self.lines.get(address)
        return None if line is None else str(line)

    def _is_same(self, other: bytes) -> bool:
        """Whether another object has code of the same sizes at the same places."""
        assert self.built.object is not None
        first, second = (
            [(s.name, s.size) for s in Elf(data, self.name).sections if s.alloc and s.size]
            for data in (self.built.object, other)
        )
        return first == second


def build(
    text: str,
    name: str = "<listing>",
    options: SourceOptions = NO_OPTIONS,
    llvm: str | None = None,
) -> BuiltSource:
    """Assemble a source; *name* stands for it in messages, *llvm* is the tools' directory.

    Raises:
        AssemblyError: the assembler refused it; the message has the user's files and lines.
        UnsupportedError: what it is for is not known, cannot be written, or is not what it says.
    """
    source = _opened(text, name, options, llvm)
    what, notes, triple = _declared(source, options)
    tools = find_llvm(llvm, processor=what.target.name)
    followed, changes = follow(source.text, what.target)
    notes += changes
    source = _known_triple(source._replace(text=followed))
    source = source._replace(setup=source.setup._replace(triple=triple))
    built = _assembled(source, what, tools)
    meant = None if built.object or options.target else _meant(built.messages)
    if meant is not None:  # the directive is where only the assembler finds it
        triple, target = meant
        what = what._replace(target=target)
        tools = find_llvm(llvm, processor=target.name)
        source = source._replace(setup=source.setup._replace(triple=triple))
        built = _assembled(source, what, tools)
    for other in _other_features(source, what) if built.object is None else ():
        again = _assembled(source, other, tools)
        if again.object is not None:
            built, what = again, other
            notes.append(f"assembled with {' '.join(other.features)}: without, LLVM refuses it")
            break
    said = _said(source, what, built, tools)
    if built.object is None:
        raise _refused(source, said, options, what, tools)
    what = _found(source, what, built, options)
    warnings = _warnings(said)
    stale = _stale_target(source, what.target)
    if stale is not None and options.target is not None:
        raise UnsupportedError(f"{name}: {stale}, --target {what.target}; they must be the same")
    if stale is not None:
        warnings[f"{name}: {stale}, but it is assembled for {what.target}"] = None
    if options.code_object_version is None and _search(_VERSION, [source.text]) is None:
        notes.append(_version_note(source, what.code_object_version))
    return BuiltSource(source, what, built, tuple(notes), tuple(warnings), tools)


def declared(text: str, name: str = "<listing>", options: SourceOptions = NO_OPTIONS) -> Declared:
    """What a source is for, as far as its text says.

    Raises:
        UnsupportedError: it names no target, or one that cannot be written.
    """
    return _declared(_opened(text, name, options), options)[0]


def _opened(text: str, name: str, options: SourceOptions, llvm: str | None = None) -> _Source:
    for folder in options.include:
        if not os.path.isdir(folder):
            raise CoasmError(f"-I {folder}: no such folder")
    for symbol in options.defsym:
        if not re.fullmatch(_SYMBOL, symbol):
            raise CoasmError(f"--defsym {symbol}: expected NAME=VALUE")
    include = search_folders(name, options.include)
    if name.endswith(".S"):
        text = _preprocessed(name, text, options, include, llvm)
    files = dict(_included(text, include)) if ".include" in text else {}
    _check_loops(name, files)
    return _Source(name, text, files, Setup(include=include, defsym=options.defsym))


def _preprocessed(
    name: str, text: str, options: SourceOptions, include: tuple[str, ...], llvm: str | None
) -> str:
    """The text of a file that clang runs the preprocessor on, behind it."""
    from coasm.asm.preprocess import is_preprocessed, preprocessed

    if not is_preprocessed(name, text):
        return text
    said = _TARGET.search(text)
    known = options.target or (said and _split(said[1])[1])
    target = TargetID.parse(known) if known else None
    return preprocessed(name, text, include, target, find_llvm(llvm))


def _included(text: str, folders: tuple[str, ...]) -> Iterator[tuple[str, Included]]:
    """The files that *text* includes, and those that they include, by the names that they give."""
    from coasm.asm.lines import Included
    from coasm.codeobject.model import read_input

    todo, seen = [text], set[str]()
    while todo:
        for name in re.findall(_INCLUDE, todo.pop()):
            if name in seen or len(seen) >= _MOST_FILES:
                continue
            seen.add(name)
            # As LLVM's SourceMgr::OpenIncludeFile: as it stands, then in each folder.
            paths = [name, *(folder + "/" + name for folder in folders)]
            path = next((path for path in paths if os.path.isfile(path)), None)
            if path is None:
                continue  # in a branch that is not taken, or the assembler says so
            try:
                data = read_input(path)
            except CoasmError:
                continue
            found = data.decode("utf-8", "surrogateescape")
            todo.append(found)
            yield name, Included(path, found)


def _check_loops(name: str, files: Mapping[str, Included]) -> None:
    """Refuse files that include themselves, which LLVM follows until it is stopped.

    Raises:
        CoasmError: one does, and no condition in it might end that.
    """
    inner = {one: re.findall(_INCLUDE, file.text) for one, file in files.items()}
    for start in inner:
        todo, seen = [start], {start}
        while todo:
            for one in inner.get(todo.pop(), ()):
                if one == start and ".if" not in files[start].text:
                    raise CoasmError(f"{name}: {files[start].path} includes itself")
                if one not in seen:
                    seen.add(one)
                    todo.append(one)


def _plain_texts(source: _Source) -> list[str]:
    """The texts without their block comments."""
    return [
        re.sub(_TOKEN, lambda found: "" if found[0].startswith("/*") else found[0], text)
        if "/*" in text
        else text
        for text in source.texts.values()
    ]


def _search(pattern: re.Pattern[str], texts: list[str]) -> re.Match[str] | None:
    """The first match of one of the patterns of a directive or a key above.

    They begin lines, and the lines are many: those that hold the word are found first.
    """
    word = _SEARCHED[pattern]
    for text in texts:
        at = text.find(word)
        while at >= 0:
            found = pattern.match(text, text.rfind("\n", 0, at) + 1)
            if found is not None:
                return found
            at = text.find(word, at + 1)
    return None


def _declared(source: _Source, options: SourceOptions) -> tuple[Declared, list[str], str]:
    """What the source is for, what has to be said of that, and the triple."""
    texts = _plain_texts(source)
    notes: list[str] = []
    directive = _search(_TARGET, texts)
    try:
        if options.target is not None:
            triple, target = TRIPLE, TargetID.parse(options.target)
            if directive is not None:
                triple, said = _split(directive[1])
                name = said.partition(":")[0]
                # To an LLVM that has dropped one of them they are the same.
                if name != target.name and relative(name) == relative(target.name):
                    raise UnsupportedError(
                        f".amdgcn_target says {said}, --target {target}; they must be the same"
                    )
        elif directive is not None:
            triple, text = _split(directive[1])
            target = TargetID.parse(text)
        else:
            triple = TRIPLE
            target = _metadata_target(source, texts, notes)
    except UnsupportedError as error:
        raise _old(source) or UnsupportedError(f"{source.name}: {error}") from None
    version = options.code_object_version
    if version is None:
        found = _search(_VERSION, texts)
        version = int(found[1]) if found else _metadata_version(texts)
    if version and version not in _WRITES:
        raise UnsupportedError(
            f"{source.name}: LLVM does not write code object v{version}; it writes v4 to v6"
        )
    extra = _search(_FEATURES, [source.text])
    features = tuple(extra[1].split()) if extra else _wave_feature(target, texts)
    return Declared(target, version, features), notes, triple


def _split(text: str) -> tuple[str, str]:
    """The triple and the target ID of an ``.amdgcn_target``.

    Raises:
        UnsupportedError: it is none, or of another operating system.
    """
    parts = _TARGET_PARTS.fullmatch(text)
    if parts is None:
        raise UnsupportedError(f".amdgcn_target {text!r}: expected amdgcn-amd-amdhsa--gfx942")
    architecture, vendor, system, environment, target = parts.groups()
    if system != "amdhsa":
        raise UnsupportedError(f".amdgcn_target {text!r}: only amdhsa is handled, not {system}")
    if architecture != "amdgcn":
        return TRIPLE, target
    triple = f"amdgcn-{vendor}-amdhsa"
    return f"{triple}-{environment}" if environment else triple, target


def _known_triple(source: _Source) -> _Source:
    """*source* with the triple in its ``.amdgcn_target`` as every LLVM knows it."""

    def known(found: re.Match[str]) -> str:
        if not found[1].startswith("amdgpu"):
            return found[0]
        return found[0].replace(found[1], f"{TRIPLE}--{_split(found[1])[1]}")

    text = _TARGET.sub(known, source.text)
    return source._replace(text=text, newer=text != source.text)


def _metadata_target(source: _Source, texts: list[str], notes: list[str]) -> TargetID:
    """The target that the metadata names, of a source without ``.amdgcn_target``.

    Raises:
        UnsupportedError: it names none.
    """
    found = _search(_METADATA_TARGET, texts)
    if found is None:
        raise UnsupportedError(
            "no .amdgcn_target, and no amdhsa.target in its metadata: name the target, "
            "such as --target gfx942"
        )
    target = TargetID.parse(_split(found[1])[1])
    notes.append(f"for {target}, as its metadata says (no .amdgcn_target)")
    return target


def _stale_target(source: _Source, target: TargetID) -> str | None:
    """What is said where the metadata names another target than the object is for."""
    if not any("amdhsa.target" in text for text in source.texts.values()):
        return None
    found = _search(_METADATA_TARGET, _plain_texts(source))
    if found is None:
        return None
    parts = _TARGET_PARTS.fullmatch(found[1])
    named = parts[5] if parts else found[1]
    return None if named == str(target) else f"its amdhsa.target says {named}"


def _old(source: _Source) -> UnsupportedError | None:
    """Why a source of code object v2 is refused; None where it is not one."""
    for path, text in source.texts.items():
        found = re.search(_OLD, text)
        if found is not None:
            line = text.count("\n", 0, found.start(1)) + 1
            return UnsupportedError(
                f"{path}:{line}: {found[1]} is of code object v2, which LLVM no longer writes; "
                "v4 has .amdhsa_kernel and .amdgpu_metadata in its place"
            )
    return None


def _metadata_version(texts: list[str]) -> int:
    """The code object version that the metadata's version is of; 0: LLVM's default."""
    found = _search(_METADATA_VERSION, texts)
    if found is None:
        return 0
    numbers = [int(number) for number in found.groups() if number is not None]
    return _METADATA_OF.get((numbers[0], numbers[1]), 0)


def _wave_feature(target: TargetID, texts: list[str]) -> tuple[str, ...]:
    """64 lanes, where the target has waves of 32 as well and all kernels say so."""
    if len(target.processor.family.vgpr_files) == 1:
        return ()
    sizes = {
        int(size)
        for text in texts
        if "wavefront_size" in text
        for size in re.compile(_WAVE).findall(
            text, text.rfind("\n", 0, text.find("wavefront_size")) + 1
        )
    }
    return (_WAVE64,) if sizes and sizes <= {0, 64} else ()


def _other_features(source: _Source, what: Declared) -> Iterator[Declared]:
    """What else a source may have been written for, where LLVM refuses it as it is."""
    family = what.target.processor.family
    if len(family.vgpr_files) == 1 or _search(_FEATURES, [source.text]):
        return
    waves = [what.features, () if what.features else (_WAVE64,)]
    halves: list[tuple[str, ...]] = [()]
    if family.true16:
        halves += [(_TRUE16,), (_FAKE16,)]
    for wave in waves:
        for half in halves:
            if (*wave, *half) != what.features:
                yield what._replace(features=(*wave, *half))


def _assembled(source: _Source, what: Declared, llvm: Llvm) -> Built:
    return assemble_listing(source.text, what, llvm, setup=source.setup)


def _said(source: _Source, what: Declared, built: Built, llvm: Llvm) -> str:
    """The assembler's messages for the source as the user has it."""
    messages = built.messages
    if not messages.strip():
        return ""
    if built.pins:  # their lines were assembled with labels in front
        features = ",".join(feature_list(what))
        version, setup = what.code_object_version, source.setup
        text = encode(source.text)
        messages = assemble(llvm, text, what.target, version, features, setup).messages
    from coasm.asm.messages import for_user

    return for_user(messages, source.texts)


def _warnings(said: str) -> dict[str, None]:
    """The assembler's own warnings, each once."""
    if not said:
        return {}
    from coasm.asm.messages import warnings_in

    return dict.fromkeys(warnings_in(said))


def _meant(messages: str) -> tuple[str, TargetID] | None:
    """The triple and the target of the directive that the assembler found to be another."""
    found = re.search(_MISMATCH, messages)
    if found is None:
        return None
    triple, text = _split(found[3])
    return triple, TargetID.parse(text)


def _refused(
    source: _Source, said: str, options: SourceOptions, what: Declared, llvm: Llvm
) -> CoasmError:
    """What is wrong with a source that the assembler refused."""
    from coasm.asm.messages import summed_up
    from coasm.asm.metadata_faults import explained

    found = re.search(_MISMATCH, said)
    if found is not None and options.target:
        return UnsupportedError(
            f"{found[1]}:{found[2]}: .amdgcn_target says {_split(found[3])[1]}, --target "
            f"{what.target}; they must be the same"
        )
    said = summed_up(explained(said, source.name, source.text), str(what.target))
    if source.newer:
        said += (
            f"\n{source.name}: its .amdgcn_target is that of LLVM 23 or newer; it is LLVM "
            f"{llvm.major} in {llvm.directory} that refuses it (another one: --llvm DIR)"
        )
    return _old(source) or AssemblyError(said)


def _found(source: _Source, what: Declared, built: Built, options: SourceOptions) -> Declared:
    """*what* as the object has it.

    Raises:
        UnsupportedError: that is not what was asked for.
    """
    assert built.object is not None
    header = Elf(built.object, source.name).header
    version = ABI_TO_COV.get(header.abi_version, 0)
    if version not in _WRITES:
        raise UnsupportedError(f"{source.name}: assembled to code object v{version}, not v4 to v6")
    asked = options.code_object_version
    if asked is not None and version != asked:
        raise UnsupportedError(
            f"{source.name}: its .amdhsa_code_object_version says {version}, "
            f"--code-object-version {asked}; they must be the same"
        )
    target = TargetID.from_e_flags(header.flags, header.abi_version)
    if target.name != what.target.name or (target.xnack, target.sramecc) != (
        what.target.xnack,
        what.target.sramecc,
    ):
        raise UnsupportedError(f"{source.name}: assembled for {target}, not for {what.target}")
    return what._replace(target=target, code_object_version=version)


def _version_note(source: _Source, version: int) -> str:
    """Why the object has the version that it has, where no directive names one."""
    texts = _plain_texts(source)
    if _search(_VERSION, texts):
        return f"code object v{version}, as a file that it includes says"
    found = _search(_METADATA_VERSION, texts)
    if found is None:
        return f"code object v{version}, LLVM's default: it names none"
    number = ".".join(part for part in found.groups() if part is not None)
    if number == "1.0":
        return (
            f"code object v{version}: its metadata is that of v3 (1.0), which LLVM does not write"
        )
    return f"code object v{version}: its metadata has version {number}"
