"""A thread-level simulator of the hardware level of the gpu dialect.

``simulate`` runs a ``gpu.module`` on NumPy: threads, warps, warpgroups and CTAs, with the
asynchronous machinery of SM80 and SM90, and finds by happens-before what would break the
kernel on hardware.  docs/tools/simulator.md describes the model.
"""

from polyc.playback.gpu.counters import Counters
from polyc.playback.gpu.findings import Finding
from polyc.playback.gpu.simulate import COMPLETIONS, SCHEDULES, SimulationResult, simulate

__all__ = ["COMPLETIONS", "SCHEDULES", "Counters", "Finding", "SimulationResult", "simulate"]
