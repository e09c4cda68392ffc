"""Operands of an instruction → where a group holds them, and functions that read and write them.

A *kind* is one of :mod:`~coasm.emulator.rows.values`.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.dpp import dpp_source, has_dpp, write_mask
from coasm.emulator.rows.sdwa import sdwa_source, sdwa_target
from coasm.emulator.rows.taken import peek, plain
from coasm.emulator.rows.values import (
    DENORM_16_IN,
    DENORM_16_OUT,
    DENORM_32_IN,
    DENORM_32_OUT,
    DTYPES,
    INDEX_DST,
    INDEX_SRC,
    Array,
    Getter,
    Setter,
    constant64,
    float_bits,
    flush,
    spread,
    store,
)
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.spaces import PRIVATE_APERTURE, SHARED_APERTURE
from coasm.emulator.state.waves import SCALARS, Group, Layout, pack, unpack
from coasm.isa import (
    AGPR,
    EXEC,
    SCC,
    VGPR,
    Access,
    Literal,
    Operand,
    Parsed,
    Register,
    Word,
    register_name,
)
from coasm.isa.kinds import is_a

__all__ = ["Context", "bit_modifiers"]

_FIXED = {
    235: SHARED_APERTURE << 32,
    237: PRIVATE_APERTURE << 32,
    236: SHARED_APERTURE << 32 | 0xFFFF_FFFF,
    238: PRIVATE_APERTURE << 32 | 0xFFFF_FFFF,
}

#: The source operand's number that says: a literal dword follows.
_LITERAL = 255


class Context:
    """What an instruction is prepared with: what waves share, modes, what is known of its block.

    ``clean`` holds the VGPR rows that are known to hold no denormal float32 in the lanes of EXEC,
    at first those of *clean*, bit by bit; ``wanted`` those of which it was asked whether they do as
    the block is entered, and not known; ``touched`` those written since. ``forgot``: nothing of
    what was known then is known any more. ``scc_live`` says that the SCC the instruction sets is
    read. ``seen`` are the registers and constants that were taken of the instruction so far (see
    :mod:`~coasm.emulator.rows.taken`), ``indexes`` the bits of VGPR index mode that its builder
    applies. A builder sets ``writes_lds_late`` where the step puts what it writes to LDS into a
    queue of the group, to be done at the wait that covers it, and ``doubt`` where how it stands
    here, not each of its kind, is known less than exactly.
    """

    def __init__(self, shared: Shared, mode: int, index: int, clean: int = 0) -> None:
        self.shared, self.mode, self.index = shared, mode, index
        self.layout: Layout = shared.layout
        self.clean: set[int] = {row for row in range(clean.bit_length()) if clean >> row & 1}
        self.wanted: set[int] = set()
        self.touched: set[int] = set()
        self.forgot = False
        self.scc_live = True
        self.now_clean = False
        self.address, self.data = 0, b""
        self.writes_lds_late = False
        self.access = Access(frozenset(), frozenset())
        self.seen: set[Operand | int] = set()
        self.indexes = 0
        self.doubt = ""

    def begin(self) -> None:
        """Another instruction: nothing of it is taken yet."""
        self.seen.clear()
        self.indexes = 0
        self.doubt = ""
        self.writes_lds_late = False

    def forget_clean(self) -> None:
        """EXEC or an unknown register is written: no register is known to be clean."""
        self.clean.clear()
        self.forgot = True

    def wrote(self, row: int) -> None:
        """A register is written: by an instruction whose result has no denormals, or not."""
        self.touched.add(row)
        if self.now_clean:
            self.clean.add(row)
        else:
            self.clean.discard(row)

    def check_index(self, parsed: Parsed) -> None:
        """VGPR index mode may not pass by a vector operand that the builder took as it stands.

        Raises:
            Fault: it does.
        """
        if not is_a(parsed.mnemonic, "vector"):
            return
        for bits, operands in ((INDEX_DST, parsed.operands[:1]), (7, parsed.operands[1:])):
            vector = any(isinstance(op, Register) and op.first >= VGPR for op in operands)
            if self.index & bits and not self.indexes & bits and vector:
                raise Fault(f"VGPR index mode on {parsed.mnemonic} is not emulated")

    def take(self, operand: Operand) -> None:
        """Note that *operand*, which may have no modifier, is read or written.

        Raises:
            Fault: it has a source modifier.
        """
        plain(operand)
        self.seen.update(operand.numbers if isinstance(operand, Register) else (operand,))

    # Where an operand is.

    def row(self, number: int) -> int:
        """The row of the register array that VGPR or AGPR *number* is.

        Raises:
            Fault: the kernel descriptor does not allocate it.
        """
        self.seen.add(number)
        vgprs, agprs = self.layout.vgprs, self.layout.agprs
        if number >= AGPR:
            at, have, what = number - AGPR, agprs, "AGPRs"
        else:
            # One file: behind the last VGPR is the first AGPR.
            at, have, what = number - VGPR, vgprs + agprs, "registers" if agprs else "VGPRs"
        if at >= have:
            raise Fault(
                f"{register_name(number)} is beyond the {have} {what} that the kernel descriptor "
                "allocates"
            )
        return at if number < AGPR else vgprs + at

    def rows(self, operand: Operand) -> list[int]:
        """The rows of a vector operand."""
        register = vector_register(operand)
        self.take(operand)
        return [self.row(number) for number in register.numbers]

    def scalar(self, number: int) -> int:
        """The number of a scalar register, checked.

        Raises:
            Fault: the kernel descriptor does not allocate it.
        """
        self.seen.add(number)
        if number >= SCALARS:
            raise Fault(f"the operand {register_name(number)} is not emulated here")
        limit = self.shared.sgprs
        if limit <= number < self.shared.processor.family.addressable_sgprs:
            raise Fault(
                f"s{number} is beyond the {limit} SGPRs that the kernel descriptor allocates"
            )
        return number

    def constant(self, bits: int) -> int:
        """The position of a 32-bit constant, counted behind the scalar registers."""
        return self.shared.constant(bits & 0xFFFF_FFFF)

    def literal(self, operand: Literal, kind: str) -> int:
        """The bits of a constant operand."""
        value = operand.value
        if kind in ("u16", "i16") and self._inline_float16(value):
            raise Fault("a floating-point constant as a 16-bit integer is not emulated")
        if isinstance(value, float):
            return float_bits(value, kind)
        if kind in ("f64", "b64") and (operand.encoded or not -16 <= value <= 64):
            return (value & 0xFFFF_FFFF) << 32
        if kind == "i64" and 1 << 31 <= value < 1 << 32:
            return value - (1 << 32)
        return value

    def _inline_float16(self, value: float) -> bool:
        """Whether a constant of a 16-bit integer operand is an inline one of floating point.

        LLVM's disassembler takes it for a float16 and shows its bits as a number; its compiler
        knows that hardware reads something else (``SIInstrInfo::isInlineConstant``).
        """
        if isinstance(value, float):
            return True
        data = self.data
        first = int.from_bytes(data[:4], "little")
        literal = len(data) == 8 and not first >> 31 and first & 0x1FF == _LITERAL
        return not literal and not -16 <= value <= 64

    def k(self, operand: Operand, kind: str = "u32") -> int:
        """The position of a 32-bit operand in ``u``, ``i`` and ``f``."""
        base = self.layout.rows
        self.take(operand)
        if isinstance(operand, Literal):
            return base + SCALARS + self.constant(self.literal(operand, kind))
        if not isinstance(operand, Register):
            raise Fault(f"the operand {operand.text!r} is not emulated here")
        if operand.first >= VGPR:
            return self.row(operand.first)
        if operand.first in _FIXED:
            return base + SCALARS + self.constant(_FIXED[operand.first] >> 32)
        return base + self.scalar(operand.first)

    def ks(self, operand: Operand, kind: str = "u32") -> int:
        """The position of a 32-bit operand in ``su`` and ``si``."""
        self.take(operand)
        if isinstance(operand, Literal):
            return SCALARS + self.constant(self.literal(operand, kind))
        if not isinstance(operand, Register) or operand.first >= VGPR:
            raise Fault("the operand is no scalar register")
        if operand.first in _FIXED:
            return SCALARS + self.constant(_FIXED[operand.first] >> 32)
        return self.scalar(operand.first)

    def pair(self, operand: Operand) -> int:
        """The number of the aligned scalar pair that a 64-bit operand is."""
        if not isinstance(operand, Register) or operand.first >= SCALARS or operand.first & 1:
            raise Fault("the operand is no aligned pair of scalar registers")
        self.take(operand)
        self.scalar(operand.first)
        return operand.first >> 1

    # Reading.

    def scalar_source(self, operand: Operand, kind: str) -> Getter:
        """A function that gives a scalar operand as [n] (or 0-d, a constant)."""
        self.take(operand)
        dtype = DTYPES[kind]
        if isinstance(operand, Register) and operand.first == SCC:
            return lambda s: s.scc.astype(dtype)
        if isinstance(operand, Register) and operand.first in (251, 252):
            pair = 53 if operand.first == 251 else 63
            return lambda s: (s.d[pair] == 0).astype(dtype)
        if kind.endswith("64"):
            if isinstance(operand, Literal):
                value = constant64(self.literal(operand, kind), kind)
                return lambda s: value
            if isinstance(operand, Register) and operand.first in _FIXED:
                value = constant64(_FIXED[operand.first], kind)
                return lambda s: value
            at = self.pair(operand)
            if dtype is np.uint64:
                return lambda s: s.d[at]
            return lambda s: s.d[at].view(dtype)
        at = self.ks(operand, kind)
        if kind in ("u32", "f32"):
            return (lambda s: s.su[at]) if kind == "u32" else (lambda s: s.su[at].view(np.float32))
        if kind == "i32":
            return lambda s: s.si[at]
        raw = np.uint16
        return lambda s: s.su[at].astype(raw).view(dtype)

    def scalar_target(self, operand: Operand, kind: str) -> Setter:
        """A function that puts [n] values into a scalar register or pair."""
        if isinstance(operand, Register) and operand.first >= VGPR:
            raise Fault("the operand is no scalar register")
        wide = kind in ("u64", "i64", "f64")
        unsigned = np.uint64 if wide else np.uint32
        if not isinstance(operand, Register):
            raise Fault("the operand is no register")
        self.take(operand)
        is_exec = operand.first in (EXEC, EXEC + 1)
        at = self.pair(operand) if wide else self.scalar(operand.first)

        def put(s: Group, value: Array) -> None:
            (s.d if wide else s.su)[at][...] = value.view(unsigned)
            if is_exec:
                s.update_exec()

        return put

    def raw_source(self, operand: Operand, position: int, kind: str = "u32") -> Getter:
        """A 32-bit vector operand as uint32 [n, 64], [n, 1] or 0-d; VGPR index mode applied.

        *kind*: as what a constant reaches the operand.
        """
        at = self.k(operand, kind)
        if self.indexed(operand, position):
            vgprs = self.layout.vgprs
            base = at - vgprs if at >= vgprs else at
            first, count = (vgprs, self.layout.agprs) if at >= vgprs else (0, vgprs)

            def indexed(s: Group) -> Array:
                rows = base + self._offsets(s)
                _check_indexed(rows, count)
                out: Array = s.V[first + rows, np.arange(s.n)]
                return out

            return indexed
        return lambda s: s.u[at]

    def indexed(self, operand: Operand, position: int) -> bool:
        """Whether VGPR index mode applies to the source operand at *position* (0 to 2)."""
        self.indexes |= INDEX_SRC[position]
        return bool(
            self.index
            and isinstance(operand, Register)
            and operand.first >= VGPR
            and self.index & INDEX_SRC[position]
        )

    def source(self, parsed: Parsed, at: int, kind: str, first: int = 1) -> Getter:
        """A function that gives vector operand *at* (its index among the operands) as *kind*.

        [n, 64], [n, 1] or 0-d; negation, absolute value, op_sel, SDWA, DPP and flushing of
        denormals applied. *first* is the index of source 0.
        """
        operand = parsed.operands[at]
        number = at - first
        if kind == "m":
            pair = self.pair(operand)
            return lambda s: unpack(s.d[pair])
        if isinstance(operand, Word):
            raise Fault(f"the operand {operand.text!r} is not emulated here")
        if "16" not in kind:
            no_half(parsed, number)
        bare = operand._replace(negate=False, absolute=False)
        if kind.endswith("64"):
            get = self._wide(bare, kind)
            if number == 0 and has_dpp(parsed):
                get = dpp_source(parsed, get, self.layout.lanes)
        else:
            get = self._narrow(parsed, bare, kind, number)
        if kind in ("f32", "f16", "f64"):
            whole = parsed.modifiers.get(f"src{number}_sel", "DWORD") == "DWORD"
            flushes = self.flushes_in(kind) and not (whole and self.is_clean(operand, kind))
            get = self._float_modifiers(operand, get, flushes)
        elif operand.negate or operand.absolute:
            if kind not in ("u16", "u32", "bf16"):
                raise Fault("a source modifier on an operand that is no float")
            get = bit_modifiers(operand, get, 31 if kind == "u32" else 15)
        return get

    def _wide(self, operand: Operand, kind: str) -> Getter:
        dtype = DTYPES[kind]
        if not isinstance(operand, Register) or operand.first < VGPR:
            get = self.scalar_source(operand, kind)
            return lambda s: get(s)[..., None] if get(s).ndim else get(s)
        low, high = self.rows(operand)[:2]
        if self.index:
            raise Fault("VGPR index mode with a 64-bit operand is not emulated")

        def read(s: Group) -> Array:
            both = np.empty((*s.shape, 2), np.uint32)
            both[..., 0] = s.u[low]
            both[..., 1] = s.u[high]
            return both.view(dtype)[..., 0]

        return read

    def _narrow(self, parsed: Parsed, operand: Operand, kind: str, number: int) -> Getter:
        dtype = DTYPES[kind]
        if isinstance(operand, Register) and operand.first in (251, 252, SCC):
            value = self.scalar_source(operand, "u32")
            return lambda s: value(s)[:, None].view(dtype) if kind != "u16" else value(s)[:, None]
        half = 0 if kind.endswith("32") else parsed.bits("op_sel", 4)[number]
        if isinstance(operand, Literal):
            if parsed.modifiers.get(f"src{number}_sel", "DWORD") != "DWORD":
                raise Fault("a part of a constant (SDWA) is not emulated")
            at = self.k(operand, kind)
            if not kind.endswith("32"):
                shift = np.uint32(16 * half)
                return lambda s: (s.u[at] >> shift).astype(np.uint16).view(dtype)
            return _typed(at, kind)
        select = parsed.modifiers.get(f"src{number}_sel", "DWORD")
        sext = isinstance(operand, Register) and operand.sext
        if isinstance(operand, Register):
            operand = operand._replace(sext=False)
        plain = select == "DWORD" and not self.indexed(operand, number)
        if kind.endswith("32") and plain and not (number == 0 and has_dpp(parsed)):
            return _typed(self.k(operand), kind)
        raw = self.raw_source(operand, number)
        if number == 0 and has_dpp(parsed):
            raw = dpp_source(parsed, raw, self.layout.lanes)
        if select != "DWORD":
            raw = sdwa_source(raw, select, sext)
            half = 0
        if kind.endswith("32"):
            return lambda s: np.ascontiguousarray(raw(s)).view(dtype)
        shift = np.uint32(16 * half)
        return lambda s: (raw(s) >> shift).astype(np.uint16).view(dtype)

    def _float_modifiers(self, operand: Register | Literal, get: Getter, flushes: bool) -> Getter:
        inner = get
        if flushes:
            plain = get
            inner = lambda s: flush(plain(s))  # noqa: E731
        if not operand.negate and not operand.absolute:
            return inner

        def modified(s: Group) -> Array:
            value = inner(s)
            if operand.absolute:
                value = np.abs(value)
            return np.negative(value) if operand.negate else value

        return modified

    def flushes_in(self, kind: str) -> bool:
        """Whether the mode flushes denormal operands of that kind."""
        return not self.mode & (DENORM_32_IN if kind == "f32" else DENORM_16_IN)

    def flushes_out(self, kind: str) -> bool:
        """Whether the mode flushes denormal results of that kind."""
        return not self.mode & (DENORM_32_OUT if kind == "f32" else DENORM_16_OUT)

    def is_clean(self, operand: Operand, kind: str) -> bool:
        """Whether the operand is known to hold no denormal."""
        if isinstance(operand, Literal):
            bits = self.literal(operand, kind)
            return not 0 < bits & 0x7FFF_FFFF < 1 << 23 if kind == "f32" else False
        if kind != "f32" or not isinstance(operand, Register) or operand.first < VGPR or self.index:
            return False
        row = self.row(operand.first)
        if not (self.forgot or row in self.touched or row in self.clean):
            self.wanted.add(row)
        return row in self.clean

    # Writing.

    def is_whole(self, parsed: Parsed) -> bool:
        """Whether the result goes into all of its register, in each lane of EXEC."""
        return "dst_sel" not in parsed.modifiers and not has_dpp(parsed)

    def target(self, parsed: Parsed, kind: str, at: int = 0, keep: bool = False) -> Setter:
        """A function that puts a result into vector operand *at*, in the lanes of EXEC.

        A 16-bit result clears the high half of the register, unless *keep* or op_sel say that the
        other half stays.
        """
        operand = parsed.operands[at]
        if isinstance(operand, Register) and operand.first < VGPR:
            return self.scalar_target(operand, kind)
        if kind == "m":
            raise Fault("the operand is no scalar register")
        rows = self.rows(operand)
        if "16" not in kind:
            no_half(parsed, len(parsed.operands) - 1)
        enabled = write_mask(parsed, self.layout.lanes)
        self.indexes |= INDEX_DST
        if self.index & INDEX_DST:
            if not kind.endswith("32") or enabled or "dst_sel" in parsed.modifiers:
                raise Fault("VGPR index mode on a destination of this form is not emulated")
            return self.indexed_target(rows[0], lambda s: s.mask)
        if kind.endswith("64"):

            def put_wide(s: Group, value: Array) -> None:
                value = spread(value, s.shape)
                both = np.ascontiguousarray(value).view(np.uint32).reshape(*s.shape, 2)
                store(s, rows[0], both[..., 0], enabled)
                store(s, rows[1], both[..., 1], enabled)

            return put_wide
        row = rows[0]
        if kind.endswith("32"):

            def put(s: Group, value: Array) -> None:
                store(s, row, value.view(np.uint32), enabled)

            if "dst_sel" in parsed.modifiers and parsed.modifiers["dst_sel"] != "DWORD":
                return sdwa_target(parsed, row, enabled)
            return put
        if "dst_sel" in parsed.modifiers and parsed.modifiers["dst_sel"] != "DWORD":
            return sdwa_target(parsed, row, enabled)
        sources = len(parsed.operands) - 1
        high = bool("op_sel" in parsed.modifiers and parsed.bits("op_sel", 4)[sources])
        shift = np.uint32(16 if high else 0)
        stay = np.uint32(0x0000FFFF if high else 0xFFFF0000)

        def put_half(s: Group, value: Array) -> None:
            bits = value.view(np.uint16).astype(np.uint32) << shift
            if keep or high:
                bits = bits | (s.u[row] & stay)
            store(s, row, bits, enabled)

        return put_half

    def indexed_target(self, row: int, lanes: Getter) -> Setter:
        """Writes *lanes* of the register that is M0[7:0] behind *row*; each wave has its own M0."""
        vgprs = self.layout.vgprs
        first, count = (vgprs, self.layout.agprs) if row >= vgprs else (0, vgprs)
        # What is known of registers holds for the one that the instruction names.
        self.forget_clean()

        def put(s: Group, value: Array) -> None:
            rows = row - first + self._offsets(s)
            _check_indexed(rows, count)
            rows += first
            waves = np.arange(s.n)
            kept = s.V[rows, waves]
            s.V[rows, waves] = np.where(lanes(s), value.view(np.uint32), kept)
            s.decoded.clear()
            if s.written is not None:
                s.written[rows, waves] = True

        return put

    @staticmethod
    def _offsets(s: Group) -> Array:
        """What VGPR index mode adds to a register's number: M0[7:0] of each wave."""
        return (s.su[124] & np.uint32(0xFF)).astype(np.int64)

    def mask_target(self, operand: Operand) -> Setter:
        """A function that puts booleans [n, 64] into a scalar pair: 0 for lanes outside EXEC."""
        pair = self.pair(operand)

        def put(s: Group, value: Array) -> None:
            value = spread(value, s.shape)
            s.d[pair][...] = pack(value if s.full else value & s.mask)
            if pair == 63:
                s.update_exec()

        return put


def no_half(parsed: Parsed, number: int) -> None:
    """An operand of 32 or 64 bits has no half that ``op_sel`` could pick.

    Raises:
        Fault: the instruction says so all the same.
    """
    picked = peek(parsed, "op_sel").strip("[]").split(",")
    if picked[number : number + 1] == ["1"]:
        raise Fault(f"the modifier op_sel of {parsed.mnemonic}, operand {number}, is not emulated")


def vector_register(operand: Operand) -> Register:
    """*operand*, which must be VGPRs or AGPRs.

    Raises:
        Fault: it is something else.
    """
    if not isinstance(operand, Register) or operand.first < VGPR:
        name = operand.text if isinstance(operand, Word) else "a scalar"
        raise Fault(f"the operand ({name}) is no vector register")
    return operand


def _typed(at: int, kind: str) -> Getter:
    if kind == "u32":
        return lambda s: s.u[at]
    if kind == "i32":
        return lambda s: s.i[at]
    return lambda s: s.f[at]


def bit_modifiers(operand: Register | Literal, get: Getter, sign: int) -> Getter:
    bit = 1 << sign

    def modified(s: Group) -> Array:
        value = get(s)
        if operand.absolute:
            value = value & value.dtype.type(bit - 1)
        return value ^ value.dtype.type(bit) if operand.negate else value

    return modified


def _check_indexed(rows: Array, count: int) -> None:
    bad = rows >= count
    if bad.any():
        raise Fault(f"the indexed register is beyond the {count} allocated", int(np.argmax(bad)))
