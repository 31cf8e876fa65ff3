"""Autograd functions that take time: the runtime's I and W then separate what they stand for."""
import time

import torch


class SleepX(torch.autograd.Function):
    """The input's path: sleeps in the forward (F) and in the gradient of the input (I)."""

    @staticmethod
    def forward(ctx, x, forward_seconds, input_seconds):
        ctx.input_seconds = input_seconds
        time.sleep(forward_seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.input_seconds)
        return grad.clone(), None, None


class SleepW(torch.autograd.Function):
    """The weight's path: sleeps only in the gradient of the weight (W)."""

    @staticmethod
    def forward(ctx, weight, weight_seconds):
        ctx.weight_seconds = weight_seconds
        return weight.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.weight_seconds)
        return grad.clone(), None
