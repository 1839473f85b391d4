"""The command that starts a machine: every provider and purchase, names that are quoted, and what has no command."""

import csv
import re
import shlex
from datetime import UTC, date, datetime
from importlib.resources import files
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.launch_commands import launch_command
from catalog.words import Purchase
from collectors.registry import PROVIDERS
from collectors.runpod_pods import Pod
from collectors.ucloud_machine import Size

TEXT = files("catalog").joinpath("launch_commands.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(line for line in TEXT.splitlines() if not line.startswith("#")))
FOLLOWED = re.compile(r"https://\S+|[\w.-]+/[\w.-]+: \S*[./]\S+")
"""What a reader can follow: a URL, or a file as owner/repository: path."""
TOOLS = {
    "aws": "aws ec2 run-instances",
    "gcp": "gcloud compute instances create",
    "azure": "az vm create",
    "tencent": "tccli cvm RunInstances",
    "alibaba": "aliyun ecs RunInstances",
    "ucloud": "ucloud uhost create",
    "runpod": "runpodctl pod create",
}
MACHINES = {
    "aws": "p5.48xlarge",
    "gcp": "a2-highgpu-1g",
    "azure": "Standard_NC24ads_A100_v4",
    "tencent": "GN10Xp.2XLARGE40",
    "alibaba": "ecs.gn7i-c8g1.2xlarge",
    "ucloud": Size("A100", 8, 124, 1024).instance_type,
    "runpod": "2x NVIDIA A100 80GB PCIe secure",
}
WITHOUT_SPOT = {"runpod"}
TAKES_ANY = sorted(TOOLS.keys() - {"ucloud", "runpod"})
"""Where a machine's name is put in as it is."""


def command(provider: str, purchase: str = "on_demand", zone: str | None = "z-1", machine: str | None = None) -> str:
    found = launch_command(provider, purchase, "region-1", zone, machine or MACHINES[provider])
    assert found is not None
    return found


def options(text: str) -> dict[str, str]:
    """Each option of a command line with the word after it, as a shell reads them."""
    words = [part for word in shlex.split(text) for part in word.split("=", 1)]
    return {word: following for word, following in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")}


@pytest.mark.parametrize("provider", sorted(PROVIDERS.keys() & TOOLS.keys()))
def test_each_provider_has_its_own_tool_and_names_what_to_start(provider: str) -> None:
    text = command(provider)
    assert text.startswith(f"{TOOLS[provider]} ")
    assert "\n" not in text
    assert "z-1" in shlex.join(shlex.split(text))
    assert re.search(r"[A-Z]{3,}", text), "what the user puts in"


def test_every_polled_provider_has_a_tool() -> None:
    assert {name for name in PROVIDERS if name != "ecb"} <= TOOLS.keys()


@pytest.mark.parametrize(
    ("provider", "zone", "expected"),
    [
        (
            "aws",
            "us-east-1a",
            "aws ec2 run-instances --region region-1 --placement AvailabilityZone=us-east-1a "
            "--instance-type p5.48xlarge --image-id IMAGE_ID --count 1",
        ),
        (
            "aws",
            None,
            "aws ec2 run-instances --region region-1 --instance-type p5.48xlarge --image-id IMAGE_ID --count 1",
        ),
        (
            "azure",
            "1",
            "az vm create --resource-group RESOURCE_GROUP --name NAME --location region-1 --zone 1 "
            "--size Standard_NC24ads_A100_v4 --image IMAGE",
        ),
        (
            "tencent",
            "ap-nanjing-1",
            "tccli cvm RunInstances --cli-unfold-argument --region region-1 --Placement.Zone ap-nanjing-1 "
            "--InstanceType GN10Xp.2XLARGE40 --ImageId IMAGE_ID --InstanceChargeType POSTPAID_BY_HOUR "
            "--InstanceCount 1",
        ),
        (
            "runpod",
            "US-KS-2",
            "runpodctl pod create --gpu-id 'NVIDIA A100 80GB PCIe' --gpu-count 2 --cloud-type SECURE "
            "--data-center-ids US-KS-2 --image IMAGE",
        ),
        (
            "ucloud",
            "cn-bj2-05",
            "ucloud uhost create --region region-1 --zone cn-bj2-05 --machine-type G --gpu-type A100 --gpu 8 --cpu 124 "
            "--memory-gb 1024 --image-id IMAGE_ID --key-pair-id KEY_PAIR_ID --charge-type Dynamic",
        ),
    ],
)
def test_the_whole_line(provider: str, zone: str | None, expected: str) -> None:
    assert command(provider, zone=zone) == expected


@pytest.mark.parametrize(
    ("provider", "flags"),
    [
        ("aws", {"--instance-market-options": "MarketType"}),
        ("gcp", {"--provisioning-model": "SPOT"}),
        ("azure", {"--priority": "Spot", "--max-price": "-1", "--eviction-policy": "Deallocate"}),
        ("tencent", {"--InstanceChargeType": "SPOTPAID", "--InstanceMarketOptions.SpotOptions.MaxPrice": "MAX_PRICE"}),
        ("alibaba", {"--SpotStrategy": "SpotAsPriceGo", "--InstanceChargeType": "PostPaid"}),
        ("ucloud", {"--charge-type": "Spot"}),
    ],
)
def test_spot_has_its_flags_and_on_demand_has_them_not(provider: str, flags: dict[str, str]) -> None:
    assert flags.items() <= options(command(provider, "spot")).items()
    assert not flags.items() <= options(command(provider)).items()


@pytest.mark.parametrize(
    ("provider", "flags"),
    [
        ("tencent", {"--InstanceChargeType": "PREPAID", "--InstanceChargePrepaid.Period": "1"}),
        ("alibaba", {"--InstanceChargeType": "PrePaid", "--Period": "1", "--PeriodUnit": "Month"}),
        ("ucloud", {"--charge-type": "Month", "--quantity": "1"}),
    ],
)
def test_a_prepaid_month_is_one_month(provider: str, flags: dict[str, str]) -> None:
    assert flags.items() <= options(command(provider, "month")).items()


def test_a_zone_that_is_not_known_is_left_out_or_asked_for() -> None:
    for provider in ("aws", "azure", "alibaba", "ucloud", "runpod"):
        assert "ZONE" not in command(provider, zone=None)
        assert "zone" not in command(provider, zone=None).lower()
    assert options(command("gcp", zone=None))["--zone"] == "ZONE"
    assert options(command("tencent", zone=None))["--Placement.Zone"] == "ZONE"


def test_gpus_that_are_attached_to_a_machine_of_google_are_asked_for() -> None:
    text = command("gcp", machine="n1-standard-8+nvidia-tesla-t4x2")
    assert "--machine-type=n1-standard-8 --accelerator=type=nvidia-tesla-t4,count=2 " in text
    assert "--maintenance-policy=TERMINATE" in text
    assert "--accelerator" not in command("gcp")


def test_a_machine_of_ucloud_that_cannot_be_ordered_has_no_command() -> None:
    assert launch_command("ucloud", "on_demand", "cn-bj2", None, Size("G", 1, 8, 32).instance_type) is None
    assert launch_command("ucloud", "on_demand", "cn-bj2", None, "compshare.4090") is None
    dotted = options(command("ucloud", machine=Size("V100.2", 2, 16, 64).instance_type))
    assert (dotted["--gpu-type"], dotted["--gpu"], dotted["--cpu"], dotted["--memory-gb"]) == (
        "V100.2",
        "2",
        "16",
        "64",
    )


@pytest.mark.parametrize("cloud", ["secure", "community"])
def test_a_pod_is_started_in_its_cloud(cloud: str) -> None:
    pod = Pod("NVIDIA RTX 6000 Ada Generation", 4, cloud, None, True, None, {}, "test")
    started = options(command("runpod", machine=pod.instance_type))
    assert started["--gpu-id"] == "NVIDIA RTX 6000 Ada Generation"
    assert (started["--gpu-count"], started["--cloud-type"]) == ("4", cloud.upper())


def test_an_account_is_started_with_its_providers_tool() -> None:
    assert launch_command("tencent_intl", "on_demand", "ap-tokyo", None, "GN10Xp") == launch_command(
        "tencent", "on_demand", "ap-tokyo", None, "GN10Xp"
    )


@pytest.mark.parametrize("purchase", ["reserved_1y", "reserved_3y", "savings_1y", "capacity_block", "", "no such"])
@pytest.mark.parametrize("provider", sorted(TOOLS))
def test_what_no_one_command_starts_has_none(provider: str, purchase: str) -> None:
    assert launch_command(provider, purchase, "region-1", "z-1", MACHINES[provider]) is None


def test_other_providers_and_spot_pods_have_none() -> None:
    assert launch_command("vast", "on_demand", "US", None, "2x RTX 4090") is None
    assert launch_command("", "on_demand", "US", None, "m") is None
    for provider in WITHOUT_SPOT:
        assert launch_command(provider, "spot", "US", None, MACHINES[provider]) is None


@pytest.mark.parametrize(
    "name", ["", "-x", "--endpoint-url=http://evil", "@/etc/passwd", "file:///etc/passwd", "a\nb", "a\x1b"]
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_no_name_gives_no_command(name: str, at: int) -> None:
    names: list[str] = ["region-1", "zone-1", "machine"]
    names[at] = name
    assert launch_command("aws", "on_demand", *names) is None


NAMES = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=30).filter(
    lambda text: text.isprintable() and text[0] not in "-@" and "://" not in text
)


@given(st.sampled_from(TAKES_ANY), NAMES, NAMES, NAMES)
def test_a_shell_reads_each_name_as_it_is_and_nothing_else(provider: str, region: str, zone: str, machine: str) -> None:
    text = launch_command(provider, "on_demand", region, zone, machine)
    plain = launch_command(provider, "on_demand", "r", "z", "m")
    assert text is not None
    assert plain is not None
    words, usual = shlex.split(text), shlex.split(plain)
    if "--accelerator" not in text:
        assert len(words) == len(usual)
        assert any(word == machine or word.endswith(f"={machine}") for word in words)
    for word, other in zip(words, usual, strict=False):
        assert word == other or other.rpartition("=")[2] in ("r", "z", "m") or "--accelerator" in text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['purchase']} {row['machine'][:12]}")
def test_every_row_can_be_read_and_followed(row: dict[str, str]) -> None:
    assert row["provider"] in TOOLS
    assert row["purchase"] in set(Purchase)
    named = re.compile(row["machine"]).groupindex.keys()
    parts = {name for _, name, _, _ in Formatter().parse(row["command"]) if name}
    assert parts <= named | {"region", "zone", "instance_type"}
    assert named <= parts
    assert row["command"].startswith(TOOLS[row["provider"]])
    assert FOLLOWED.search(row["source"])
    assert row["read"] in ("yes", "no")
    if row["read"] == "no":
        assert row["as_of"] == "", "what nobody read has no date of reading"
    else:
        assert date.fromisoformat(row["as_of"]) <= datetime.now(UTC).date()
