"""The checks that need no disassembly: header, descriptors, metadata."""

from __future__ import annotations

from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import SHN_UNDEF, SHT_NOTE
from coasm.compare.kernels import comparable_kernels
from coasm.compare.places import Places, by_layout, place_of
from coasm.compare.report import ABSENT, Check, Difference, Verdict
from coasm.errors import FormatError

__all__ = ["check_descriptors", "check_header", "check_metadata"]

#: Bytes before a note's content: Elf64_Nhdr, then "AMDGPU", NUL and a byte of padding.
_NOTE_HEAD = 20


def check_header(original: CodeObject, rebuilt: CodeObject) -> Check:
    """Machine, target flags, ABI version, and what else of the ELF header says what the object is.

    Identical or different; the target flags are compared by name. Source: LLVM AMDGPU usage, "ELF
    Code Object", "Header".
    """
    one, other = _header(original), _header(rebuilt)
    findings = tuple(
        Difference(name, one[name], other[name]) for name in one if one[name] != other[name]
    )
    return Check(Verdict.DIFFERENT if findings else Verdict.IDENTICAL, findings)


def _header(co: CodeObject) -> dict[str, object]:
    header, target = co.elf.header, co.target
    return {
        "machine": header.machine,
        "type": header.type,
        "OS ABI": header.os_abi,
        "ABI version": header.abi_version,
        "code object version": co.code_object_version,
        "mach": target.name,
        "xnack": target.xnack or "unsupported",
        "sramecc": target.sramecc or "unsupported",
        "generic version": target.generic_version,
        "e_flags": f"{header.flags:#x}",
    }


def check_metadata(original: CodeObject, rebuilt: CodeObject) -> Check:
    """The metadata notes: their bytes, and where those differ the decoded documents by path.

    The same document in other bytes is equivalent. A side without a note differs from one with, a
    note that cannot be decoded from one that can.

    Raises:
        FormatError: the notes differ and neither can be decoded, or an object has two.
    """
    from coasm.compare.metadata import differences

    one, other = original.metadata_note, rebuilt.metadata_note
    if one == other:
        heads = _note_head(original), _note_head(rebuilt)
        if heads[0] == heads[1]:
            return Check(Verdict.IDENTICAL)
        finding = Difference("metadata note", heads[0].hex(" "), heads[1].hex(" "), "its header")
        return Check(Verdict.DIFFERENT, (finding,))
    if one is None or other is None:
        left, right = (ABSENT if note is None else f"{len(note)} bytes" for note in (one, other))
        return Check(Verdict.DIFFERENT, (Difference("metadata note", left, right),))
    errors = _damage(original), _damage(rebuilt)
    if errors[0] is not None and errors[1] is not None:
        raise errors[0]
    if errors[0] is not None or errors[1] is not None:
        left, right = f"{len(one)} bytes", f"{len(other)} bytes"
        note = "; ".join(str(error) for error in errors if error is not None)
        return Check(Verdict.DIFFERENT, (Difference("metadata note", left, right, note),))
    findings = tuple(differences(one, other))
    if findings:
        return Check(Verdict.DIFFERENT, findings)
    left, right = f"{len(one)} bytes", f"{len(other)} bytes"
    note = "the same document in other bytes"
    finding = Difference("metadata note", left, right, note, harmless=True)
    return Check(Verdict.EQUIVALENT, (finding,))


def _note_head(co: CodeObject) -> bytes:
    """What stands before the metadata in its note: three words, and the owner in 8 bytes."""
    note = co.metadata_note
    for section in co.sections:
        if note and section.type == SHT_NOTE:
            at = section.data.find(note)
            if at >= 0:
                return section.data[max(at - _NOTE_HEAD, 0) : at]
    return b""


def _damage(co: CodeObject) -> FormatError | None:
    try:
        co.metadata  # noqa: B018
    except FormatError as error:
        return error
    return None


def check_descriptors(
    original: CodeObject, rebuilt: CodeObject, places: Places | None = None
) -> Check:
    """The kernel descriptors, byte for byte, kernel by kernel.

    Kernels are known by their descriptor's symbol. A descriptor that differs in its entry offset
    alone is equivalent where both lead to the same place in the code, as they do when the layout
    moved; equal bytes that lead elsewhere are different. *places* says which places are the same;
    without it, the same offsets in sections of the same name are.

    Raises:
        FormatError: no side has usable metadata that names the kernels.
    """
    from coasm.descriptor import ENTRY_OFFSET, differences

    kernels, others = comparable_kernels(original, rebuilt), comparable_kernels(rebuilt, original)
    exported = _exported(original), _exported(rebuilt)
    same_place = places.same if places is not None else by_layout(original, rebuilt)
    findings: list[Difference] = []
    for symbol in {**kernels, **others}:
        one, other = kernels.get(symbol), others.get(symbol)
        if one is None or other is None:
            present = "has this kernel"
            findings.append(
                Difference(symbol, present if one else ABSENT, present if other else ABSENT)
            )
            continue
        fields = differences(one.descriptor, other.descriptor, original.target)
        findings += [
            Difference(f"{symbol}: {name}", left, right)
            for name, left, right in fields
            if name != ENTRY_OFFSET
        ]
        same = same_place(one.entry, other.entry)
        if not same or any(name == ENTRY_OFFSET for name, _, _ in fields):
            findings.append(
                Difference(
                    f"{symbol}: {ENTRY_OFFSET}",
                    _leads(original, one),
                    _leads(rebuilt, other),
                    "the layout moved; the kernel starts at the same place in the code"
                    if same
                    else "the kernel starts at another place in the code",
                    harmless=same,
                )
            )
        left, right = (symbol in names for names in exported)
        if left != right:
            note = "the loader finds a kernel by its dynamic symbol"
            findings.append(Difference(f"{symbol}: in .dynsym", left, right, note))
    if not findings:
        return Check(Verdict.IDENTICAL)
    harmless = all(finding.harmless for finding in findings)
    return Check(Verdict.EQUIVALENT if harmless else Verdict.DIFFERENT, tuple(findings))


def _leads(co: CodeObject, kernel: Kernel) -> str:
    """The entry offset and where it leads."""
    return f"{kernel.entry - kernel.descriptor_address:#x} (to {place_of(co, kernel.entry)})"


def _exported(co: CodeObject) -> set[str]:
    """The names that the loader finds."""
    return {symbol.name for symbol in co.elf.dynamic_symbols if symbol.shndx != SHN_UNDEF}
