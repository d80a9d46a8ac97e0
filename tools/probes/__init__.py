"""Probes: what hardware does where the ISA leaves it open, compared with what the emulator says."""
