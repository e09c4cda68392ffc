"""What the work-items of a program do together, in the kernel and on the host.

The models of instructions that exchange lanes follow LLVM's AMDGPU usage guide and the CDNA3 ISA
guide ("Data Share", "DPP"): what a lane that is off would give, a lane that is on does not get.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.random_c.generate import Exchange, Type, Variable, Writer

__all__ = ["exchange"]

Maker = Callable[[Writer, list[Variable], int], Exchange]


def exchange(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """One of them, at random."""
    makers: list[Maker] = [_lds, _lds, _lds_atomics, _global_atomics, _global_atomics]
    makers += [_ballot, _first_lane, _permute, _dpp, _dpp, _swizzle, _mbcnt, _slot_atomics]
    if w.target == "gfx950" and workgroup % 64 == 0:
        makers.append(_lane_swap)
    made = w.rng.choice(makers)(w, variables, workgroup)
    w.exchanges += 1
    return made


def _some(w: Writer, variables: list[Variable], base: str = "") -> Variable:
    found = [v for v in variables if not base or v.type == Type(base)]
    return w.rng.choice(found)


def _each(workgroup: int, body: str) -> str:
    return f"for (u32 lid = 0; lid < {workgroup}; lid++) {{ {body} }}"


def _waves(workgroup: int, body: str) -> str:
    """*body* for each wave: from ``first`` on, ``n`` of its lanes are on."""
    return (
        f"for (u32 first = 0; first < {workgroup}; first += 64) {{"
        f" u32 n = {workgroup} - first < 64 ? {workgroup} - first : 64; {body} }}"
    )


def _lds(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """Each work-item puts a value and takes that of another."""
    source = _some(w, variables)
    target = w.rng.choice([v for v in variables if v.type == source.type])
    name = w.name("lds")
    at = f"(lid * {w.rng.choice((1, 3, 5, 7))} + {w.rng.randrange(64)}) % {workgroup}"
    device = f"{name}[lid] = s.{source.name}; BARRIER s.{target.name} = {name}[{at}]; BARRIER"
    t = source.type.name
    host = f"{t} {name}[{workgroup}]; " + _each(workgroup, f"{name}[lid] = all[lid].{source.name};")
    host += _each(workgroup, f"all[lid].{target.name} = {name}[{at}];")
    return Exchange(device, host, ((t, name, workgroup),))


_OPS = ("add", "sub", "and", "or", "xor", "min", "max")


def _operation(w: Writer, variables: list[Variable]) -> tuple[str, str, str]:
    """A type of atomics, an operation on it whose order does not matter, and the operand's text."""
    kind = w.one_of("u32", "i32", "u64", "i64", "f32", "f64", "u32", "i32", "u64", "i64")
    u32 = _some(w, variables, "u32").name
    if kind.startswith("f"):
        # Sums of few bits are exact in any order.
        op = w.one_of("add", "add", "min", "max")
        return kind, op, f"({kind})((i32)(S.{u32} & 255) - 100)"
    op = w.rng.choice(_OPS)
    other = w.rng.choice([v for v in variables if v.type.base in ("u32", "i32", "u64", "i64")
                          and v.type.count == 1])  # fmt: skip
    value = f"({kind})S.{other.name}"
    if w.rng.random() < 0.5:
        value = f"({kind})(S.{other.name} * ({kind})0x9e3779b97f4a7c15ul)"
    return kind, op, value


def _lds_atomics(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    kind, op, value = _operation(w, variables)
    name, count = w.name("lds"), min(workgroup, w.rng.choice((1, 4, 16)))
    key, target = _some(w, variables, "u32").name, _some(w, variables, "u32").name
    scope = "__MEMORY_SCOPE_WRKGRP"
    unsigned = f"u{Type(kind).bits}"
    call = f"ATOMIC({op}, &{name}[S.{key} % {count}], {value}, {scope});"
    clear = f"if (lid < {count}) {name}[lid] = ({kind})(lid * 77);"
    read = f"{name}[lid % {count}]"
    result = f"(u32)bits_{kind}({read})" if kind.startswith("f") else f"(u32)(({unsigned}){read})"
    if Type(kind).bits == 64:
        result = f"(u32)({result.removeprefix('(u32)')} >> {w.rng.choice((0, 32))})"
    device = f"{clear} BARRIER {call.replace('S.', 's.')} BARRIER s.{target} = {result}; BARRIER"
    host = f"{kind} {name}[{workgroup}]; " + _each(workgroup, clear)
    host += _each(workgroup, call.replace("S.", "all[lid]."))
    host += _each(workgroup, f"all[lid].{target} = {result};")
    return Exchange(device, host, ((kind, name, count),))


def _global_atomics(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """On slots that all work-items of the grid share; what it returns is not used."""
    kind, op, value = _operation(w, variables)
    key = _some(w, variables, "u32").name
    scope = w.one_of("__MEMORY_SCOPE_DEVICE", "__MEMORY_SCOPE_SYSTEM", "__MEMORY_SCOPE_WRKGRP")
    # Different operations on one place do not commute: each exchange has places of its own.
    base = {"f32": 512, "f64": 1024}.get(kind, 0) + 2048 * w.exchanges
    place = f"((GLOBAL {kind} *)(slots + {base}) + S.{key} % {256 // (Type(kind).bits // 8)})"
    call = f"ATOMIC({op}, {place}, {value}, {scope});"
    return Exchange(call.replace("S.", "s."), _each(workgroup, call.replace("S.", "all[lid].")))


def _slot_atomics(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """In LDS, on a slot of the work-item's own, so that what it returns is known."""
    kind = w.one_of("u32", "i32", "u64", "i64", "f32", "f64", "u16", "u8")
    name, target = w.name("lds"), _some(w, variables, "u32").name
    value = f"({kind})S.{_some(w, variables, 'i32').name}"
    scope = "__MEMORY_SCOPE_WRKGRP"
    how = w.one_of("exchange", "swap", "fetch", "fetch")
    if how == "swap" and not kind.startswith("f"):
        call = f"{kind} old = ({kind})(S.{target} & 1 ? 9 : 8);"
        call += f" S.{target} = SWAP_IF(&{name}[lid], old, {value}, {scope}) + (u32)old * 2u;"
    else:
        op = w.one_of(*(("add", "min", "max") if kind.startswith("f") else _OPS))
        got = f"ATOMIC({op}, &{name}[lid], {value}, {scope})"
        if how != "fetch" and not kind.startswith("f"):
            got = f"EXCHANGE(&{name}[lid], {value}, {scope})"
        call = f"{kind} old = {got}; S.{target} += " + (
            f"(u32)bits_{kind}(old);" if kind.startswith("f") else "(u32)old;"
        )
    begin = f"{name}[lid] = ({kind})9;"
    device = f"{begin} {call.replace('S.', 's.')}"
    host = f"{kind} {name}[{workgroup}]; " + _each(
        workgroup, f"{begin} {call.replace('S.', 'all[lid].')}"
    )
    return Exchange(device, host, ((kind, name, workgroup),))


def _ballot(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    source, target = _some(w, variables, "u32").name, _some(w, variables, "i32").name
    test = f"(S.{source} >> {w.rng.randrange(8)} & 1) == 0"
    use = "(i32)(mask >> 32) ^ (i32)mask * 3"
    device = f"u64 mask = __builtin_amdgcn_ballot_w64({test.replace('S.', 's.')});"
    device += f" s.{target} = {use};"
    on = test.replace("S.", "all[first + l].")
    host = _waves(
        workgroup,
        f"u64 mask = 0; for (u32 l = 0; l < n; l++) if ({on}) mask |= 1ul << l;"
        f" for (u32 l = 0; l < n; l++) all[first + l].{target} = {use};",
    )
    return Exchange(device, host)


def _first_lane(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    source, target = _some(w, variables, "i32").name, _some(w, variables, "i32").name
    if w.rng.random() < 0.5:
        device = f"s.{target} = __builtin_amdgcn_readfirstlane(s.{source});"
        lane = "0"
    else:
        lane = str(w.rng.randrange(min(64, workgroup % 64 or 64)))
        device = f"s.{target} = __builtin_amdgcn_readlane(s.{source}, {lane});"
    host = _waves(
        workgroup,
        f"i32 x = all[first + {lane}].{source};"
        f" for (u32 l = 0; l < n; l++) all[first + l].{target} = x;",
    )
    return Exchange(device, host)


def _from_other_lane(
    source: str, target: str, workgroup: int, old: str, lane: str, valid: str
) -> str:
    """Host text: each lane takes that of ``lane`` where ``valid`` and it is on, else ``old``."""
    return _waves(
        workgroup,
        "i32 was[64], x[64]; for (u32 l = 0; l < n; l++) {"
        f" x[l] = all[first + l].{source}; was[l] = all[first + l].{target}; }}"
        " for (i32 l = 0; l < (i32)n; l++) {"
        f" i32 from = {lane}; i32 ok = ({valid}) && from >= 0 && from < (i32)n;"
        f" all[first + l].{target} = ok ? x[from] : {old}; (void)was; }}",
    )


def _permute(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """Lanes fetch from lanes that they name; a lane that is off gives 0."""
    source, target = _some(w, variables, "i32").name, _some(w, variables, "i32").name
    lane = f"(l * {w.rng.choice((1, 3, 5))} + {w.rng.randrange(64)}) & 63"
    device = f"i32 l = (i32)(lid & 63); s.{target} ="
    device += f" __builtin_amdgcn_ds_bpermute(({lane}) * 4, s.{source});"
    return Exchange(device, _from_other_lane(source, target, workgroup, "0", lane, "1"))


def _dpp(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    source, target = _some(w, variables, "i32").name, _some(w, variables, "i32").name
    n = w.rng.randint(1, 15)
    row = "(l & ~15)"
    quad = [w.rng.randrange(4) for _ in range(4)]
    code = sum(q << 2 * at for at, q in enumerate(quad))
    picks = " : ".join(f"(l & 3) == {at} ? {q}" for at, q in enumerate(quad)) + " : 0"
    control, lane, valid = w.rng.choice(
        (
            (code, f"(l & ~3) + ({picks})", "1"),
            (0x100 | n, f"l + {n}", f"(l & 15) + {n} < 16"),
            (0x110 | n, f"l - {n}", f"(l & 15) >= {n}"),
            (0x120 | n, f"{row} | ((l - {n}) & 15)", "1"),
            (0x130, "l + 1", "1"),
            (0x134, "(l + 1) & 63", "1"),
            (0x138, "l - 1", "1"),
            (0x13C, "(l - 1) & 63", "1"),
            (0x140, "l ^ 15", "1"),
            (0x141, "l ^ 7", "1"),
            (0x142, f"{row} - 1", "l >= 16"),
            (0x143, "31", "l >= 32"),
            (0x150 | n, f"{row} | {n}", "1"),
        )
    )
    rows, banks = w.rng.choice((15, 15, w.rng.randrange(16))), w.rng.choice((15, 15, 5))
    bounded = w.rng.random() < 0.5
    device = f"s.{target} = __builtin_amdgcn_update_dpp(s.{target}, s.{source}, {control:#x},"
    device += f" {rows}, {banks}, {str(bounded).lower()});"
    device = device.replace("false", "0").replace("true", "1")
    written = f"({rows} >> (l >> 4) & 1 && {banks} >> (l >> 2 & 3) & 1)"
    old = f"{written} ? 0 : was[l]" if bounded else "was[l]"
    return Exchange(
        device,
        _from_other_lane(source, target, workgroup, f"({old})", lane, f"{written} && ({valid})"),
    )


def _swizzle(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    source, target = _some(w, variables, "i32").name, _some(w, variables, "i32").name
    keep, put, turn = w.rng.randrange(32), w.rng.randrange(32), w.rng.randrange(32)
    lane = f"(l & 32) | ((((l & 31) & {keep}) | {put}) ^ {turn})"
    offset = turn << 10 | put << 5 | keep
    if w.rng.random() < 0.3:
        quad = [w.rng.randrange(4) for _ in range(4)]
        offset = 0x8000 | sum(q << 2 * at for at, q in enumerate(quad))
        picks = " : ".join(f"(l & 3) == {at} ? {q}" for at, q in enumerate(quad)) + " : 0"
        lane = f"(l & ~3) + ({picks})"
    device = f"s.{target} = __builtin_amdgcn_ds_swizzle(s.{source}, {offset:#x});"
    return Exchange(device, _from_other_lane(source, target, workgroup, "0", lane, "1"))


def _mbcnt(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    source, target = _some(w, variables, "u32").name, _some(w, variables, "u32").name
    mask = w.rng.getrandbits(64)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    device = f"s.{target} = __builtin_amdgcn_mbcnt_hi({high:#x}u,"
    device += f" __builtin_amdgcn_mbcnt_lo({low:#x}u, s.{source}));"
    below = f"{mask:#x}ul & ((1ul << (lid & 63)) - 1)"
    host = _each(
        workgroup,
        f"all[lid].{target} = all[lid].{source} + (u32)__builtin_popcountll({below});",
    )
    return Exchange(device, host)


def _lane_swap(w: Writer, variables: list[Variable], workgroup: int) -> Exchange:
    """``v_permlane16_swap`` and ``v_permlane32_swap``: odd rows against even ones."""
    a, b = _some(w, variables, "u32").name, _some(w, variables, "i32").name
    width = w.rng.choice((16, 32))
    device = (
        f"typedef u32 two __attribute__((ext_vector_type(2))); two r = (two)"
        f"__builtin_amdgcn_permlane{width}_swap(s.{a}, (u32)s.{b}, 0, 0);"
        f" s.{a} = r.x; s.{b} = (i32)r.y;"
    )
    host = _waves(
        workgroup,
        f"for (u32 l = 0; l < 64; l++) if (l & {width}) {{"
        f" u32 x = all[first + l].{a}; all[first + l].{a} = (u32)all[first + l - {width}].{b};"
        f" all[first + l - {width}].{b} = (i32)x; }}",
    )
    return Exchange(device, host)
