"""Random kernels as source text: well typed, without undefined behaviour, and readable."""

from .arrays import Parameter, arguments
from .kernel import GeneratedKernel, generate_kernel

__all__ = ["GeneratedKernel", "Parameter", "arguments", "generate_kernel"]
