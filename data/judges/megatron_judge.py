"""Megatron's own verdict on command lines, without an accelerator: a program of its own, because each version is a
package `megatron` and has to be imported by itself.

    python megatron_judge.py [FOLDER] < questions.jsonl > answers.jsonl

FOLDER holds an unpacked wheel of megatron-core, if it is not installed. A question has `world`, `flags`, `environment`, `capability` (of the
accelerator) and `transformer_engine` (its version), or is whether there is an `option`. An answer is null or why the line is refused. From 0.17 on the wheel
has Megatron-LM's parser, which is asked first; then, and in older wheels alone, the configuration classes are.

What is asked of an accelerator is answered here, and neither Triton nor Transformer Engine is imported: nothing is run.
"""
import copy
import importlib.util
import inspect
import json
import os
import sys
import types
import typing

import torch
import typing_extensions
from judge import answer_all, stand_in_for_triton

typing.override = getattr(typing, "override", typing_extensions.override)  # Python 3.12 has it


def stand_in_for_accelerator(capability, transformer_engine):
    import megatron.core.utils as utils
    from packaging.version import Version
    torch.cuda.get_device_capability = lambda *_, **__: tuple(capability)
    torch.cuda.get_device_properties = lambda *_, **__: types.SimpleNamespace(
        major=capability[0], minor=capability[1], total_memory=80 << 30, name="none")
    torch.cuda.current_device = lambda: 0
    # Only the names of its arguments are looked at.
    sys.modules["transformer_engine.pytorch.optimizers"] = types.SimpleNamespace(
        FusedAdam=lambda params, master_weight_dtype, exp_avg_dtype, exp_avg_sq_dtype, use_decoupled_grad,
        store_param_remainders: None)
    utils.get_te_version = lambda: Version(transformer_engine)
    utils._te_version = Version(transformer_engine)


def whole_parser():
    from megatron.training import arguments
    if not hasattr(arguments, "whole_parser"):  # a thousand options: made once
        import argparse
        arguments.whole_parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
        arguments.add_megatron_arguments = lambda _: arguments.whole_parser
    return arguments.whole_parser


def by_parser(flags):
    from megatron.training import arguments
    whole_parser()
    sys.argv = ["pretrain_gpt.py", *flags]
    args = copy.deepcopy(arguments.parse_args())  # lists of the parser's defaults are changed in place
    args = arguments.validate_args(args, {}) or args
    arguments.core_transformer_config_from_args(args)


# Options that are not called like the field they set.
FIELDS = {
    "num_experts": "num_moe_experts", "moe_router_topk": "moe_router_topk", "swiglu": "gated_linear_unit",
    "num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size",
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
    "fp8_format": "fp8", "fp4_format": "fp4", "fp8_param_gather": "fp8_param", "norm_epsilon": "layernorm_epsilon",
    "microbatch_group_size_per_virtual_pipeline_stage": "microbatch_group_size_per_vp_stage",
    "expert_tensor_parallel_size": "expert_tensor_parallel_size",
}


def by_classes(flags):
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    options, name = {}, ""
    for word in flags:
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            options[name] = []
        else:
            options[name].append(json.loads(word) if word.lstrip("-").replace(".", "", 1).isdigit() else word)
    given = {}
    for name, words in options.items():
        lists = name in ("recompute_modules", "offload_modules", "hierarchical_context_parallel_sizes")
        value = words if lists else words[0] if words else True
        given[FIELDS.get(name, name)] = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(value, value) if not lists else value
    given |= {"add_bias_linear": "disable_bias_linear" not in given, "pipeline_dtype": torch.bfloat16,
              "params_dtype": torch.bfloat16, "use_cpu_initialization": True, "apply_rope_fusion": False}
    if "no_gradient_accumulation_fusion" in given:
        given["gradient_accumulation_fusion"] = False
    if given.get("tensor_model_parallel_size", 1) == 1:
        given.pop("sequence_parallel", None)  # as the training script does
    kinds = [MLATransformerConfig if "multi_latent_attention" in given else TransformerConfig,
             DistributedDataParallelConfig, OptimizerConfig]
    for kind in kinds:
        known = inspect.signature(kind).parameters
        kind(**{name: value for name, value in given.items() if name in known})


def verdict(question):
    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "NVTE_CPU_OFFLOAD_V1"):
        os.environ.pop(name, None)
    os.environ.update(question["environment"], RANK="0", WORLD_SIZE=str(question["world"]))
    stand_in_for_accelerator(question["capability"], question["transformer_engine"])
    if "option" in question:
        assert question["option"] in whole_parser()._option_string_actions, "no such option"
        return
    places = importlib.util.find_spec("megatron").submodule_search_locations
    whole = any(os.path.exists(os.path.join(place, "training", "arguments.py")) for place in places)
    (by_parser if whole else by_classes)(question["flags"])


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:]
    stand_in_for_triton()
    answer_all(verdict)
