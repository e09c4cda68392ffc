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
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from coasm.asm.decode import decode
from coasm.codeobject import load
from coasm.linter.program import Program, build_program
from coasm.llvm import Llvm
from coasm.llvm.run import assemble, link
from coasm.target import TargetID, processor

__all__ = [
    "Blocks",
    "Place",
    "inserted",
    "lintable",
    "llc",
    "llc_path",
    "machine_ir",
    "printed",
    "registers",
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
                    assert got == text
                places[at] = number, block, index
                at += 1
        at += 1  # s_endpgm
    return program, places


# --- for LLVM -----------------------------------------------------------------------------------

_INSTRUCTION = re.compile(r"<MCInst #\d+ (\w+)((?:\s*;\s*<MCOperand [^>]*>)*)")
_OPERAND = re.compile(r"<MCOperand (\w+):([^>]*)>")
_REAL = re.compile(r"_(?:vi|gfx9|gfx90a|gfx940|gfx950)(?:_([av])cd)?$")
#: The pseudos whose name says that they are VOP3, where the encoded opcode does not.
_VOP3 = re.compile(
    r"v_(mul_(lo|hi)|fma_f|s?mfma|div_fmas|div_scale|cvt_(scalef32|sr_|pk_(fp8|bf8|bf16)_f|pkrtz)"
    r"|mad_|perm_|bfe_|lsh|ashr|alignbit|bcnt|mbcnt|ldexp_f(32|64)|add_(i16|f64)|mul_f64|m(in|ax)_f64"
    r"|bitop3|accvgpr_(read|write)|m(in|ax)imum3|add3|xad|and_or|or3|med3)"
)
#: Instructions without a destination, and those with two.
_NONE = re.compile(
    r"(buffer|tbuffer|global|flat|scratch)_store|global_load_lds|ds_write|ds_add_u32"
    r"|s_(cmp|waitcnt|barrier|nop|sleep|sendmsg|setreg|setvskip|rfe|set_gpr|ttrace|movreld|cbranch)"
    r"|v_nop|v_cmpx?_\w+_e32"
)
_TWO = re.compile(r"v_\w+_co_u32_e64|v_div_scale|v_mad_[ui]64|v_swap|v_permlane(16|32)_swap")

#: The implicit operands that the IR's reader asks for. The first row that matches counts.
_IMPLICIT: tuple[tuple[str, str], ...] = (
    (r"v_(readlane|writelane)|s_(mov_b|mul_i|load|buffer_load|waitcnt|barrier|nop|sleep|rfe)", ""),
    (r"s_(movrel|ttracedata)", "$m0"),
    (r"s_sendmsg", "$exec $m0"),
    (r"s_(add_|cmp|lshl|setvskip)", "def:$scc"),
    (r"s_addc", "def:$scc $scc"),
    (r"s_and_saveexec", "def:$exec def:$scc $exec"),
    (r"s_(cselect|cbranch_scc)", "$scc"),
    (r"s_setreg|s_set_gpr_idx_off", "def:$mode $mode"),
    (r"s_getreg", "$mode"),
    (r"s_set_gpr_idx_on", "def:$m0 def:$mode $m0 $mode"),
    (r"v_cmpx_\w+_e32", "def:$vcc def:$exec $exec"),
    (r"v_cmpx_", "def:$exec $exec"),
    (r"v_cmp_\w+_u32_e32|v_add_co_u32_e32", "def:$vcc $exec"),
    (r"v_cmp_\w+_f32_e32", "def:$vcc $mode $exec"),
    (r"v_addc_co_u32_e32", "def:$vcc $vcc $exec"),
    (r"v_cndmask_b32_e32", "$vcc $exec"),
    (r"v_div_fmas", "$mode $vcc $exec"),
    (r"buffer_\w+ .* lds$", "$exec $m0"),
    (r"global_load_lds|ds_(?!bpermute|swizzle|\w+_d16|read_b64_tr)", "$m0 $exec"),
    (r"flat_|scratch_", "$exec $flat_scr"),
    (r"v_dot\d\w*_i32|v_(cvt_pk_bf16|minimum3|maximum3|cndmask|accvgpr)", "$exec"),
    (r"v_\w*(f16|f32|f64|fp8|bf8|mfma|smfmac)", "$mode $exec"),
    (r"", "$exec"),
)
_IMPLICIT_ROWS = tuple((re.compile(pattern), operands) for pattern, operands in _IMPLICIT)


def _opcode(text: str, real: str) -> str:
    """The pseudo's name: the encoded opcode's without the subtarget, with the form."""
    name = _REAL.sub("", real).replace("SCRATCH_LOAD_DWORD_VE", "SCRATCH_LOAD_DWORD")
    name = re.sub(r"(SCRATCH_\w+)_VE$", r"\1", name)
    name = re.sub(r"^V_(ADD|SUB|SUBREV)(C|B|BREV)_CO_", r"V_\1\2_", name)
    found = _REAL.search(real)
    if found and found[1] == "v":
        return f"{name}_vgprcd_e64"
    if re.search(r"_(e32|e64|sdwa|dpp)$", name) or not name.startswith("V_"):
        return name
    return f"{name}_e64" if _VOP3.match(text) or "MFMA" in name or "SMFMAC" in name else name


def _operand(kind: str, value: str, text: str) -> str:
    if kind == "Reg":
        return "$" + value.lower().replace("m0_gfxpre11", "m0")
    if text.startswith("s_setreg") and int(value) >= 1 << 15:
        return str(int(value) - (1 << 16))  # the IR's immediates of SOPK are signed
    return value


def _line(text: str, real: str, operands: list[str]) -> str:
    """The machine IR of one instruction."""
    name = text.split()[0]
    count = 2 if _TWO.match(name) else 1
    returns = "_atomic_" not in name or "sc0" in text.split()
    if _NONE.match(name) or not returns or text.endswith(" lds"):
        count = 0
    if name.startswith("buffer_atomic"):
        operands = operands[:-1]  # swz is the encoding's alone
    if name.startswith("buffer_load") and "_d16" in name:
        operands = [*operands, operands[0]]  # the half that is kept
    row = next(implicit for pattern, implicit in _IMPLICIT_ROWS if pattern.match(text))
    implicit = [
        f"implicit-def {part[4:]}" if part.startswith("def:") else f"implicit {part}"
        for part in row.split()
    ]
    if "UNUSED_PRESERVE" in text:
        implicit.append(f"implicit {operands[0]}(tied-def 0)")
    written = ", ".join(operands[:count])
    read = ", ".join(operands[count:] + implicit)
    return f"{written} = {_opcode(text, real)} {read}" if count else f"{_opcode(text, real)} {read}"


@cache
def _lines(texts: tuple[str, ...], target: str, llvm: Llvm) -> dict[str, str]:
    """Instruction → its machine IR."""
    assert llvm.mc is not None
    command = [llvm.mc, "-triple=amdgcn", f"-mcpu={target}", "--show-inst"]
    made = subprocess.run(command, input="\n".join(texts) + "\n", capture_output=True, text=True)
    assert not made.returncode, made.stderr[:2000]
    found = _INSTRUCTION.findall(made.stdout)
    assert len(found) == len(texts)
    lines = {}
    for text, (real, operands) in zip(texts, found, strict=True):
        parts = [_operand(name, value, text) for name, value in _OPERAND.findall(operands)]
        lines[text] = _line(text, real, parts)
    return lines


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


def inserted(programs: Sequence[Blocks], target: str, llvm: Llvm) -> list[dict[Place, int]]:
    """Of each program the wait states that LLVM's hazard recognizer puts before an instruction."""
    made = llc(llvm, target, machine_ir(programs, target, llvm), "-run-pass=post-RA-hazard-rec")
    found: list[dict[Place, int]] = []
    for number, function in enumerate(made.split("\n---\n")[1:] if programs else ()):
        blocks = re.split(r"^  bb\.\d+:.*$", function.split("body:")[1], flags=re.M)[1:]
        program = programs[number]
        before: dict[Place, int] = {}
        for block, texts in enumerate(program):
            at = 0
            for line in blocks[block].splitlines():
                line = line.strip()
                if not line or line.startswith((";", "successors:")):
                    continue
                nop = re.fullmatch(r"S_NOP (\d+)", line)
                is_own = at < len(texts) and (nop is None or texts[at] == f"s_nop {nop[1]}")
                if is_own:
                    at += 1
                else:
                    assert nop is not None, line
                    place = number, block, at
                    before[place] = before.get(place, 0) + int(nop[1]) + 1
            assert at == len(texts), (program, blocks[block])
        found.append(before)
    assert len(found) == len(programs)
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
