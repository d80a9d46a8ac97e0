"""What kernels run on. Each device answers to one small interface; `find_device` picks one by name or by the data."""

from .base import Device
from .choose import choose_device, find_device

__all__ = ["Device", "choose_device", "find_device"]
