"""Reading and changing the machine, behind one protocol with three forms.

Idea: a dry run is another `System`, not an `if`; tests of a whole setup run in memory.
Invariant: all forms pass one contract (`tests/plan/test_system_contract.py`), refusals included.
Trap: a path is the one the person knows; links are followed at the write, never replaced.
"""

from openmem.plan.system.contract import Ran, Stat, System
from openmem.plan.system.dry_run import DryRunSystem
from openmem.plan.system.memory import MemorySystem
from openmem.plan.system.real import RealSystem
from openmem.plan.system.steady import SteadySystem

__all__ = ["DryRunSystem", "MemorySystem", "Ran", "RealSystem", "Stat", "SteadySystem", "System"]
