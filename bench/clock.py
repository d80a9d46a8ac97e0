"""An NVIDIA GPU as the benchmarks use it, through torch: arrays on it, graphs of launches, and their time by events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .records import answer

#: What `nvidia-smi` is asked; megahertz, watts, degrees Celsius.
STATE = ("pstate", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.draw", "power.limit", "temperature.gpu")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: How often a graph runs while `nvidia-smi` is asked.
BUSY = 200


class Gpu:
    """torch's current CUDA device."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch: Any = torch
        self.device = self.torch.device("cuda", self.torch.cuda.current_device())
        self.properties = self.torch.cuda.get_device_properties(self.device)

    @property
    def cache_bytes(self) -> int:
        """The size of the L2 cache."""
        return int(self.properties.L2_cache_size)

    def facts(self) -> dict[str, Any]:
        """What the device is."""
        return {
            "gpu": self.properties.name,
            "capability": f"{self.properties.major}.{self.properties.minor}",
            "multiprocessors": self.properties.multi_processor_count,
            "cache_bytes": self.cache_bytes,
            "driver": self._smi("driver_version"),
            "cuda": self.torch.version.cuda,
        }

    def _smi(self, query: str) -> str:
        """What `nvidia-smi` says about the device, which it numbers as CUDA does where all devices are visible."""
        asked = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", str(self.device.index)]
        return answer(asked).strip()

    def state(self, load: Any) -> dict[str, str]:
        """Clocks, power and temperature while a graph runs again and again; empty where `nvidia-smi` doesn't answer."""
        for _ in range(BUSY):
            load.replay()
        said = self._smi(",".join(STATE))
        self.synchronize()
        return dict(zip(STATE, map(str.strip, said.split(",")), strict=True)) if said else {}

    def upload(self, array: NDArray[Any]) -> Any:
        """A copy of an array on the device; torch knows bf16 by another name than NumPy does."""
        if array.dtype == BFLOAT16:
            return self.upload(array.view(np.uint16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(array).to(self.device, copy=True)

    def download(self, tensor: Any) -> NDArray[Any]:
        """A copy of a tensor on the host. Waits for what the device does."""
        if tensor.dtype == self.torch.bfloat16:
            return self.download(tensor.view(self.torch.uint16)).view(BFLOAT16)
        return tensor.cpu().numpy()

    def noise(self, size: int) -> Any:
        """Random bytes on the device: zeros take less power to move, and so less time."""
        return self.torch.empty(size, dtype=self.torch.uint8, device=self.device).random_()

    def poison(self, tensor: Any) -> None:
        """Ones in every bit, which is a NaN in each float format: what a kernel leaves out shows."""
        tensor.view(self.torch.uint8).fill_(0xFF)

    def synchronize(self) -> None:
        """Wait for what the device does."""
        self.torch.cuda.synchronize(self.device)

    def capture(self, launches: Sequence[Callable[[], object]]) -> Any:
        """A graph that runs the launches one after the other, without the host's time between them.

        Each must have run before: what is loaded or allocated at a first launch may not happen while capturing.
        """
        self.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for launch in launches:
                launch()
        return graph

    def replay(self, graph: Any) -> None:
        """Run a graph, and wait for it."""
        graph.replay()
        self.synchronize()

    def seconds(self, graph: Any) -> float:
        """How long a graph runs on the device.

        It runs twice and the second run counts: while the first runs, the host has the second one queued, so that no
        time of the host's lies between the events.
        """
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3  # milliseconds, with a resolution of half a microsecond
