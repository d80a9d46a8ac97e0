"""Run a kernel of GPU IR with its values in threads, once it is seen that they have places at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.lang import Module

from ..batch import Grid, Options
from ..control import CONTROL
from ..coroutines import RESUMABLE, make_look, run_tasks
from ..executor import DEFAULTS, Argument, BatchMaker, bind, check_grid
from ..memory import Memory
from ..plan import Makers, ModulePlan
from .checks import check_places, widest
from .meanings import DISTRIBUTED
from .reduce import make_reduce
from .shared import KEPT, BlockBatch

MAKERS = Makers(DISTRIBUTED, CONTROL | {"reduce": make_reduce}, RESUMABLE, make_look)


def execute_distributed(module: Module, arguments: Sequence[Argument], grid: Grid, options: Options = DEFAULTS) -> None:
    """Run the kernel of a module of GPU IR, as `execute` does, with each tile held by threads as its layout says.

    The module is as the compiler leaves it: all tiles have layouts, for the `num_warps` of the module, reductions a
    recorded order, and what needs shared memory has a place there. Raises DistributionError where that is not so; where
    an op wants an element that its thread does not hold, or its replicas differ; where shared memory is read before the
    copy into it was waited for, or by another thread before a barrier; and what `execute` raises.
    """
    check_places(module)
    memory, values = bind(module.kernel, arguments)
    check_grid(grid)
    if 0 in grid:
        return
    nbytes = module.attributes.get("shared", 0)
    assert isinstance(nbytes, int)
    make, made = BatchMaker(grid, memory, options), list[BlockBatch]()

    def batches(size: int) -> Iterator[BlockBatch]:
        for batch in make.batches(size):
            made.append(BlockBatch.of(batch, nbytes))
            yield made[-1]

    with np.errstate(all="ignore"):
        (fold,) = BatchMaker((1, 1, 1), Memory(), options).batches(1)
        plan = ModulePlan(module, MAKERS, BlockBatch.of(fold, 0))
        kernel = plan.function(plan.kernel_name)
        if plan.needs_coroutines:
            run_tasks(kernel, values, batches(1), memory, options)
        else:
            for batch in batches(max(1, options.chunk_bytes // max(widest(module), KEPT * nbytes))):
                kernel.run(batch, values)
                batch.shared.finish(batch)
                made.clear()
        for batch in made:
            batch.shared.finish(batch)
