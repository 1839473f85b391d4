"""Why an offer is not the answer: a code to count by, a text for a person."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Every reason. `…_unknown`: the fact is not known, and unknown meets no demand."""

    GPU = "gpu"
    INSTANCE_TYPE = "instance_type"
    GPU_COUNT = "gpu_count"
    GPU_COUNT_UNKNOWN = "gpu_count_unknown"
    VENDOR = "vendor"
    VRAM_TOO_SMALL = "vram_too_small"
    VRAM_UNKNOWN = "vram_unknown"
    TOTAL_VRAM_TOO_SMALL = "total_vram_too_small"
    TOTAL_VRAM_UNKNOWN = "total_vram_unknown"
    TFLOPS_TOO_SMALL = "tflops_too_small"
    TFLOPS_UNKNOWN = "tflops_unknown"
    BANDWIDTH_TOO_SMALL = "bandwidth_too_small"
    BANDWIDTH_UNKNOWN = "bandwidth_unknown"
    VCPUS_TOO_SMALL = "vcpus_too_small"
    VCPUS_UNKNOWN = "vcpus_unknown"
    VCPUS_PER_GPU_TOO_SMALL = "vcpus_per_gpu_too_small"
    VCPUS_PER_GPU_UNKNOWN = "vcpus_per_gpu_unknown"
    MEMORY_TOO_SMALL = "memory_too_small"
    MEMORY_UNKNOWN = "memory_unknown"
    MEMORY_PER_VCPU_TOO_SMALL = "memory_per_vcpu_too_small"
    MEMORY_PER_VCPU_UNKNOWN = "memory_per_vcpu_unknown"
    MEMORY_PER_VRAM_TOO_SMALL = "memory_per_vram_too_small"
    MEMORY_PER_VRAM_UNKNOWN = "memory_per_vram_unknown"
    NVLINK = "nvlink"
    NVLINK_UNKNOWN = "nvlink_unknown"
    RDMA = "rdma"
    RDMA_UNKNOWN = "rdma_unknown"
    BARE_METAL = "bare_metal"
    BARE_METAL_UNKNOWN = "bare_metal_unknown"
    HOSTING = "hosting"
    PROVIDER = "provider"
    NO_ACCOUNT = "no_account"
    COUNTRY = "country"
    COUNTRY_UNKNOWN = "country_unknown"
    MAINLAND_CHINA = "mainland_china"
    MAINLAND_CHINA_UNKNOWN = "mainland_china_unknown"
    COMPLIANCE = "compliance"
    EXCLUDED_PLACE = "excluded_place"
    NOT_HERE = "not_here"
    PURCHASE = "purchase"
    NO_SPOT_MARKET = "no_spot_market"
    WINDOW_TOO_SHORT = "window_too_short"
    NO_PRICE = "no_price"
    NO_RATE = "no_rate"
    TOO_DEAR = "too_dear"
    RESTRICTED = "restricted"
    OUT_OF_STOCK = "out_of_stock"
    STALE = "stale"
    NOT_CONFIRMED = "not_confirmed"

    @property
    def tells_unknown(self) -> bool:
        """Whether it says that a fact is not known."""
        return self.endswith("_unknown")


@dataclass(frozen=True, slots=True)
class Reason:
    """One demand that an offer does not meet."""

    code: Code
    text: str

    def __str__(self) -> str:
        return self.text
