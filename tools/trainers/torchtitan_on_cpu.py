"""`python -m torchtitan.train` of torchtitan 0.3.0 with PyTorch 2.13.0 on CPU and Gloo, for checks without an accelerator.

    torchrun --nproc-per-node 4 tools/trainers/torchtitan_on_cpu.py ARGUMENTS

Nothing of the training is changed: each patch stands for something that only an accelerator or another PyTorch has. One is
about the data: torchtitan deals out documents to data-parallel ranks, so that their number decides what is in a step; here
every rank takes its rows of the step that one process would read.
"""
import os
import resource
import runpy
import sys
import types

import torch
import torch._utils
import torch.distributed.pipelining.schedules as schedules


def without_triton():
    """Kernels of mixtures of experts, the only ones on the way of the imports."""
    module = types.ModuleType("torchtitan.distributed.minimal_async_ep.kernels")
    module.__getattr__ = lambda name: None
    sys.modules[module.__name__] = module


def peak_bytes(device=None):
    del device
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return {"active_bytes.all.peak": peak, "reserved_bytes.all.peak": peak, "num_alloc_retries": 0, "num_ooms": 0}


def device_is_cpu():
    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.get_device_name = lambda device=None: "cpu"
    torch.cpu.get_device_properties = lambda device=None: types.SimpleNamespace(total_memory=24 << 30)
    torch.cpu.reset_peak_memory_stats = lambda device=None: None
    torch.cpu.empty_cache = lambda: None
    torch.cpu.memory_stats = peak_bytes


def step(self, *, arg_mbs=None, kwarg_mbs=None, target_mbs=None, losses=None, loss_kwargs=None, return_outputs=False):
    """0.3.0 hands over micro-batches, which PyTorch 2.13.0's step() does not take."""
    for stage in getattr(self, "_stages", None) or [self._stage]:
        stage.has_backward = self._has_backward
        stage.clear_runtime_states()
    self._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs, loss_kwargs=loss_kwargs)


def gloo_can():
    import torchtitan.distributed.fsdp as fsdp
    import torchtitan.distributed.utils as utils
    utils.set_pg_timeouts = lambda *_, **__: None  # a barrier with device ids

    def sum_of_gradients(model):
        """Gloo has no sum that multiplies first."""
        for module in model.modules():
            if isinstance(module, fsdp.FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
    fsdp.disable_fsdp_gradient_division = sum_of_gradients


def rows_of_one_process(step_size):
    from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataset as Dataset
    begin, samples = Dataset.__init__, Dataset.__iter__

    def begin_whole(self, *given, dp_rank=0, dp_world_size=1, **more):
        begin(self, *given, **more)
        self.own, self.ranks = dp_rank, dp_world_size

    def own_rows(self):
        for number, sample in enumerate(samples(self)):
            if number % step_size * self.ranks // step_size == self.own:
                yield sample

    Dataset.__init__, Dataset.__iter__ = begin_whole, own_rows


if __name__ == "__main__":
    without_triton()
    device_is_cpu()
    gloo_can()
    rows_of_one_process(int(os.environ["TINY_BATCH"]))
    schedules.PipelineScheduleSingle.step = schedules.PipelineScheduleMulti.step = step
    runpy.run_module("torchtitan.train", run_name="__main__")
