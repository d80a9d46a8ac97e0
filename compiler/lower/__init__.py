"""From placed tile IR to LLVM text: one file a family of ops, each row registered by `@lowers`."""
