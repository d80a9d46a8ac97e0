"""A place to call `tl` functions without a kernel: tensors of any type, and what operations came of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.lang import Block, Operation, with_shape
from tilewright.lang.context import Options, building
from tilewright.lang.dtypes import dtype, ir_scalar
from tilewright.lang.frontend.generator import Generator
from tilewright.lang.values import tensor


class Sandbox:
    """The block that operations go into."""

    def __init__(self) -> None:
        self.block = Block()

    def tile(self, type_: dtype, *shape: int) -> tensor:
        """A tensor that nothing is known of: an argument of the block."""
        return tensor(self.block.add_argument(with_shape(ir_scalar(type_), shape)), type_)

    @property
    def names(self) -> list[str]:
        """The operations so far, by name."""
        return [operation.name for operation in self.block.operations]

    @property
    def last(self) -> Operation:
        return self.block.operations[-1]


@contextmanager
def sandbox(options: Options | None = None) -> Iterator[Sandbox]:
    box, generator = Sandbox(), Generator()
    generator.builder.at_end(box.block)
    with building(generator.builder, generator, options):
        yield box
