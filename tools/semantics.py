"""Keep the mechanical lines of docs/semantics.md equal to the op tables.

Each entry of the page has a fenced block that says what the row says: operands, types, attributes, regions, effects
and accuracy contract. `python -m tools.semantics` lists the entries whose block is not what the tables say, and
`--write` puts the right block there. The prose around the blocks is nobody's but the author's.
"""

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewright.lang import (
    FLOATS,
    FP8,
    INTS,
    NUMBERS,
    OPS,
    POINTERS,
    AbsRel,
    Attribute,
    Contract,
    Contracts,
    Effect,
    Exact,
    Mma,
    OpDef,
    ScalarType,
    Sum,
    Tree,
    Ulp,
    Unordered,
)

PAGE = Path(__file__).parent.parent / "docs" / "semantics.md"
ENTRY = re.compile(r"^### `(?P<name>[^`]+)`\n\n```text\n(?P<block>.*?)```\n", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^### `([^`]+)`$", re.MULTILINE)

#: Sets of types with a name, which the page's introduction explains.
NAMED: dict[frozenset[ScalarType], str] = {
    frozenset(INTS): "ints",
    frozenset(FLOATS): "floats",
    frozenset(FP8): "fp8",
    frozenset(NUMBERS): "numbers",
    frozenset(POINTERS): "pointers",
    frozenset((*NUMBERS, *POINTERS)): "numbers, pointers",
}
EFFECTS = {
    Effect.READ: "reads memory",
    Effect.WRITE: "writes memory",
    Effect.READ_WRITE: "reads and writes memory",
    Effect.OTHER: "kept, and in order",
}


def types_text(types: Iterable[ScalarType]) -> str:
    """A set of types, by its name where it has one, else listed in the order given."""
    listed = list(dict.fromkeys(types))
    return NAMED.get(frozenset(listed)) or ", ".join(map(str, listed))


# --- signatures of elementwise ops ---


def pattern(row: OpDef) -> str:
    """The types of an op with one signature for each type of its last operand, as in `(T, T) -> T, T of ints`."""
    letters = [operands[-1] for operands, _ in row.signatures]
    columns = zip(*((*operands, result) for operands, result in row.signatures), strict=True)
    shown = ["T" if list(column) == letters else types_text(column) for column in columns]
    return f"({', '.join(shown[:-1])}) -> {shown[-1]}, T of {types_text(letters)}"


def conversions(row: OpDef) -> list[str]:
    """The lines `sources -> results` of an op with one operand, sources with the same results together."""
    results: dict[ScalarType, list[ScalarType]] = {}
    for (source,), result in row.signatures:
        results.setdefault(source, []).append(result)
    lines: list[str] = []
    done: set[ScalarType] = set()
    for source, reached in results.items():
        if source in done:
            continue
        circle = {source, *reached}
        if all(set(results.get(other, ())) == circle - {other} for other in circle):
            together = [other for other in results if other in circle]
            lines.append(f"{types_text(together)} -> {'the other' if len(circle) == 2 else 'another of these'}")
        else:
            together = [other for other in results if results[other] == reached]
            lines.append(f"{types_text(together)} -> {types_text(reached)}")
        done.update(together)
    return lines


def type_lines(row: OpDef) -> list[str]:
    """What an elementwise op takes and gives; nothing for other ops, whose entries say it in words."""
    if not row.signatures:
        return []
    if len(row.operands) == 1 and len({operands for operands, _ in row.signatures}) != len(row.signatures):
        return ["types: " + "\n       ".join(conversions(row))]
    return [f"types: {pattern(row)}"]


# --- attributes and effects ---


def attribute_text(attribute: Attribute) -> str:
    """`name = default (one of ...)`, or `name: kind` when it must be given."""
    kind = getattr(attribute.kind, "__name__", str(attribute.kind))
    text = f"{attribute.name}: {kind}" if attribute.default is ... else f"{attribute.name} = {attribute.default!r}"
    if attribute.choices:
        text += f" (one of {', '.join(map(repr, attribute.choices))})"
    return text


def effect_text(row: OpDef) -> str:
    """Purity, traits and memory effects, in words."""
    words = sorted(trait.name.lower() for trait in row.traits)
    if row.effect in EFFECTS:
        words.append(EFFECTS[row.effect])
    return ", ".join(words)


# --- contracts ---


def number(value: float) -> str:
    """A number as a power of two where it is one (to two decimals of the exponent), else as Python prints it."""
    if 0 < value < 0.01:
        exponent = round(math.log2(value), 2)
        if 2**exponent == value:
            return f"2^{exponent:g}"
    return f"{value:g}"


def contract_text(contract: Contract) -> str:
    """One contract, in the notation of the page's section on them."""
    match contract:
        case Exact():
            return "exact"
        case Ulp(units, growth):
            return f"ulp({number(units)})" if not growth else f"ulp({number(units)} + {number(growth)}*|x|)"
        case AbsRel(absolute, relative, domain):
            where = "" if math.isinf(domain) else f" for |x| <= {number(domain)}"
            return f"abs({number(absolute)}) + rel({number(relative)}){where}"
        case Sum(unit):
            return f"sum({unit})" if unit else "sum"
        case Mma(fraction, terms, dropped):
            return f"mma(F={fraction}, L={terms}{f', D={number(dropped)}' if dropped else ''})"
        case Tree():
            return "tree"
        case Unordered():
            return "unordered"


def exception_texts(exceptions: Mapping[str, Contract], default: Contract, word: str) -> list[str]:
    """The exceptions from a default contract, types with the same contract together."""
    together: dict[str, list[ScalarType]] = {}
    for name, contract in exceptions.items():
        if contract != default:
            together.setdefault(contract_text(contract), []).append(next(t for t in FLOATS if t.name == name))
    return [f"{types_text(types)}{word} {text}" for text, types in together.items()]


def contracts_text(contracts: Contracts) -> str:
    """All of a row: the default, the exceptions by type, the flags."""
    parts = [contract_text(contracts.default)]
    for exceptions, word in ((contracts.by_type, ""), (contracts.by_operand, " operands")):
        parts += exception_texts(exceptions, contracts.default, word)
    parts += [f"{name} {contract_text(contract)}" for name, contract in contracts.by_precision.items()]
    parts += [flag for flag in ("contractable", "ftz") if getattr(contracts, flag)]
    return "; ".join(parts)


# --- entries ---


def facts(row: OpDef) -> str:
    """The block of an entry, each line ended by a newline."""
    lines = [f"{row.name}({', '.join(row.operands)})", *type_lines(row)]
    if row.attributes:
        lines.append("attributes: " + "\n            ".join(map(attribute_text, row.attributes)))
    if row.regions:
        lines.append(f"regions: {', '.join(row.regions)}")
    if effects := effect_text(row):
        lines.append(f"traits: {effects}")
    if row.contracts is not None:
        lines.append(f"contract: {contracts_text(row.contracts)}")
    return "".join(f"{line}\n" for line in lines)


def headings(text: str) -> list[str]:
    """The names that have an entry heading, in the order of the page."""
    return HEADING.findall(text)


def blocks(text: str) -> dict[str, str]:
    """The block of each entry that has one."""
    return {match["name"]: match["block"] for match in ENTRY.finditer(text)}


def stale(text: str) -> list[str]:
    """The names of the ops whose entry is missing or has a block that the tables do not give."""
    shown = blocks(text)
    return [name for name, row in OPS.items() if shown.get(name) != facts(row)]


def refreshed(text: str) -> str:
    """The page with every block as the tables give it."""

    def entry(match: re.Match[str]) -> str:
        row = OPS.get(match["name"])
        return match[0] if row is None else f"### `{row.name}`\n\n```text\n{facts(row)}```\n"

    return ENTRY.sub(entry, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the stale entries, or refresh them; the exit status is 1 if any is left."""
    parser = argparse.ArgumentParser(description="compare docs/semantics.md with the op tables")
    parser.add_argument("--write", action="store_true", help="put the right blocks into the page")
    options = parser.parse_args(arguments)
    if options.write:
        PAGE.write_text(refreshed(PAGE.read_text()))
    left = stale(PAGE.read_text())
    for name in left:
        print(f"docs/semantics.md: the entry of {name} is missing or stale")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
