"""Seeded faults of the compiler, each a small slip that somebody could make, as text to replace in one file.

`level`: where the harness should see it, as the beginning of a finding's level, or of one of several, since it depends
on the kernel which is first. Faults of an analysis show in what the lowering does with it, those of what threads do
together when threads run the IR.
"""

from __future__ import annotations

from dataclasses import dataclass

LOWERED = "lowering or later"
DISTRIBUTED = "distributed"
#: What threads do together goes wrong in either, whichever looks first at what a kernel does.
THREADS = (DISTRIBUTED, LOWERED)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: in `file` of the compiler `old`, which stands there once, becomes `new`.

    within: how many kernels, from seed 0 on, the harness may take to see it.
    """

    name: str
    file: str
    old: str
    new: str
    level: str | tuple[str, ...]
    within: int = 250


_ROWS: tuple[Mutant, ...] = (
    # Passes: each shows bit for bit after the pass.
    Mutant("fold: the larger for the smaller", "passes/fold.py",
           '"min_s": lambda w, a, b: min(a, b)', '"min_s": lambda w, a, b: max(a, b)', "pass fold"),
    Mutant("fold: 0 - x is x", "passes/fold.py",
           "if Trait.COMMUTATIVE in operation.definition.traits:", "if True:", "pass fold"),
    Mutant("fold: x % 1 is x", "passes/fold.py",
           'UNITS = frozenset(("mul_i", ', 'UNITS = frozenset(("rem_s", "mul_i", ', "pass fold", within=500),
    Mutant("fold: unsigned extension by the sign", "passes/fold.py",
           '"ext_u": lambda w, a: a & ((1 << w) - 1)', '"ext_u": lambda w, a: a', "pass fold"),
    Mutant("fold: the other side of an if", "passes/fold.py",
           "operation.regions[0 if condition else 1]", "operation.regions[1 if condition else 0]", "pass fold"),
    Mutant("inline: arguments the wrong way round", "passes/inline.py",
           "zip(callee.arguments, call.operands, strict=True)",
           "zip(callee.arguments, reversed(call.operands), strict=True)", "pass inline"),
    Mutant("cse: a - b is b - a", "passes/cse.py",
           "if Trait.COMMUTATIVE in operation.definition.traits:", "if True:", "pass cse"),
    Mutant("cse: attributes do not matter", "passes/cse.py",
           "attributes = repr(operation.attributes) if", "attributes = str(len(operation.attributes)) if", "pass cse"),
    Mutant("cse: values leave their region", "passes/cse.py",
           "known, merged = dict(outer), 0", "known, merged = outer, 0", "pass cse"),
    Mutant("licm: loads leave loops", "passes/licm.py",
           "if not operation.definition.is_pure or operation.regions:",
           'if not (operation.definition.is_pure or operation.name == "load") or operation.regions:', "pass licm"),
    Mutant("licm: what a loop carries is constant", "passes/licm.py",
           "values = set(block.arguments)", "values = set(block.arguments[:1])", "pass licm"),
    Mutant("dce: atomics of unused results go", "passes/dce.py",
           'if operation.name == "load":', 'if operation.name.startswith("atomic"):\n        return True\n'
           '    if operation.name == "load":', "pass dce"),
    Mutant("contract: c - a * b is a * b - c", "passes/contract.py",
           "if constant_of(b) is not None else (_negated(builder, a), b)",
           "if constant_of(b) is not None else (a, b)", "pass contract", within=400),
    Mutant("layouts: an if yields the wrong value", "passes/layouts.py",
           "self.operand(region.terminator, value.index, layout)", "self.operand(region.terminator, 0, layout)",
           "pass assign_layouts"),
    # The passes whose work shows only when threads run.
    Mutant("barriers: writes do not wait for reads", "passes/barriers.py",
           "(pending.reads if writes else frozenset())", "frozenset()", THREADS),
    Mutant("barriers: pointers are their thread's own", "passes/barriers.py",
           "return distinct and slots(pointer.type.layout).replica_mask == 0", "return True", LOWERED, within=700),
    Mutant("barriers: none", "passes/barriers.py", 'builder.create(OPS["barrier"])', "pass", THREADS),
    # Analyses: what the compiler believes of addresses and masks.
    Mutant("axis: a - b is as contiguous as b", "analysis/axis_rules.py",
           "from_b = 1 if subtract else min(lengths(axis), a.constancy[axis])",
           "from_b = min(lengths(axis), a.constancy[axis])", LOWERED),
    Mutant("axis: products stay contiguous", "analysis/axis_rules.py",
           "keep = a if b.value == 1 else b if a.value == 1 else None",
           "keep = a if b.value else b if a.value else None", LOWERED),
    Mutant("axis: any mask is constant along a vector", "analysis/axis_rules.py",
           "run = min(running.aligned(axis), still.constancy[axis], still.at(axis, 1))",
           "run = min(running.aligned(axis), still.constancy[axis])", LOWERED),
    Mutant("axis: remainders stay contiguous", "analysis/axis_rules.py",
           "contiguity = [min(a.aligned(axis), b.value) for axis in range(len(base.contiguity))]",
           "contiguity = [a.aligned(axis) for axis in range(len(base.contiguity))]", LOWERED),
    Mutant("axis: a program's number is a multiple of 16", "analysis/axis_rules.py",
           '''@rule("program_id", "num_programs")
def _scalar(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return uniform((), 1)''', '''@rule("program_id", "num_programs")
def _scalar(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return uniform((), 16)''', LOWERED),
    # Lowering.
    Mutant("lower: wide shifts by nothing", "lower/arith.py",
           "i{width} {width - 1}\")", "i{width} 0\")", LOWERED),
    Mutant("lower: x // 0 is 0", "lower/arith.py",
           'instead = "-1" if name.startswith("div") else a', 'instead = "0" if name.startswith("div") else a',
           LOWERED),
    Mutant("lower: stores without their mask", "lower/memory.py",
           'predicate = both(to, once, "" if mask is None else to.values[mask][group[0]])',
           "predicate = once", LOWERED),
    Mutant("lower: atomics once a replica", "lower/atomics.py",
           "once = to.chosen(to.slots(pointer))", 'once = ""', LOWERED),
    Mutant("lower: the least for the largest", "lower/atomics.py",
           '"max_s": "max.s{w}"', '"max_s": "min.s{w}"', LOWERED),
    Mutant("lower: loops end a round early", "lower/control.py",
           'full = to.text.value(f"udiv {type_} {less}, {safe}")',
           'full = to.text.value(f"udiv {type_} {distance}, {safe}")', LOWERED),
    Mutant("lower: broadcast along the wrong axis", "lower/shape.py",
           "weights = [0 if extent == 1 else w for", "weights = [w for", LOWERED),
    Mutant("lower: exp by a poorer constant", "lower/math.py",
           "number(LOG2_E, 'f32')", "number(LOG2_E * (1 + 1e-5), 'f32')", LOWERED),
    Mutant("lower: minima hand NaN on", "lower/floats.py",
           '"minnum": "min"', '"minnum": "min.NaN"', LOWERED, within=350),
    # Reductions and products.
    Mutant("reductions: of equal ones the last", "passes/reductions.py",
           'inside.value(OPS["cmp_lt_s"], [b[1], a[1]])', 'inside.value(OPS["cmp_gt_s"], [b[1], a[1]])',
           "pass expand_reductions"),
    Mutant("trees: another order than the threads'", "passes/trees.py",
           "order += sorted(bits)", "order += sorted(bits, reverse=True)", ("pass record_trees", *THREADS)),
    Mutant("reduce: along the first axis", "lower/reduce.py",
           "if bit is not None and bit[0] == axis)", "if bit is not None and bit[0] == 0)", LOWERED),
    Mutant("reduce: which lane is first does not count", "lower/reduce.py",
           'if not self.operation.attributes["ordered"]:', "if True:", LOWERED),
    Mutant("reduce: warps do not wait for each other", "lower/reduce.py",
           "        to.barrier()\n        return {place", "        return {place", LOWERED),
    Mutant("reduce: a warp's place is its neighbour's", "lower/reduce.py",
           'placed = self.to.text.at_entry(f"shl i32 {bit}, {number}") if number else bit', "placed = bit", LOWERED),
    Mutant("dot: rows of a fragment the wrong way round", "lower/dot.py",
           "outer = [0, 8] if self.k_last", "outer = [8, 0] if self.k_last", LOWERED),
    Mutant("dot: the last step along K alone", "lower/dot.py",
           "for a, b in pairs:", "for a, b in pairs[-1:]:", LOWERED),
    Mutant("convert: threads do not wait for what they read", "lower/convert.py",
           "[registers[r] for r in sources])\n        to.barrier()", "[registers[r] for r in sources])", LOWERED),
    Mutant("barriers: what is read may be written", "passes/barriers.py",
           "others = self.shared_writes | self.shared_reads if writes else self.shared_writes",
           "others = self.shared_writes", DISTRIBUTED),
    Mutant("barriers: threads wait for their own copies only", "passes/barriers.py",
           "Pending(reads=frozenset([None] * waits), shared_writes=parts)",
           "Pending(shared_writes=frozenset() if waits else parts)", THREADS),
    # Pipelining.
    Mutant("pipeline: one copy too many stays on its way", "passes/rounds.py",
           '{"pending": self.distance - 1}', '{"pending": self.distance}', DISTRIBUTED),
    Mutant("pipeline: one stage too few", "passes/rounds.py",
           'wraps = self.make("cmp_eq_i", after, self.number(self.plan.stages))',
           'wraps = self.make("cmp_eq_i", after, self.number(self.plan.stages - 1))',
           ("pass pipeline", *THREADS)),
    Mutant("pipeline: what masked loads give instead is lost", "passes/rounds.py",
           "return other is None or is_zero(other)", "return True", "pass pipeline"),
    Mutant("pipeline: rounds that there are not", "passes/rounds.py",
           'enabled = self.make("and", some, self.beyond(length, number)) if number else some', "enabled = some",
           ("pass pipeline", *THREADS)),
    Mutant("pipeline: addresses stay behind", "passes/rounds.py",
           "return copied, [values.get(value, value) for value in yielded]", "return copied, list(states)",
           "pass pipeline"),
)  # fmt: skip

#: The faults by name.
MUTANTS: dict[str, Mutant] = {row.name: row for row in _ROWS}
