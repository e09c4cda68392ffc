"""One object through the whole trip, and many of them through a pool of processes.

``.co`` → listing → object → link → comparison. The object that the listing's own check assembled is
the one that gets linked, one ``llvm-objdump`` run serves several objects of one target, and objects
with the same bytes are taken once.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from coasm.codeobject import CodeObject, load
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm import Llvm
from coasm.opening import open_code_object, read_given

__all__ = ["CHECKS", "SUFFIXES", "RoundTrip", "collect", "cores", "roundtrip", "roundtrip_many"]

CHECKS = ("header", "descriptors", "text", "metadata")
SUFFIXES = (".co", ".hsaco")

#: Objects that one disassembler run takes.
_BATCH = 8


@dataclass(frozen=True)
class RoundTrip:
    """What became of one object.

    ``raw`` counts instructions that became data, ``pinned`` those whose original encoding is kept
    beside LLVM's. ``checks`` are the verdicts of :mod:`coasm.compare`; ``loaded_identical`` is
    judged on the fresh link of the listing alone, ``file_identical`` with ``--like``. ``status``
    is ``ok``, ``different`` or ``error``.
    """

    path: str
    target: str | None = None
    code_object_version: int | None = None
    kernels: int | None = None
    instructions: int | None = None
    raw: int | None = None
    pinned: int | None = None
    checks: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(CHECKS))
    loaded_identical: bool | None = None
    file_identical: bool | None = None
    status: str = "error"
    error: str | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def roundtrip(
    co: CodeObject, llvm: Llvm, *, path: str | None = None, dump: Any = None
) -> RoundTrip:
    """Take *co* through the whole trip. *dump* is its disassembly, where it has already run.

    Raises:
        CoasmError: the object cannot be listed, assembled or compared.
    """
    from coasm.asm.build import link_object
    from coasm.asm.exact import exact_listing
    from coasm.asm.like import like
    from coasm.asm.linking import declared_linking
    from coasm.compare import verify

    started = time.perf_counter()
    if co.code_object_version == 3:
        raise UnsupportedError(f"{co.name}: code object v3: LLVM no longer writes it")
    kernels = co.kernels
    listed = exact_listing(co, llvm, dump=dump)
    fresh = link_object(listed.object, llvm, declared_linking(listed.text) or ())
    rebuilt = load(fresh, name=co.name)
    rebuilt.share_metadata(co)
    report = verify(co, rebuilt, llvm)
    checks: dict[str, str | None] = dict(report.verdicts)
    kept = like(fresh, co)
    different = [name for name, verdict in checks.items() if verdict == "different"]
    different += ["data"] if report.data else []
    different += [] if report.loaded_identical else ["loaded image"]
    return RoundTrip(
        path=path or co.name,
        target=str(co.target),
        code_object_version=co.code_object_version,
        kernels=len(kernels),
        instructions=listed.instructions,
        raw=listed.raw,
        pinned=listed.pinned,
        checks=checks,
        loaded_identical=report.loaded_identical,
        file_identical=kept.data == co.data,
        status="different" if different else "ok",
        error=f"different: {', '.join(different)}" if different else None,
        seconds=round(time.perf_counter() - started, 4),
    )


def collect(paths: Sequence[str]) -> list[str]:
    """The files that *paths* stand for: folders for the objects in them, and so do libraries.

    Raises:
        CoasmError: a path that is not there, or a folder without a code object.
    """
    from coasm.bundle.select import carries, specs

    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path) and ":" not in path:
                raise CoasmError(f"{path}: No such file or directory")
            # A file, or FILE:TARGET.
            found += specs(path) if os.path.isfile(path) and carries(path) else [path]
            continue
        inside = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(SUFFIXES)
        )
        if not inside:
            raise CoasmError(f"{path}: no {' or '.join(SUFFIXES)} file in this folder")
        found += inside
    return list(dict.fromkeys(found))


def roundtrip_many(
    paths: Sequence[str], directory: str | None = None, *, jobs: int | None = None
) -> Iterator[RoundTrip]:
    """Round trips of many files, as they are done; a failure is a result with an ``error``.

    *directory* is where the LLVM tools are (see :func:`coasm.llvm.find_llvm`), *jobs* the number of
    processes (default: one a core).
    """
    from coasm.llvm import find_llvm

    find_llvm(directory)
    batches, failed, copies = _batches(paths, directory)
    yield from failed
    jobs = max(1, min(jobs or cores(), len(batches)))
    if jobs == 1:
        for batch in batches:
            for result in _run_batch(batch, directory):
                yield from _with_copies(result, copies)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _collect_seldom) as pool:
        futures = [pool.submit(_run_batch, batch, directory) for batch in batches]
        try:
            for future in as_completed(futures):
                for result in future.result():
                    yield from _with_copies(result, copies)
        finally:
            for future in futures:
                future.cancel()


def _collect_seldom() -> None:
    """Let garbage be looked for seldom: a trip makes many objects and little cyclic garbage.

    For processes that do nothing else; the default costs them a tenth of their time.
    """
    gc.set_threshold(200_000)


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _with_copies(result: RoundTrip, copies: dict[str, list[str]]) -> Iterator[RoundTrip]:
    from dataclasses import replace

    yield result
    for path in copies.get(result.path, ()):
        yield replace(result, path=path, seconds=0.0)


def _batches(
    paths: Sequence[str], directory: str | None
) -> tuple[list[list[str]], list[RoundTrip], dict[str, list[str]]]:
    """Batches of one target each, the results of unreadable files, and path → its copies."""
    import hashlib

    groups: dict[bytes, list[tuple[int, str]]] = {}
    failed: list[RoundTrip] = []
    first: dict[bytes, str] = {}
    copies: dict[str, list[str]] = {}
    for path in paths:
        try:
            given = read_given(path)  # parsed where it is taken through the trip
            data = open_code_object(path, llvm=directory).data if given.listing else given.data
        except CoasmError as error:
            failed.append(RoundTrip(path=path, error=str(error).removeprefix(f"{path}: ")))
            continue
        digest = hashlib.sha256(data).digest()
        if digest in first:
            copies.setdefault(first[digest], []).append(path)
            continue
        first[digest] = path
        # e_flags and ABI version: what the disassembler takes its processor from.
        groups.setdefault(data[48:52] + data[7:9], []).append((len(data), path))
    batches = []
    for group in groups.values():
        group.sort(reverse=True)
        members = [path for _, path in group]
        batches += [members[i : i + _BATCH] for i in range(0, len(members), _BATCH)]
    return batches, failed, copies


def _run_batch(paths: Sequence[str], directory: str | None) -> list[RoundTrip]:
    from coasm.llvm import find_llvm

    llvm = find_llvm(directory)
    loaded: list[tuple[str, CodeObject | CoasmError]] = []
    for path in paths:
        try:
            loaded.append((path, open_code_object(path, llvm=directory)))
        except CoasmError as error:
            loaded.append((path, error))
    dumps = _dump_together([co for _, co in loaded if isinstance(co, CodeObject)], llvm)
    results = []
    for path, co in loaded:
        started = time.perf_counter()
        try:
            if isinstance(co, CoasmError):
                raise co
            results.append(roundtrip(co, llvm, path=path, dump=dumps.get(id(co))))
        except CoasmError as error:
            results.append(
                RoundTrip(
                    path=path,
                    target=str(co.target) if isinstance(co, CodeObject) else None,
                    code_object_version=(
                        co.code_object_version if isinstance(co, CodeObject) else None
                    ),
                    error=str(error).removeprefix(f"{path}: "),
                    seconds=round(time.perf_counter() - started, 4),
                )
            )
    return results


def _dump_together(objects: list[CodeObject], llvm: Llvm) -> dict[int, Any]:
    """The disassembly of each object by one run; nothing where that run failed.

    ``llvm-objdump`` takes the processor from its first file for all of them, so the objects of a
    batch have the same e_flags.
    """
    from coasm.llvm.run import Dump, first_features, objdump

    if len(objects) < 2:
        return {}
    with tempfile.TemporaryDirectory(prefix="coasm-") as folder:
        names = []
        for number, co in enumerate(objects):
            names.append(os.path.join(folder, f"{number}.co"))
            with open(names[-1], "wb") as file:
                file.write(co.data)
        dump = objdump(llvm, names, objects[0].target, ",".join(first_features(objects[0].target)))
    if not dump.complete:
        return {}
    starts = [0]
    for name in names:
        starts.append(dump.text.find(f"\n{name}:\tfile format ", starts[-1]))
    if -1 in starts:
        return {}
    del starts[0]
    return {
        id(co): Dump(dump.text[start:end], True)
        for co, start, end in zip(objects, starts, [*starts[1:], len(dump.text)], strict=True)
    }
