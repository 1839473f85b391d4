"""The example of `/recommend`: its arithmetic is real, and a test compares it; the offer is invented."""

from collections.abc import Mapping
from typing import Any

_GPUS = (
    "!ascend-910,!ascend-910b,!gaudi,!gaudi2,!gaudi3,!inferentia,!inferentia2,!k80,!m60,!mi25,!mlu370-x8,"
    "!p100,!p4,!p40,!quadro-rtx-5000,!quadro-rtx-6000,!quadro-rtx-8000,!qualcomm-ai100,!radeon-pro-v520,"
    "!radeon-pro-v620,!t4,!t4g,!tpu-v2,!tpu-v3,!tpu-v4,!tpu-v5e,!tpu-v5p,!tpu-v6e,!tpu-v7x,!trainium,"
    "!trainium2,!trainium3,!v100,!v100s,!xilinx-u30"
)

_WHAT: dict[str, Any] = {
    "message": "LoRA of 8B parameters in bf16, 1 x 2048 tokens: 19.67 GiB with a margin of 20 %; 1 GPU, "
    "at least 19.67 GiB.",
    "job": {
        "params": 8000000000,
        "task": "lora",
        "precision": "bf16",
        "context": 2048,
        "batch": 1,
        "adapter_percent": "0.5",
        "margin_percent": "20",
        "layers": 35,
        "hidden": 4480,
        "kv_width": None,
        "estimated": ["hidden", "layers"],
    },
    "terms": [
        {
            "name": "frozen weights",
            "formula": "8,000,000,000 parameters x 2 bytes = 16,000,000,000 bytes",
            "gib": "14.91",
            "source": "Hugging Face on Llama 3.1, inference memory requirements",
        },
        {
            "name": "adapters",
            "formula": "40,000,000 parameters (0.5 % of the model's) x 16 bytes (weight 2, gradient 2, copy 4, Adam 8) "
            "= 640,000,000 bytes",
            "gib": "0.6",
            "source": "LoRA (arXiv:2106.09685), section 4.2",
        },
        {
            "name": "activations, one of each layer",
            "formula": "2,048 tokens x 1 sequences x hidden 4,480 x 35 layers x 2 bytes = 642,252,800 bytes",
            "gib": "0.6",
            "source": "Korthikanti et al. 2022 (arXiv:2205.05198), section 5",
        },
        {
            "name": "activations of a layer at work",
            "formula": "2,048 tokens x 1 sequences x hidden 4,480 x 34 bytes = 311,951,360 bytes",
            "gib": "0.3",
            "source": "Korthikanti et al. 2022 (arXiv:2205.05198), equation 1 without its attention term",
        },
        {
            "name": "margin",
            "formula": "20 % of 17,594,204,160 bytes = 3,518,840,832 bytes",
            "gib": "3.28",
            "source": "Hugging Face Accelerate, model memory estimator, after EleutherAI: up to 20 % more",
        },
    ],
    "need": {
        "total_gib": "19.67",
        "gpus": "1",
        "min_vram_gib": "19.67",
        "undivided_gib": "1.07",
        "nvlink": False,
        "nvlink_reason": "one GPU exchanges nothing with others",
        "spot_fits": True,
        "spot_reason": "it resumes from a checkpoint (adapters and optimizer states, 0.53 GiB): save often",
        "gpu_reason": "35 families are left out: no GPUs, or without matrix units for bf16",
    },
    "assumptions": [
        "layers 35 and hidden 4480 are estimates: the fewest layers with 12 x layers x (128 x layers)^2 >= parameters",
        "activation checkpointing, attention that stores no scores (FlashAttention), and a loss in chunks",
        "AdamW with its states in 32 bits",
        "over several GPUs of one machine weights, gradients and states are sharded (FSDP, ZeRO-3)",
    ],
    "options": [
        {
            "gpus": "1",
            "min_vram_gib": "19.67",
            "nvlink": False,
            "price_per_hour": "0.9169",
            "confirmed": True,
            "chosen": True,
        },
        {
            "gpus": "2..3",
            "min_vram_gib": "11.39",
            "nvlink": True,
            "price_per_hour": None,
            "confirmed": None,
            "chosen": False,
        },
        {
            "gpus": "4..7",
            "min_vram_gib": "6.74",
            "nvlink": True,
            "price_per_hour": None,
            "confirmed": None,
            "chosen": False,
        },
        {
            "gpus": "8..",
            "min_vram_gib": "4.42",
            "nvlink": True,
            "price_per_hour": None,
            "confirmed": None,
            "chosen": False,
        },
    ],
}

_QUERY = {
    "params": {"region": "ap-nanjing", "count": "1", "min_vram": "19.67", "gpu": _GPUS},
    "path": f"/cheapest?region=ap-nanjing&count=1&min_vram=19.67&gpu={_GPUS}",
}


def example(cheapest: Mapping[str, Any]) -> dict[str, Any]:
    """The example, with that of `/cheapest` as its answer but for the machine."""
    l4 = {
        "instance_type": "PNV5b.8XLARGE96",
        "gpu": "l4",
        "gpu_name": "NVIDIA L4",
        "gpu_vram_gib": 24,
        "nvlink": False,
        "vcpus": 32,
        "memory_gib": "96",
        "price_per_hour": "0.9169",
        "price_per_gpu_hour": "0.9169",
        "tier": 0,
    }
    native = cheapest["best"]["native_price"] | {"amount": "6.10", "list_amount": "6.10"}
    tier = cheapest["tiers"][0] | {
        "regions": ["ap-nanjing"],
        "matching": 1,
        "confirmed": 1,
        "out": 0,
        "passed_over": None,
    }
    answer = {
        "message": "1 x NVIDIA L4, PNV5b.8XLARGE96 at tencent ap-nanjing-1: 0.9169 USD (6.1 CNY) per hour, on-demand, "
        "in stock (reported 40 s ago).",
        "best": cheapest["best"] | l4 | {"native_price": native},
        "query": {"count": ["1"], "min_vram": "19.67", "region": ["tencent:ap-nanjing"]},
        "fallback_used": False,
        "tiers": [tier],
    }
    return _WHAT | {"query": _QUERY, "cheapest": dict(cheapest) | answer}
