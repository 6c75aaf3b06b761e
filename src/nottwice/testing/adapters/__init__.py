"""Does your adapter keep its promises? A suite with real kills, for authors of adapters.

from nottwice.testing.adapters import AdapterConformance

class TestMyAdapter(AdapterConformance):
    driver = "my_package.driving:drive"     # a function of a Scene that returns Driven
"""

from __future__ import annotations

from nottwice.testing.adapters.scene import Driven, Scene, ScriptedCall
from nottwice.testing.adapters.suite import AdapterConformance, AdapterFailed

__all__ = ["AdapterConformance", "AdapterFailed", "Driven", "Scene", "ScriptedCall"]
