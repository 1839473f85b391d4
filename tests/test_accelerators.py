"""The table of accelerators as data, and what names mean."""

import csv
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.accelerators import (
    Accelerator,
    UnknownAccelerator,
    accelerators,
    resolve_offer,
    resolve_question,
    same_memory,
)

HERE = Path(__file__).parent
TABLE = HERE.parent / "catalog" / "accelerators.csv"


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


ROWS = read_csv(TABLE)
OFFERS = read_csv(HERE / "data" / "accelerator_names.csv")
MODELS = list(accelerators().values())
UNSTATED = [model for model in MODELS if model.unstated]


def key(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def members(*, group: str | None = None, family: str | None = None) -> set[str]:
    return {m.id for m in MODELS if group in (None, m.group) and family in (None, m.family)}


def answer(text: str) -> frozenset[str] | tuple[str, ...]:
    try:
        return resolve_question(text)
    except UnknownAccelerator as refused:
        return tuple(sorted(refused.did_you_mean))


# The table


def test_no_id_is_in_the_table_twice() -> None:
    ids = [row["id"] for row in ROWS]
    assert len(ids) == 114
    assert len(set(ids)) == len(ids)
    assert list(accelerators()) == ids


def test_a_group_is_one_family_and_one_memory() -> None:
    seen: dict[str, set[tuple[str, int | None]]] = defaultdict(set)
    for model in MODELS:
        seen[model.group].add((model.family, model.vram_mib))
    assert {group: facts for group, facts in seen.items() if len(facts) > 1} == {}


def test_no_id_hides_a_group_and_no_group_a_family() -> None:
    for model in MODELS:
        assert members(group=model.id) <= {model.id}
        assert members(family=model.group) <= members(group=model.group)
        assert members(family=model.id) <= {model.id}


def test_an_alias_belongs_to_one_row_and_hides_no_other_name() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for model in MODELS:
        for alias in (model.name, *model.aliases):
            owners[key(alias)].add(model.id)
    assert {alias: ids for alias, ids in owners.items() if len(ids) > 1} == {}
    shared = {key(alias) for model in MODELS for alias in model.ambiguous_aliases}
    assert shared.isdisjoint(owners)
    for model in MODELS:
        for word in {key(model.group), key(model.family)} & owners.keys():
            (owner,) = owners[word]
            assert accelerators()[owner].family == model.family


def test_an_ambiguous_alias_stands_on_several_rows() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for model in MODELS:
        for alias in model.ambiguous_aliases:
            owners[key(alias)].add(model.id)
    assert owners
    assert all(len(ids) > 1 for ids in owners.values())


@pytest.mark.parametrize("column", ["provider_aliases", "instance_families"])
def test_a_providers_name_means_one_row(column: str) -> None:
    pairs = [
        (provider, key(name))
        for row in ROWS
        for provider, _, name in (pair.partition(":") for pair in row[column].split("|") if pair)
    ]
    assert pairs
    assert all(provider and name for provider, name in pairs)
    assert len(set(pairs)) == len(pairs)


def test_every_figure_is_positive_or_unknown() -> None:
    for model in MODELS:
        figures = (model.vram_mib, model.bandwidth_gbs, model.fp16_dense_tflops, model.fp8_dense_tflops)
        assert all(figure is None or figure > 0 for figure in figures), model.id
        assert model.nvlink_gbs_per_gpu is None or model.nvlink_gbs_per_gpu >= 0
        assert model.mig_max is None or 0 <= model.mig_max <= 7


def test_every_row_names_its_kind_vendor_and_source() -> None:
    assert {model.kind for model in MODELS} == {"gpu", "tpu", "asic", "media"}
    assert {model.export_sku for model in MODELS} == {None, "china"}
    assert all(row["vendor"] and row["architecture"] and row["name"] and row["source"] for row in ROWS)


def test_what_is_unstated_is_empty() -> None:
    assert len(UNSTATED) == 16
    for model in UNSTATED:
        assert model.unstated <= {"form", "memory", "edition"}
        assert (model.vram_mib is None) == ("memory" in model.unstated), model.id
        assert (model.form is None) == ("form" in model.unstated), model.id


@pytest.mark.parametrize("figure", ["bandwidth_gbs", "fp16_dense_tflops", "fp8_dense_tflops", "mig_max"])
@pytest.mark.parametrize("model", UNSTATED, ids=lambda model: model.id)
def test_an_unstated_row_claims_the_lowest_of_its_variants(model: Accelerator, figure: str) -> None:
    scope = members(family=model.family) if "memory" in model.unstated else members(group=model.group)
    variants = [getattr(m, figure) for m in MODELS if m.id in scope and not m.unstated]
    assert getattr(model, figure) == (None if None in variants else min(variants))


def test_wherever_a_name_leaves_variants_open_a_row_says_so() -> None:
    for model in MODELS:
        group = [accelerators()[i] for i in members(group=model.group)]
        family = [accelerators()[i] for i in members(family=model.family)]
        if sum(not m.unstated for m in group) > 1:
            assert any(m.unstated and "memory" not in m.unstated for m in group), model.group
        if len({m.group for m in family if not m.unstated}) > 1:
            assert any("memory" in m.unstated for m in family), model.family


# Figures


@pytest.mark.parametrize(
    ("accelerator_id", "vram_gib", "bandwidth_gbs", "fp16"),
    [
        ("a100-sxm4-80g", 80, 2039, "312"),
        ("a100-pcie-40g", 40, 1555, "312"),
        ("h100-sxm5-80g", 80, 3350, "989"),
        ("h100-nvl-94g", 94, 3938, "835"),
        ("l4", 24, 300, "121"),
        ("a10", 24, 600, "125"),
        ("a10g", 24, 600, "70"),
        ("l40", 48, 864, "181"),
        ("mi325x", 256, 6000, "1307.4"),
        ("trainium2", 96, 2900, "667"),
    ],
)
def test_known_figures_are_dense_and_in_their_units(
    accelerator_id: str, vram_gib: int, bandwidth_gbs: int, fp16: str
) -> None:
    model = accelerators()[accelerator_id]
    assert model.vram_mib == vram_gib * 1024
    assert model.bandwidth_gbs == bandwidth_gbs
    assert model.fp16_dense_tflops == Decimal(fp16)


@pytest.mark.parametrize("accelerator_id", ["p100-pcie-16g", "mi25"])
def test_a_vector_rate_is_not_a_tensor_rate(accelerator_id: str) -> None:
    model = accelerators()[accelerator_id]
    assert model.fp16_is_tensor is False
    assert model.fp16_dense_tflops is None


@pytest.mark.parametrize(
    ("accelerator_id", "nvlink"),
    [
        ("a100-sxm4-80g", True),
        ("p100-sxm2-16g", True),
        ("mi300x", True),
        ("gh200-unstated", True),
        ("gb200", True),
        ("a100-pcie-80g", False),
        ("h100-nvl-94g", False),
        ("t4", False),
        ("tpu-v5e", None),
        ("a100-unstated-80g", None),
        ("v100-unstated", None),
    ],
)
def test_nvlink_follows_the_form_and_is_unknown_where_the_form_is(accelerator_id: str, nvlink: bool | None) -> None:
    assert accelerators()[accelerator_id].nvlink is nvlink


@pytest.mark.parametrize(
    ("stated_mib", "nominal_gib", "same"),
    [
        (22888, 24, True),
        (45776, 48, True),
        (275040, 288, True),
        (268 * 1024, 288, True),
        (192 * 1024, 180, True),
        (146432, 141, True),
        (15360, 16, True),
        (12 * 1024, 16, False),
        (80 * 1024, 94, False),
        (0, 24, False),
    ],
)
def test_memory_is_the_same_within_seven_percent_of_nominal(stated_mib: int, nominal_gib: int, same: bool) -> None:
    assert same_memory(stated_mib, nominal_gib * 1024) is same


def test_seven_percent_itself_is_the_same_and_one_mib_more_is_not() -> None:
    assert same_memory(93, 100)
    assert same_memory(107, 100)
    assert not same_memory(92, 100)
    assert not same_memory(108, 100)


# Questions


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("a100-sxm4-80g", {"a100-sxm4-80g"}),
        ("a100-unstated-80g", {"a100-unstated-80g"}),
        ("a100-80g", {"a100-pcie-80g", "a100-sxm4-80g", "a100-unstated-80g"}),
        ("A100 80GB", {"a100-pcie-80g", "a100-sxm4-80g", "a100-unstated-80g"}),
        ("8x A100-80GB", {"a100-pcie-80g", "a100-sxm4-80g", "a100-unstated-80g"}),
        ("2×a100_80g", {"a100-pcie-80g", "a100-sxm4-80g", "a100-unstated-80g"}),
        ("NVIDIA A100-SXM4-80GB", {"a100-sxm4-80g"}),
        ("A100-80GB-SXM", {"a100-sxm4-80g"}),
        ("A100 PCIe", {"a100-pcie-40g", "a100-pcie-80g"}),
        ("A800 PCIe", {"a800-pcie-40g", "a800-pcie-80g"}),
        ("a800", {"a800-pcie-40g", "a800-pcie-80g", "a800-sxm4-80g", "a800-unstated", "a800-unstated-80g"}),
        ("NVIDIA H100 80GB HBM3", {"h100-sxm5-80g"}),
        ("NVIDIA H100 NVL", {"h100-nvl-94g"}),
        ("h100-nvl", {"h100-nvl-94g"}),
        ("NVIDIA H100 PCIe", {"h100-pcie-80g"}),
        ("h20", {"h20-sxm5-96g", "h20-sxm5-141g", "h20-unstated"}),
        ("h200", {"h200-sxm5-141g", "h200-nvl-141g", "h200-unstated-141g"}),
        ("H200 NVL", {"h200-nvl-141g"}),
        ("NVIDIA RTX 6000 Ada Generation", {"rtx-6000-ada"}),
        ("rtx6000ada", {"rtx-6000-ada"}),
        ("RTX 6000 (Ada)", {"rtx-6000-ada"}),
        ("Quadro RTX 6000", {"quadro-rtx-6000"}),
        ("NVIDIA RTX A6000", {"rtx-a6000"}),
        ("a6000", {"rtx-a6000"}),
        ("L4", {"l4"}),
        ("L40", {"l40"}),
        ("L40S", {"l40s"}),
        ("L40S (graphics mode)", {"l40s"}),
        ("A10", {"a10"}),
        ("A10 (24 GB PCIe)", {"a10"}),
        ("A10G", {"a10g"}),
        ("T4", {"t4"}),
        ("T4G", {"t4g"}),
        ("NVIDIA V100", {"v100-sxm2-16g", "v100-sxm2-32g", "v100-pcie-16g", "v100-pcie-32g"}
         | {"v100-unstated", "v100-unstated-16g", "v100-unstated-32g"}),
        ("NVIDIA V100（32GB）", {"v100-sxm2-32g", "v100-pcie-32g", "v100-unstated-32g"}),
        ("Tesla V100 32GB", {"v100-sxm2-32g", "v100-pcie-32g", "v100-unstated-32g"}),
    ],
)  # fmt: skip
def test_a_question_means(text: str, ids: set[str]) -> None:
    assert resolve_question(text) == ids


def test_the_family_a100_is_every_a100_and_nothing_else() -> None:
    a100 = resolve_question("A100")
    assert a100 == {
        "a100-unstated", "a100-unstated-40g", "a100-unstated-80g", "a100-pcie-40g",
        "a100-sxm4-40g", "a100-pcie-80g", "a100-sxm4-80g",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("h20", "h200"), ("a100", "a800"), ("l40", "l40s"), ("a10", "a10g")),
        *(("a10", "a100"), ("l4", "l40"), ("t4", "t4g"), ("v100", "v100s")),
    ],
)
def test_a_prefix_or_a_look_alike_is_another_model(one: str, other: str) -> None:
    assert resolve_question(one).isdisjoint(resolve_question(other))


@pytest.mark.parametrize(
    ("text", "did_you_mean"),
    [
        ("A100-8", ["a100-80g", "a100-40g"]),
        ("8x A100-8", ["a100-80g", "a100-40g"]),
        ("V100-64GB", ["v100-16g", "v100-32g"]),
        ("L4 (999 GB)", ["l4"]),
        ("L4 (shared)", ["l4"]),
        ("非L4", ["l4", "l40"]),
        ("RTX A6000 (Ada)", ["rtx-a6000"]),
        ("RTX 3090 (Ti)", ["rtx3090"]),
        ("A800 (A100)", ["a800-80g", "a800-40g"]),
        ("H100 (SXM6)", ["h100-80g", "h100-94g"]),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", ["rtx-pro-6000"]),
        ("", []),
        ("()", []),
        ("qqqqqqqq", []),
    ],
)
def test_an_unknown_name_is_refused_with_names_like_it(text: str, did_you_mean: list[str]) -> None:
    with pytest.raises(UnknownAccelerator) as refused:
        resolve_question(text)
    assert refused.value.text == text
    assert refused.value.did_you_mean == did_you_mean


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("RTX 6000", {"quadro-rtx-6000", "rtx-6000-ada", "rtx-pro-6000"}),
        ("rtx6000 (Turing)", {"quadro-rtx-6000", "rtx-6000-ada", "rtx-pro-6000"}),
        ("RTX-5000", {"quadro-rtx-5000", "rtx-5000-ada"}),
    ],
)
def test_a_name_over_families_is_refused_with_its_choices(text: str, choices: set[str]) -> None:
    with pytest.raises(UnknownAccelerator) as refused:
        resolve_question(text)
    assert set(refused.value.did_you_mean) == choices


@pytest.mark.parametrize(
    ("text", "first"), [("h10", "h100"), ("mi300", "mi300x"), ("l4s", "l40s"), ("rtx4900", "rtx4090")]
)
def test_a_slip_of_the_finger_is_never_silently_the_nearest(text: str, first: str) -> None:
    with pytest.raises(UnknownAccelerator, match=f"did you mean {first} or ") as refused:
        resolve_question(text)
    assert refused.value.did_you_mean[0] == first


@given(st.text(max_size=40) | st.sampled_from([m.name for m in MODELS]).map(lambda name: name[:-1]))
def test_every_suggestion_resolves(text: str) -> None:
    found = answer(text)
    for name in found if isinstance(found, tuple) else ():
        assert resolve_question(name)


def test_every_id_group_family_name_and_alias_resolves_to_its_row() -> None:
    for model in MODELS:
        assert resolve_question(model.id) == {model.id}
        assert resolve_question(model.group) == members(group=model.group)
        assert resolve_question(model.family) == members(family=model.family)
        for name in (model.name, *model.aliases):
            assert model.id in resolve_question(name)


NAMES = sorted({name for m in MODELS for name in (m.id, m.group, m.family, m.name, *m.aliases, *m.ambiguous_aliases)})


@given(name=st.sampled_from(NAMES), data=st.data())
def test_case_spaces_and_punctuation_never_change_the_answer(name: str, data: st.DataObject) -> None:
    noise = st.text("-_./()+* \t", max_size=2)
    letters = [c for c in name if c.isalnum()]
    changed = "".join(data.draw(noise) + data.draw(st.sampled_from([c.lower(), c.upper()])) for c in letters)
    assert answer(changed + data.draw(noise)) == answer(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_or_shorter_name_is_never_taken_for_a_part_of_it(name: str) -> None:
    for other in (f"{name}zz", f"zz{name}"):
        with pytest.raises(UnknownAccelerator):
            resolve_question(other)


# Offers


def test_the_table_of_offers_is_not_empty() -> None:
    assert len(OFFERS) > 100


@pytest.mark.parametrize(
    "case", OFFERS, ids=lambda c: f"{c['provider']} {c['raw']} {c['instance_type']} {c['vram_mib']}"
)
def test_a_providers_spelling_means(case: dict[str, str]) -> None:
    found = resolve_offer(
        case["raw"],
        provider=case["provider"],
        instance_type=case["instance_type"] or None,
        vram_mib=int(case["vram_mib"]) if case["vram_mib"] else None,
    )
    assert found == (case["id"] or None)


def test_six_near_identical_cards_are_six_models() -> None:
    names = ["NVIDIA RTX 6000 Ada Generation", "Quadro RTX 6000", "NVIDIA RTX A6000"]
    names += ["NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H100 PCIe"]
    found = {resolve_offer(name, provider="generic") for name in names}
    assert None not in found
    assert len(found) == 6


def test_an_offer_of_unstated_form_meets_its_group_and_not_a_form() -> None:
    offer = resolve_offer("A100-80GB", provider="generic")
    assert offer in resolve_question("a100-80g")
    assert offer in resolve_question("a100")
    assert offer not in resolve_question("a100-sxm4-80g")
    assert offer not in resolve_question("a100-40g")


def test_a_v100_of_unstated_memory_is_no_16_and_no_32() -> None:
    offer = resolve_offer("V100", provider="generic")
    assert offer is not None
    assert accelerators()[offer].vram_mib is None
    assert offer in resolve_question("v100")
    assert offer not in resolve_question("v100-16g") | resolve_question("v100-32g")


def test_a_name_for_export_to_china_is_not_corrected_into_another() -> None:
    a800 = resolve_offer("NVIDIA A800", provider="alibaba", vram_mib=81920)
    h20 = resolve_offer("NVIDIA H20", provider="alibaba", vram_mib=98304)
    assert a800 in resolve_question("a800")
    assert a800 not in resolve_question("a100")
    assert h20 in resolve_question("h20")
    assert h20 not in resolve_question("h200")


@given(model=st.sampled_from(MODELS), data=st.data())
def test_a_stated_memory_never_yields_a_sibling_of_another_memory(model: Accelerator, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([model.name, *model.aliases]))
    sizes = sorted({m.vram_mib for m in MODELS if m.family == model.family and m.vram_mib})
    stated = data.draw(st.sampled_from(sizes or [1024]))
    found = resolve_offer(name, provider="generic", vram_mib=stated)
    if sizes and found is not None:
        nominal = accelerators()[found].vram_mib
        assert nominal is None or same_memory(stated, nominal)
