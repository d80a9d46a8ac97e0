"""What kernels run on. Each device answers to one small interface; `find_device` picks one by name or by the data."""

from .base import Device
from .choose import choose_device, find_device
from .cuda import CudaDevice
from .emulator import EmulatorDevice
from .interpreter import InterpreterDevice

__all__ = ["CudaDevice", "Device", "EmulatorDevice", "InterpreterDevice", "choose_device", "find_device"]
