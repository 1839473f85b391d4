"""Of which region a zone is, by the names that providers give them."""


def region_of(zone: str) -> str:
    """`us-central1` of `us-central1-a`, `ap-nanjing` of `ap-nanjing-1`: as Google, Tencent and UCloud name them."""
    return zone.rpartition("-")[0]


def is_lettered(zone: str, region: str) -> bool:
    """Whether the zone is of the region where AWS and Alibaba name them: `us-east-1a`, `cn-beijing-l`, and AWS's local
    `us-west-2-lax-1a`.
    """
    return zone.startswith(region) and not zone[len(region) : len(region) + 1].isdigit() and zone != region
