"""Start and steer the servers of a scenario from Python."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from simcloud.alibaba import Alibaba
from simcloud.aws import Aws
from simcloud.azure import Azure
from simcloud.clock import SimClock
from simcloud.faults import Fault
from simcloud.gcp import Gcp
from simcloud.receiver import Receiver
from simcloud.runpod import RunPod
from simcloud.scenario import Scenario, ScenarioError, load, read_fault
from simcloud.tencent import Tencent
from simcloud.ucloud import UCloud
from simcloud.wire import Cloud, SimServer
from simcloud.world import Seen, World

_CLOUDS: Mapping[str, Callable[[World], Cloud]] = {
    "tencent": Tencent,
    "runpod": RunPod,
    "aws": Aws,
    "alibaba": Alibaba,
    "ucloud": UCloud,
    "gcp": Gcp,
    "azure": Azure,
}
PROVIDERS = tuple(_CLOUDS)
RECEIVER = "SIMCLOUD_RECEIVER"
"""The variable that says where the receiver of webhooks listens."""
Clock = Literal["manual", "real"]


class Endpoint:
    """Where one cloud listens: scheme, host and port."""

    def __init__(self, url: str) -> None:
        self.url = url


class AwsEndpoint(Endpoint):
    """AWS's services, all on one port; paths are the real ones."""

    @property
    def ec2_url(self) -> str:
        """For boto3's `endpoint_url`."""
        return self.url

    @property
    def pricing_url(self) -> str:
        """For boto3's `endpoint_url` of `pricing`."""
        return self.url

    @property
    def price_list_url(self) -> str:
        """The base of `/offers/v1.0/aws/AmazonEC2/current/...`."""
        return self.url

    @property
    def spot_advisor_url(self) -> str:
        """The base of `/spot-advisor-data.json`."""
        return self.url


class Sim:
    """Running servers. Leaving the `with` block, or `stop`, closes every port and ends every thread."""

    def __init__(
        self,
        scenario: Scenario,
        providers: Sequence[str],
        clock: SimClock,
        first_port: int = 0,
        receiver: Receiver | None = None,
    ) -> None:
        self.scenario = scenario
        self.receiver = receiver
        self.world = World(scenario, clock)
        clouds = [_cloud(name, self.world) for name in providers]
        self._servers: dict[str, SimServer] = {}
        try:
            for offset, cloud in enumerate(clouds):
                port = first_port + offset if first_port else 0
                self._servers[cloud.name] = SimServer(cloud, self.world, port)
        except OSError as error:
            self.stop()
            raise OSError(error.errno, f"cannot serve {cloud.name} on 127.0.0.1:{port}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all servers; harmless when they are stopped already."""
        for server in self._servers.values():
            server.stop()
        self._servers = {}
        if self.receiver is not None:
            self.receiver.stop()
        self.receiver = None

    def url(self, provider: str) -> str:
        """Return the base URL of a provider's server."""
        return self._servers[provider].url

    @contextmanager
    def down(self, provider: str) -> Iterator[None]:
        """Inside the block nobody listens at a provider's address."""
        server = self._servers[provider]
        server.stop()
        try:
            yield
        finally:
            self._servers[provider] = SimServer(server.cloud, self.world, server.server_address[1])

    @property
    def tencent(self) -> Endpoint:
        """Tencent's `cvm` and `region`."""
        return Endpoint(self.url("tencent"))

    @property
    def runpod(self) -> Endpoint:
        """RunPod's GraphQL and REST v2."""
        return Endpoint(self.url("runpod"))

    @property
    def aws(self) -> AwsEndpoint:
        """EC2, price list, its query API, and spot advisor."""
        return AwsEndpoint(self.url("aws"))

    def advance(self, seconds: float) -> None:
        """Move the scenario's clock forward."""
        self.world.clock.advance(seconds)

    def set(self, provider: str, match: Mapping[str, str], **values: Any) -> int:
        """Change the rows that fit `match` (field: glob) from now on; returns how many. None at all is refused."""
        return self.world.set(provider, match, values)

    def options(self, provider: str, **options: Any) -> None:
        """Change a server's own settings, such as Tencent's `rate_limit_per_s`."""
        self.world.set_options(provider, options)

    def fault(self, provider: str, kind: str, **details: Any) -> Fault:
        """Put a fault in force from now on; `details` are the fields of `Fault`, and `lasts="30s"` ends it."""
        lasts = details.pop("lasts", None)
        entry = {"provider": provider, "kind": kind, **details} | ({"for": lasts} if lasts else {})
        fault = read_fault(entry, self.world.clock.elapsed_s())
        self.world.add_fault(fault)
        return fault

    def clear_faults(self) -> None:
        """End every fault that was not the scenario's."""
        self.world.clear_faults()

    def requests(self, provider: str | None = None, action: str | None = None) -> list[Seen]:
        """Return the requests received so far, oldest first."""
        return [seen for seen in self.world.requests(provider) if action in (None, seen.action)]

    def env(self) -> dict[str, str]:
        """Return the environment that points gpufare at these servers and at nothing else."""
        found = {"GPUFARE_ONLY": ",".join(self._servers), **self.scenario.settings}
        for server in self._servers.values():
            found |= {"GPUFARE_FX_ENDPOINT": server.url, **server.cloud.environment(server.url)}
        if self.receiver is not None:
            found |= {"GPUFARE_WEBHOOKS__ALLOW_PRIVATE": "true", RECEIVER: self.receiver.url}
        return found


def _cloud(name: str, world: World) -> Cloud:
    if name not in _CLOUDS:
        raise ScenarioError(f"no simulated provider {name!r}: one of {', '.join(_CLOUDS)}")
    if name not in world.scenario.providers:
        raise ScenarioError(f"scenario {world.scenario.name} has no table [{name}]")
    return _CLOUDS[name](world)


def start(
    scenario: str | Path | Scenario = "demo",
    providers: Sequence[str] = PROVIDERS,
    clock: Clock = "manual",
    speed: float = 1.0,
    first_port: int = 0,
    *,
    receiver: bool = False,
) -> Sim:
    """Start a scenario's servers in threads of this process, each on 127.0.0.1 and a free port of its own.

    A `manual` clock moves only by `advance`; a `real` one also runs, `speed` scenario seconds to the second.
    With `first_port` the ports follow one another from there, in the order of `providers`. With `receiver` a receiver
    of webhooks runs beside them, on a free port.
    """
    read = scenario if isinstance(scenario, Scenario) else load(scenario)
    runs = SimClock(speed if clock == "real" else 0.0)
    return Sim(read, providers, runs, first_port, Receiver() if receiver else None)
