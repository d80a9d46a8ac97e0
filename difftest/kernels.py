"""Kernels at every level: after each pass bit for bit, and compiled by the contracts of the operations.

The reference is the interpreter on the source's IR. A pass must leave IR that verifies, prints and gives the same bits,
unless it may change how results round: then, as for compiled code, each float must be one of the results that the
contracts of the source's operations allow, and all else must be the same. Where every operation of the IR in the end
has one result (fusions and bracketings stand in it), compiled code must give its bits, any NaN for a NaN. That IR must
also give the same bits in threads and registers. It and the source's IR must come back from their text, which is slow.
"""

from __future__ import annotations

import io
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tilewright.compiler import ROUNDING_PASSES, Compiled, LoweringError, compile_module
from tilewright.interpreter import (
    Enclosure,
    Options,
    Undecided,
    enclose,
    execute,
    execute_distributed,
    load_ptx,
    run_ptx,
)
from tilewright.lang import (
    Exact,
    FloatType,
    Module,
    Operation,
    ScalarType,
    Tree,
    Unordered,
    element_of,
    parse_module,
    print_module,
    structurally_equal,
    verify,
)

from .launches import Bits, Launch, Results, results_of
from .levels import RoundTripError
from .storage import dtype_of

#: The targets of compiled code, by rotation.
TARGETS = ("sm_80", "sm_90a", "sm_120a")
#: What the compiler may say of a kernel that it does not compile yet.
REFUSALS = (LoweringError,)
_MOST_SHOWN = 4
_FUEL = 3_000_000
#: The name under which results hold what was printed.
PRINTED = "printed"
#: Operations that are in every kernel, and so tell no two findings apart.
COMMON = frozenset(
    ("constant", "splat", "broadcast", "expand_dims", "arange", "program_id", "load", "store", "add_ptr", "return")
)


class Disagreement(Exception):
    """Two levels give different results: the level that is wrong, and how."""

    def __init__(self, level: str, problems: list[str]) -> None:
        super().__init__(level, *problems)
        self.level = level
        self.problems = problems


@dataclass(slots=True)
class Examination:
    """What came of a kernel.

    level: where it went wrong, "" for nowhere: `frontend`, `ttir`, `text`, `enclosures`, the name of a pass,
    `distributed`, `lowering or later (sm_80)`, or a device. refused: what the compiler does not compile yet. undecided:
    why nothing is known of what compiled code gives. widest: how far apart, in units in the last place, allowed results
    lie.
    """

    level: str = ""
    problems: tuple[str, ...] = ()
    refused: str = ""
    undecided: str = ""
    widest: float = 0.0
    signature: tuple[str, ...] = ()
    operations: Mapping[str, int] = field(default_factory=dict[str, int])


def examine_launch(launch: Launch, target: str, device: str = "") -> Examination:
    """Run a kernel at every level, compiled for a target; on a device of the runtime (`cuda`) too, if one is named."""
    found = Examination()
    try:
        _levels(launch, target, device, found)
    except Disagreement as difference:
        found.level, found.problems = difference.level, tuple(difference.problems)
    except REFUSALS as refusal:
        found.refused = f"{type(refusal).__name__}: {refusal.text.splitlines()[0]}"
    return found


def _levels(launch: Launch, target: str, device: str, found: Examination) -> None:
    with trouble("frontend"):
        module = launch.module
        verify(module)
    counts: dict[str, int] = {}
    for operation in module.walk():
        counts[operation.name] = counts.get(operation.name, 0) + 1
    found.operations, found.signature = counts, tuple(sorted(counts.keys() - COMMON))
    with trouble("ttir"):
        reference = run_module(launch, module)
    judge = _judge(launch, reference, found)
    with trouble("text"):
        check_text(module)
    walk = Walk(launch, judge, reference)
    made = _compile(launch, target, walk)
    with trouble("distributed"):
        spread = run_module(launch, parse_module(str(made.stages["ttgir"])), execute_distributed)
    if problems := unlike(launch, spread, walk.last):
        raise Disagreement("distributed", problems[:_MOST_SHOWN])
    level = f"lowering or later ({target})"
    for arithmetic in ("exact", "hardware") if "mma.sync" in str(made.stages["ptx"]) else ("exact",):
        with trouble(level):
            emulated = run_emulated(launch, made, arithmetic)
        walk.check(emulated, level)
    if device:
        with trouble(device):
            results = launch.run_on(device)
        walk.check(results, device)


class trouble:
    """Whatever is raised inside, other than a verdict or a refusal, is a disagreement at a level."""

    def __init__(self, level: str) -> None:
        self.level = level

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (Disagreement, *REFUSALS)):
            raise Disagreement(self.level, [f"{type(error).__name__}: {error}", where(error)]) from error


def where(error: BaseException) -> str:
    """The innermost line of a traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {Path(last.filename).name}:{last.lineno} in {last.name}"


def run_module(launch: Launch, module: Module, run: Callable[..., None] = execute) -> Results:
    """What a module leaves behind in the interpreter, or in another executor."""
    values, printed = launch.values(), io.StringIO()
    run(module, launch.buffers(values), launch.grid, Options(fuel=_FUEL, stdout=printed))
    return results_of(values) | lines_of(printed)


def lines_of(printed: io.StringIO) -> Results:
    """What was printed, in an order that no order of programs and threads changes."""
    lines = sorted(printed.getvalue().splitlines(keepends=True))
    return {PRINTED: np.frombuffer("".join(lines).encode(), np.uint8)}


def run_emulated(launch: Launch, made: Compiled, mma: Literal["exact", "hardware"] = "exact") -> Results:
    """What compiled code leaves behind in the emulator, by the given arithmetic of matrix instructions."""
    values, threads, printed = launch.values(), (32 * launch.num_warps, 1, 1), io.StringIO()
    module, name = load_ptx(str(made.stages["ptx"])), made.metadata.name
    given, options = launch.packed(values), Options(fuel=_FUEL, mma=mma)
    run_ptx(module, name, launch.grid, threads, given, options, made.metadata.shared, stdout=printed)
    return results_of(values) | lines_of(printed)


def check_text(module: Module) -> None:
    """Raise RoundTripError unless a module comes back from its text."""
    text = print_module(module)
    again = parse_module(text)
    if not structurally_equal(module, again) or print_module(again) != text:
        raise RoundTripError(f"this module does not come back from its text:\n{text}")


def check_stage(text: str) -> None:
    """Raise RoundTripError unless the text of a stage stays what it is when it is parsed and printed."""
    if print_module(parse_module(text)) != text:
        raise RoundTripError(f"this text does not stay what it is:\n{text}")


# --- verdicts ---


@dataclass(slots=True)
class Judge:
    """What results may be: those of the reference, and where floats are enclosed, what the contracts allow."""

    launch: Launch
    reference: Results
    enclosures: Mapping[str, Enclosure] | None

    def check(self, results: Results, level: str) -> None:
        """Raise Disagreement where a result is not allowed. Nothing is known where nothing is enclosed."""
        if self.enclosures is not None and (problems := list(self.problems(results))):
            raise Disagreement(level, problems[:_MOST_SHOWN])

    def problems(self, results: Results) -> Iterator[str]:
        assert self.enclosures is not None
        for name, got in results.items():
            enclosure = self.enclosures.get(name)
            if enclosure is None:
                yield from differences(name, got, self.reference[name], self.launch)
                continue
            stored = got.view(dtype_of(self.launch.formats()[name]))
            for place in np.flatnonzero(enclosure.outside(stored))[:_MOST_SHOWN].tolist():
                yield f"{name}[{place}]: got {stored[place]!r}, allowed {enclosure.shown(place)}"


def _judge(launch: Launch, reference: Results, found: Examination) -> Judge:
    """Enclose what the kernel may leave behind, and see that the reference is in there."""
    values = launch.values()
    try:
        with trouble("enclosures"):
            enclosures = _enclosed(launch, values)
    except _Open as reason:
        found.undecided = str(reason)
        return Judge(launch, reference, None)
    judge = Judge(launch, reference, enclosures)
    if problems := [*unlike(launch, results_of(values), reference), *judge.problems(reference)]:
        raise Disagreement("enclosures", problems[:_MOST_SHOWN])
    widths = [width[np.isfinite(width)].max(initial=0.0) for each in enclosures.values() if len(width := each.width())]
    found.widest = float(max(widths, default=0.0))
    return judge


class _Open(Disagreement):
    """What a kernel does depends on which of the allowed results a float has."""

    def __str__(self) -> str:
        return self.level


def _enclosed(launch: Launch, values: dict[str, object]) -> dict[str, Enclosure]:
    try:
        return enclose(launch.module, launch.buffers(values), launch.grid, Options(fuel=_FUEL, stdout=io.StringIO()))
    except Undecided as reason:
        raise _Open(str(reason), []) from reason


def unlike(launch: Launch, got: Results, want: Results) -> list[str]:
    """The bits in which results differ, a few of them."""
    return [line for name in got for line in differences(name, got[name], want[name], launch)]


def differences(name: str, got: np.ndarray, want: np.ndarray, launch: Launch) -> list[str]:
    """The elements of one array in which results differ, a few of them."""
    if np.array_equal(got, want):
        return []
    if name == PRINTED:
        lines = [set(bytes(each).decode().splitlines()) for each in (got, want)]
        return [f"printed: {line}" for line in sorted(lines[0] - lines[1])] or ["printed: less than expected"]
    element = launch.formats()[name]
    a, b = (bits.view(dtype_of(element)) for bits in (got, want))
    size = a.dtype.itemsize
    places = np.flatnonzero((got != want).reshape(-1, size).any(1))
    codes = [bits.view(f"u{size}") for bits in (got, want)]
    kind = "f" if isinstance(element, FloatType) else "i"
    return [
        f"{name}[{at}] ({kind}{8 * size}): got {a[at]} (0x{codes[0][at]:x}), expected {b[at]} (0x{codes[1][at]:x})"
        for at in places[:_MOST_SHOWN].tolist()
    ]


# --- the passes ---


@dataclass(slots=True)
class Walk:
    """Follows a compilation: after each pass that changes it the module must run, and agree with what it was before."""

    launch: Launch
    judge: Judge
    last: Results
    text: str = ""
    runs: Counter[str] = field(default_factory=Counter[str])
    #: Whether every operation of the module has one result by now.
    is_settled: bool = False

    def __call__(self, name: str, module: Module) -> None:
        self.runs[name] += 1
        level = f"pass {name}" if self.runs[name] == 1 else f"pass {name} #{self.runs[name]}"
        with trouble(level):
            verify(module)
            text = print_module(module)
            if text == self.text:
                return
            self.text = text
            self.is_settled = all(map(has_one_result, module.walk()))
            results = run_module(self.launch, module)
        if name in ROUNDING_PASSES:
            self.judge.check(results, level)
        elif problems := unlike(self.launch, results, self.last):
            raise Disagreement(level, problems[:_MOST_SHOWN])
        self.last = results

    def check(self, results: Results, level: str) -> None:
        """Raise Disagreement where compiled code gives what it may not."""
        self.judge.check(results, level)
        formats = self.launch.formats()
        if self.is_settled:
            same = {name: like(got, self.last[name], formats.get(name)) for name, got in results.items()}
            if problems := unlike(self.launch, same, self.last):
                raise Disagreement(level, ["other bits than the IR in the end", *problems[:_MOST_SHOWN]])


def has_one_result(operation: Operation) -> bool:
    """Whether nothing is left open of what an operation of the IR in the end gives, but for the bits of a NaN."""
    contracts = operation.definition.contracts
    element = element_of(operation.results[0].type) if operation.results else None
    if contracts is None or not isinstance(element, FloatType):
        return True
    return not contracts.ftz and isinstance(contracts.of(element), (Exact, Tree, Unordered))


def like(got: Bits, want: Bits, element: ScalarType | None) -> Bits:
    """The bits of an array, with those wanted where both are NaN."""
    if not isinstance(element, FloatType):
        return got
    with np.errstate(invalid="ignore", over="ignore"):  # signaling NaNs
        nan = [np.isnan(bits.view(dtype_of(element)).astype(np.float32)) for bits in (got, want)]
    size = len(got) // max(1, len(nan[0]))
    return np.where(np.repeat(nan[0] & nan[1], size), want, got)


def compiler_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch as the compiler calls them."""
    return {{"enable_fp_fusion": "fp_fusion"}.get(name, name): value for name, value in options.items()}


def _compile(launch: Launch, target: str, walk: Walk) -> Compiled:
    """The kernel compiled to PTX."""
    try:
        made = compile_module(launch.module, target, **compiler_options(launch.options), until="ptx", hook=walk)
    except (Disagreement, *REFUSALS):
        raise
    except Exception as error:
        raise Disagreement(stage_of(error, target), [f"{type(error).__name__}: {error}", where(error)]) from error
    with trouble("text"):
        for stage in ("ttir", "ttgir"):
            check_stage(str(made.stages[stage]))
    return made


def stage_of(error: BaseException, target: str) -> str:
    """Where the compiler was when it failed: in which pass, or behind them all."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.parent.name == "passes":
            return f"pass {path.stem}"
    return f"lowering or later ({target})"
