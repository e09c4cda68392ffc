"""One program for the linter and for LLVM: as a listing, and as the machine IR that LLVM judges.

A program is blocks of instructions in LLVM's own printed form; the last of a block may be
``s_branch N`` or ``s_cbranch_… N``, to the block *N*. ``llvm-mc --show-inst`` says which opcode and
operands an instruction is; its machine IR is that opcode's pseudo with the same operands and the
implicit ones that the IR's reader asks for. That it means the same instruction is checked by
printing the IR as assembly, and by the verifier that ``llc`` runs on what it reads.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from coasm.asm.decode import decode
from coasm.codeobject import load
from coasm.linter.program import Program, build_program
from coasm.llvm import Llvm
from coasm.llvm.run import assemble, link
from coasm.target import TargetID, processor
from tests.isa.llvm_instructions import Description, descriptions

__all__ = [
    "Blocks",
    "Place",
    "inserted",
    "lintable",
    "llc",
    "llc_path",
    "machine_ir",
    "printed",
    "put_in",
    "registers",
    "with_ir",
]

Blocks = Sequence[Sequence[str]]
#: The program, the block in it and the instruction in that.
Place = tuple[int, int, int]

_END = "s_endpgm"
_METADATA = """\
\t.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{}
amdhsa.kernels: []
...
\t.end_amdgpu_metadata
"""


def _flat(programs: Sequence[Blocks]) -> list[tuple[Place, str]]:
    return [
        ((number, block, index), text)
        for number, program in enumerate(programs)
        for block, lines in enumerate(program)
        for index, text in enumerate(lines)
    ]


# --- for the linter -----------------------------------------------------------------------------


def _listing(programs: Sequence[Blocks], target: str) -> str:
    lines = [
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"',
        "\t.amdhsa_code_object_version 6",
        "\t.text",
    ]
    for number, program in enumerate(programs):
        lines += [f"\t.globl f{number}", f"\t.type f{number},@function", f"f{number}:"]
        for block, texts in enumerate(program):
            lines.append(f".L{number}_{block}:")
            lines += [
                re.sub(r"^(s_c?branch\w*) (\d+)$", rf"\1 .L{number}_\2", text) for text in texts
            ]
        lines.append(_END)
    return "\n".join([*lines, _METADATA.format(target)])


def lintable(
    programs: Sequence[Blocks], target: str, llvm: Llvm
) -> tuple[Program, dict[int, Place]]:
    """The programs as one for the linter, and operation → place for what *programs* has.

    Asserts that each instruction is printed as it was given.
    """
    what = TargetID(processor(target))
    made = assemble(llvm, _listing(programs, target).encode(), what, 6)
    assert made.data is not None, made.messages[:2000]
    co = load(link(llvm, [made.data]), name="programs")
    program = build_program(co, decode(co, llvm))
    places: dict[int, Place] = {}
    at = 0
    for number, blocks in enumerate(programs):
        for block, texts in enumerate(blocks):
            for index, text in enumerate(texts):
                got = program.instructions[at].text
                if not text.startswith(("s_branch", "s_cbranch")):
                    assert got == text, (got, text)
                places[at] = number, block, index
                at += 1
        at += 1  # s_endpgm
    return program, places


# --- for LLVM -----------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"<MCInst #\d+ (\w+)((?:\s*;\s*<MCOperand [^>]*>)*)")
_OPERAND = re.compile(r"<MCOperand (\w+):([^>]*)>")
#: What the name of an encoded opcode has that its pseudo's has not: the subtarget.
_REAL = re.compile(r"_(?:vi|gfx9(?:0a|40|50)?|gfx1[0-2](?:50)?)(?:_([av])cd)?$")
#: Where encoded opcodes have other names than their pseudos beside that.
_RENAMED = (
    (r"^(SCRATCH_\w+)_VE$", r"\1"),
    (r"^V_(ADD|SUB|SUBREV)(C|B|BREV)_CO_", r"V_\1\2_"),
    (r"^V_ADD_CO_CI_U32", "V_ADDC_U32"),
    (r"^V_(SUB|SUBREV)_CO_CI_U32", r"V_\1B_U32"),
    (r"^V_(ADD|SUB|SUBREV)_NC_", r"V_\1_"),
    (r"^V_(ADD|SUB|SUBREV)_CO_U32$", r"V_\1_CO_U32_e64"),
    (r"^V_(READ|WRITE)LANE_B32_e64$", r"V_\1LANE_B32"),
    (r"^S_(BUFFER_)?LOAD_B32_", r"S_\1LOAD_DWORD_"),
    (
        r"^S_(BUFFER_)?LOAD_B(64|128|256|512)_",
        lambda m: f"S_{m[1] or ''}LOAD_DWORDX{int(m[2]) // 32}_",
    ),
)


def _description(real: str) -> Description:
    """The pseudo whose encoding is *real*, as LLVM describes it."""
    table = descriptions()
    name = _REAL.sub("", real)
    for pattern, to in _RENAMED:
        name = re.sub(pattern, to, name)
    found = _REAL.search(real)
    names = [f"{name}_vgprcd_e64"] if found and found[1] == "v" else []
    if "gfx1" in real and name.startswith("V_CMPX"):
        name = re.sub("_(e32|e64)", r"_nosdst_\1", name)
    names += [f"{name}_gfx9"] if name.startswith("DS_") else []  # those do not read M0
    names += [name, f"{name}_e64"]
    found_in = [table[one] for one in names if one in table]
    assert found_in, f"no pseudo of {real}"
    return found_in[0]


#: The registers that no operand names, as the IR spells them.
_IMPLICIT = {
    **{"exec": "$exec{}", "vcc": "$vcc{}", "m0": "$m0", "scc": "$scc", "mode": "$mode"},
    **{"flat_scratch": "$flat_scr", "asynccnt": "$asynccnt", "tensorcnt": "$tensorcnt"},
}


def _operand(kind: str, value: str, text: str) -> str:
    if kind == "Reg":
        return "$" + re.sub(r"_gfx(pre11|11plus|12_5)?$", "", value.lower())
    if text.startswith("s_setreg") and int(value) >= 1 << 15:
        return str(int(value) - (1 << 16))  # the IR's immediates of SOPK are signed
    return value


def _line(text: str, real: str, operands: list[str], wave: str) -> str:
    """The machine IR of one instruction."""
    if "_twoaddr_" in real and "SWMMAC" not in real and operands[0] not in operands[1:]:
        real = real.replace("_twoaddr_", "_threeaddr_")
    pseudo = _description(real)
    operands = operands[: len(pseudo.operands)]  # swz of a buffer's atomic is the encoding's alone
    if len(operands) < len(pseudo.operands):
        operands = [*operands, operands[0]]  # the half that is kept
    assert len(operands) == len(pseudo.operands), (text, real, pseudo.name)
    implicit = [f"implicit-def {_IMPLICIT[name].format(wave)}" for name in sorted(pseudo.writes)]
    implicit += [f"implicit {_IMPLICIT[name].format(wave)}" for name in sorted(pseudo.reads)]
    if "UNUSED_PRESERVE" in text:
        implicit.append(f"implicit {operands[0]}(tied-def 0)")
    written = ", ".join(operands[: pseudo.defs])
    read = ", ".join(operands[pseudo.defs :] + implicit)
    return f"{written} = {pseudo.name} {read}" if pseudo.defs else f"{pseudo.name} {read}"


def _encoded(texts: Sequence[str], target: str, llvm: Llvm) -> Iterator[tuple[str, str, list[str]]]:
    """Each instruction with its encoded opcode and its operands."""
    assert llvm.mc is not None
    command = [llvm.mc, "-triple=amdgcn", f"-mcpu={target}", "--show-inst"]
    made = subprocess.run(command, input="\n".join(texts) + "\n", capture_output=True, text=True)
    assert not made.returncode, made.stderr[:2000]
    found = _INSTRUCTION.findall(made.stdout)
    assert len(found) == len(texts)
    for text, (real, operands) in zip(texts, found, strict=True):
        parts = [_operand(name, value, text) for name, value in _OPERAND.findall(operands)]
        yield text, real, parts


@cache
def _lines(texts: tuple[str, ...], target: str, llvm: Llvm) -> dict[str, str]:
    """Instruction → its machine IR."""
    return {text: _line(text, *rest, "") for text, *rest in _encoded(texts, target, llvm)}


def with_ir(texts: Sequence[str], target: str, llvm: Llvm) -> set[str]:
    """Those of *texts* that machine IR is made for, and that the linter takes for the same."""
    assert llvm.mc is not None
    command = [llvm.mc, "-triple=amdgcn", f"-mcpu={target}", "-filetype=null"]
    made = subprocess.run(command, input="\n".join(texts) + "\n", capture_output=True, text=True)
    refused = {int(line) - 1 for line in re.findall(r"<stdin>:(\d+):", made.stderr)}
    texts = [text for at, text in enumerate(texts) if at not in refused]
    found = []
    for text, real, parts in _encoded(texts, target, llvm):
        try:
            _line(text, real, parts, "")
        except (AssertionError, IndexError):
            continue
        found.append(text)
    return _agreed(found, target, llvm)


def _agreed(texts: Sequence[str], target: str, llvm: Llvm) -> set[str]:
    """Those that LLVM's verifier takes, found by halves."""
    if not texts:
        return set()
    programs: list[Blocks] = [[[text]] for text in texts]
    try:
        put_in(programs, target, llvm)
        lintable(programs, target, llvm)
        return set(texts)
    except AssertionError:
        half = len(texts) // 2
        if not half:
            return set()
        return _agreed(texts[:half], target, llvm) | _agreed(texts[half:], target, llvm)


def _branch(text: str) -> tuple[str, int] | None:
    name, _, target = text.partition(" ")
    return (name, int(target)) if name.startswith(("s_branch", "s_cbranch")) else None


def machine_ir(programs: Sequence[Blocks], target: str, llvm: Llvm) -> str:
    texts = {text for _, text in _flat(programs) if _branch(text) is None}
    ir = _lines(tuple(sorted(texts)), target, llvm)
    lines: list[str] = []
    for number, program in enumerate(programs):
        lines += ["---", f"name: f{number}", "body: |"]
        for block, inside in enumerate(program):
            lines.append(f"  bb.{block}:")
            jump = _branch(inside[-1]) if inside else None
            follows = [] if jump and jump[0] == "s_branch" else [block + 1]
            follows += [jump[1]] if jump else []
            lines.append(
                "    successors: " + ", ".join(f"%bb.{to}" for to in dict.fromkeys(follows))
            )
            lines += [f"    {ir[text]}" for text in inside if _branch(text) is None]
            if jump:
                scc = ", implicit $scc" if jump[0].startswith("s_cbranch_scc") else ""
                lines.append(f"    {jump[0].upper()} %bb.{jump[1]}{scc}")
        lines += [f"  bb.{len(program)}:", "    S_ENDPGM 0", "..."]
    return "\n".join(lines) + "\n"


def llc_path(llvm: Llvm) -> Path:
    """Where ``llc`` of the same LLVM is, if it is: beside what ``clang`` is a link to."""
    return Path(llvm.clang).resolve().parent / "llc"


def llc(llvm: Llvm, target: str, source: str, *options: str) -> str:
    with tempfile.TemporaryDirectory(prefix="coasm-") as folder:
        path = Path(folder, "programs.mir")
        path.write_text(source)
        # With XNACK there is a rule about what may be replayed, too.
        flags = ["-mtriple=amdgcn", f"-mcpu={target}", "-mattr=-xnack", *options, "-o", "-"]
        command = [str(llc_path(llvm)), *flags, str(path)]
        made = subprocess.run(command, capture_output=True, text=True)
    assert not made.returncode, made.stderr[max(made.stderr.find("*** Bad"), 0) :][:2000]
    return made.stdout


def put_in(
    programs: Sequence[Blocks], target: str, llvm: Llvm, what: str = "post-RA-hazard-rec"
) -> list[dict[Place, list[str]]]:
    """Of each program what a pass of LLVM puts before an instruction, as machine IR."""
    made = llc(llvm, target, machine_ir(programs, target, llvm), f"-run-pass={what}")
    found: list[dict[Place, list[str]]] = []
    own = _own(programs, target, llvm)
    for number, function in enumerate(made.split("\n---\n")[1:] if programs else ()):
        blocks = re.split(r"^  bb\.\d+:.*$", function.split("body:")[1], flags=re.M)[1:]
        program = programs[number]
        before: dict[Place, list[str]] = {}
        for block, texts in enumerate(program):
            at = 0
            for line in blocks[block].splitlines():
                line = line.strip()
                if not line or line.startswith((";", "successors:")):
                    continue
                if at < len(texts) and own[texts[at]] == _what(line):
                    at += 1
                else:
                    before.setdefault((number, block, at), []).append(line)
            assert at == len(texts), (program, blocks[block])
        found.append(before)
    assert len(found) == len(programs)
    return found


def _what(line: str) -> tuple[str, ...]:
    """The opcode of a line of machine IR and the operands that an inserted one would differ in."""
    words = line.rpartition(" = ")[2].split()
    written = re.findall(r"\$[\w]+", line.rpartition(" = ")[0])
    short = words[0] in ("S_NOP", "S_WAITCNT_DEPCTR", "S_WAITCNT")
    return (words[0], *written, *(words[1:2] if short else ()))


def _own(programs: Sequence[Blocks], target: str, llvm: Llvm) -> dict[str, tuple[str, ...]]:
    """Instruction → what is told of it among those that are put in."""
    texts = {text for _, text in _flat(programs)}
    plain = {text for text in texts if _branch(text) is None}
    ir = _lines(tuple(sorted(plain)), target, llvm)
    return {
        text: _what(ir[text]) if text in plain else (text.split()[0].upper(),) for text in texts
    }


def inserted(programs: Sequence[Blocks], target: str, llvm: Llvm) -> list[dict[Place, int]]:
    """Of each program the wait states that LLVM's hazard recognizer puts before an instruction."""
    found: list[dict[Place, int]] = []
    for before in put_in(programs, target, llvm):
        states: dict[Place, int] = {}
        for place, lines in before.items():
            nops = [re.fullmatch(r"S_NOP (\d+)", line) for line in lines]
            assert all(nops), lines
            states[place] = sum(int(nop[1]) + 1 for nop in nops if nop)
        found.append(states)
    return found


def registers(texts: Iterable[str], target: str, llvm: Llvm) -> list[tuple[set[str], set[str]]]:
    """The registers that each instruction writes and reads for LLVM, each by itself: ``vgpr0``."""
    found = []
    texts = list(texts)
    ir = _lines(tuple(sorted(set(texts))), target, llvm)
    for text in texts:
        written, _, rest = ir[text].rpartition(" = ")
        named = re.findall(r"(implicit-def )?\$(\w+)", rest)
        writes = {part for name in re.findall(r"\$(\w+)", written) for part in _parts(name)}
        writes |= {part for implicit, name in named if implicit for part in _parts(name)}
        reads = {part for implicit, name in named if not implicit for part in _parts(name)}
        found.append((writes, reads))
    return found


def _parts(name: str) -> list[str]:
    if name in ("vcc", "exec", "flat_scr"):
        return [f"{name}_lo", f"{name}_hi"]
    return name.split("_") if re.match(r"[vas]gpr\d", name) else [name]


def printed(texts: Iterable[str], target: str, llvm: Llvm) -> list[str]:
    """Instructions as LLVM prints what their machine IR was made of."""
    source = machine_ir([[list(texts)]], target, llvm)
    made = llc(llvm, target, source, "-start-after=post-RA-hazard-rec")
    lines = (line.partition(";")[0].strip() for line in made.splitlines())
    return [line for line in lines if re.match(r"[a-z]\w*(?!.*:$)", line) and line != _END]
