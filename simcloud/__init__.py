"""Local clouds that speak the providers' real wire protocols, driven by scenario files and a clock.

For tests, for `gpufare serve --demo`, and alone: `python -m simcloud`. Nothing leaves 127.0.0.1.

    with simcloud.start("demo", clock="manual") as sim:
        ...  # point a client at sim.tencent.url, sim.runpod.url, sim.aws.ec2_url
        sim.advance(60)
"""

from simcloud.scenario import Scenario, ScenarioError, load, parse
from simcloud.sim import PROVIDERS, Sim, start
from simcloud.world import Seen

__all__ = ["PROVIDERS", "Scenario", "ScenarioError", "Seen", "Sim", "load", "parse", "start"]
