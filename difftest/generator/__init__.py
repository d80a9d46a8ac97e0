"""Random kernels as source text: well typed, without undefined behaviour, and readable."""

from .arrays import Parameter
from .kernel import GeneratedKernel, generate_kernel

__all__ = ["GeneratedKernel", "Parameter", "generate_kernel"]
