"""What is seen of GPU IR before it runs: whether tiles have places at all, and who can exchange what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.lang import LayoutError, Module, Operation, TileType, byte_width

from ..errors import DistributionError
from .places import LANES, OFFSET, Index, Places, find, flipped, placed


def tiles(module: Module) -> Iterator[tuple[Operation, TileType]]:
    """The types of all tiles that the ops of the kernel make, in their regions too; not those of buffers."""
    for operation in module.kernel.walk():
        inside = [argument for region in operation.regions for argument in region.arguments]
        for value in (*operation.results, *inside):
            if isinstance(value.type, TileType) and not is_buffer(value.type):
                yield operation, value.type


def is_buffer(type_: TileType) -> bool:
    """Whether values of a type live in shared memory."""
    return type_.layout is not None and OFFSET in type_.layout.in_names


def widest(module: Module) -> int:
    """The bytes that the threads of a program have for the largest tile; 8 at least, the largest scalar."""
    sizes = [8]
    for _, type_ in tiles(module):
        places = placed(type_)
        assert places is not None
        sizes.append(places.elements.size * byte_width(type_.element))
    return max(sizes)


def check_places(module: Module) -> None:
    """Raise DistributionError unless each tile of the kernel has a place in each thread of the module's warps, and what
    needs shared memory has some."""
    warps = module.attributes.get("num_warps")
    for operation, type_ in tiles(module):
        check_type(operation, type_, warps)
    shared = module.attributes.get("shared", 0)
    assert isinstance(shared, int)
    for operation in module.kernel.walk():
        scratch = operation.attributes.get("scratch", -1)
        assert isinstance(scratch, int)
        if scratch >= shared:
            what = f"{operation.name}: byte {scratch} of {shared} bytes of shared memory"
            raise DistributionError(what, operation.location)
        check = WITHOUT_SCRATCH.get(operation.name)
        if check is not None and scratch == -1:
            check(operation)


def check_type(operation: Operation, type_: TileType, warps: object) -> None:
    """Raise DistributionError unless a tile has a place in each thread."""
    if type_.layout is None:
        raise DistributionError(f"{operation.name}: {type_} has no layout", operation.location)
    try:
        places = placed(type_)
    except LayoutError as error:
        raise DistributionError(f"{operation.name}: {error}", operation.location) from error
    assert places is not None
    threads = places.elements.shape[:2]
    if threads != (warps, LANES):
        what = f"{operation.name}: {type_} has places in {threads[0]} warps of {threads[1]} lanes"
        raise DistributionError(f"{what}, not in {warps} of {LANES}", operation.location)


def check_conversion(operation: Operation) -> None:
    """Raise DistributionError unless each warp has all that it wants."""
    source, result = placed(operation.operands[0].type), placed(operation.result.type)
    assert source is not None and result is not None
    stays(operation, source, result.elements.reshape(-1), result.warp_of)


def check_reduction(operation: Operation) -> None:
    """Raise DistributionError unless each warp has whole rows."""
    source, axis = placed(operation.operands[0].type), operation.attributes["axis"]
    assert source is not None and isinstance(axis, int)
    for bit in range(source.shape[axis].bit_length() - 1):
        stays(operation, source, flipped(source.elements.reshape(-1), source.shape, axis, bit), source.warp_of)


def stays(operation: Operation, source: Places, wanted: Index, warps: Index) -> None:
    """Raise DistributionError for an element that a warp wants and does not hold."""
    missing = find(source.elements.reshape(-1), source.warp_of, wanted, warps) < 0
    if missing.any():
        at = int(missing.argmax())
        what = f"{operation.name}: warp {int(warps[at])} needs element {source.element_name(int(wanted[at]))}, which "
        raise DistributionError(f"{what}it does not hold, and there is no shared memory to get it", operation.location)


#: What must stay inside of warps if it has no shared memory.
WITHOUT_SCRATCH: dict[str, Callable[[Operation], None]] = {
    "convert_layout": check_conversion,
    "reduce": check_reduction,
}
