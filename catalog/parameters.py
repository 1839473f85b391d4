"""The parameters of a question, once: the same in the query string, as command options, and as defaults in settings."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a parameter means to a person, with examples."""

    meaning: str
    examples: tuple[str, ...]
    flag: bool = False
    """A command's option that takes no value."""


PARAMETERS: Mapping[str, Parameter] = {
    "gpu": Parameter("accelerator: id, group, family or a provider's spelling", ("a100-80g", "NVIDIA A100-SXM4-80GB")),
    "instance_type": Parameter("machine by name or glob", ("p5.*",)),
    "count": Parameter("GPUs per machine: exactly, at least, a range or a fraction", ("8", "4..", "2..8", "0.25")),
    "min_vram": Parameter("GiB per GPU at least, of the nominal size", ("24",)),
    "min_total_vram": Parameter("GiB of all GPUs of the machine at least", ("320",)),
    "min_tflops": Parameter("dense FP16 tensor TFLOPS per GPU at least", ("300",)),
    "min_bandwidth": Parameter("GB/s of memory bandwidth per GPU at least", ("2000",)),
    "nvlink": Parameter("whether the GPUs have NVLink; unknown meets neither", ("true", "false")),
    "rdma": Parameter("whether the machine has RDMA; unknown meets neither", ("true", "false")),
    "bare_metal": Parameter("whether it is bare metal; unknown meets neither", ("true", "false")),
    "vendor": Parameter("maker of the accelerator", ("nvidia", "amd", "aws")),
    "min_vcpus": Parameter("vCPUs at least", ("16",)),
    "min_vcpus_per_gpu": Parameter("vCPUs per GPU at least", ("12",)),
    "min_memory": Parameter("GiB of machine memory at least", ("64",)),
    "min_memory_per_vcpu": Parameter("GiB of machine memory per vCPU at least", ("4",)),
    "min_memory_per_vram": Parameter("GiB of machine memory per GiB of all VRAM at least", ("2",)),
    "purchase": Parameter("how it is bought; default on_demand", ("spot", "on_demand,spot", "month")),
    "spot": Parameter("short for purchase=spot", ("true",), flag=True),
    "provider": Parameter("limit every tier to providers", ("tencent,aws", "!runpod")),
    "country": Parameter("limit every tier to countries, ISO 3166 alpha-2", ("CN", "!US")),
    "mainland_china": Parameter("limit every tier to, or to outside, mainland China", ("true", "false")),
    "compliance": Parameter(
        "limit every tier to places with any of these certifications", ("soc2", "iso27001,!fedramp_high")
    ),
    "region": Parameter("primary places: code, glob, provider:region or city", ("ap-guangzhou", "us-*", "南京")),
    "zone": Parameter("primary zones: name, id or glob", ("ap-nanjing-1",)),
    "fallback": Parameter(
        "regions to use when no primary place qualifies, in order", ("ap-nanjing,ap-chongqing", "auto", "none")
    ),
    "accounts": Parameter("providers with credentials here, or all", ("mine", "all")),
    "hosting": Parameter("who runs the hosts; default datacenter", ("datacenter", "community", "any")),
    "max_price": Parameter("per machine and hour at most, in `currency`", ("12.50",)),
    "max_price_per_gpu": Parameter("per GPU and hour at most, in `currency`", ("2",)),
    "currency": Parameter("what to compare and answer in; default USD", ("CNY",)),
    "stock": Parameter("which offers count", ("prefer", "confirmed", "any", "all")),
    "max_age": Parameter("age of the stock observation at most", ("10m", "2h")),
    "sort": Parameter(
        "what cheapest means", ("price", "price_per_gpu", "price_per_vram", "price_per_tflop", "job_cost")
    ),
    "hours": Parameter("hours that a job runs: its whole cost is told as `job_cost`", ("48", "0.25")),
    "egress_gb": Parameter("GB that the job sends out to the internet", ("500",)),
    "limit": Parameter("how many alternatives, or offers", ("5",)),
    "offset": Parameter("how many to skip", ("100",)),
    "explain": Parameter("say why other offers were not chosen", ("true",), flag=True),
}

_OF_A_SERIES = (
    *("gpu", "instance_type", "count", "min_vram", "min_total_vram", "min_tflops", "min_bandwidth"),
    *("nvlink", "rdma", "bare_metal", "vendor", "min_vcpus", "min_vcpus_per_gpu", "min_memory"),
    *("min_memory_per_vcpu", "min_memory_per_vram", "purchase", "spot", "provider", "country", "mainland_china"),
    *("compliance", "region", "zone", "accounts", "hosting", "limit", "offset"),
)
"""Those that say which offers are meant, and nothing of how they stand now."""
HISTORY_PARAMETERS: Mapping[str, Parameter] = {
    "from": Parameter("begin of the window: a time, a day or an age; default 7d", ("7d", "2026-11-01")),
    "to": Parameter("end of the window, likewise; default now", ("24h", "2026-11-08T00:00:00Z")),
    **{name: PARAMETERS[name] for name in _OF_A_SERIES},
    "purchase": Parameter("how it is bought; any unless said", ("spot", "on_demand,spot", "month")),
    "provider": Parameter("these providers alone", ("tencent,aws", "!runpod")),
    "country": Parameter("these countries alone, ISO 3166 alpha-2", ("CN", "!US")),
    "mainland_china": Parameter("in, or outside, mainland China", ("true", "false")),
    "compliance": Parameter("places with any of these certifications", ("soc2", "iso27001,!fedramp_high")),
    "region": Parameter("places: code, glob, provider:region or city", ("ap-guangzhou", "us-*", "南京")),
    "zone": Parameter("zones: name, id or glob", ("ap-nanjing-1",)),
    "hosting": Parameter("who runs the hosts; any unless said", ("datacenter", "community", "any")),
    "limit": Parameter("how many series; default 100, to 1000", ("20",)),
}
"""The parameters of a question for history."""
