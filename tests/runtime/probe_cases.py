"""What processes do in the tests of `tools.probes.workers`, in a module that is soon imported."""

import os
import time

from tilewright.runtime import CudaError


def play(case: str) -> str:
    """Something goes wrong, or the name comes back with the number of the process."""
    match case:
        case "raises":
            raise ValueError("bad\nmore")
        case "faults":
            raise CudaError("lost", "CUDA_ERROR_ILLEGAL_ADDRESS", "")
        case "dies":
            os._exit(3)
        case "hangs":
            time.sleep(60)
    return f"{case} {os.getpid()}"
