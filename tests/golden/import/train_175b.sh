#!/bin/bash
# GPT of 175B parameters on 16 nodes, in the way of Megatron-LM's examples: arrays of options.
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
MICRO_BATCH=1
GLOBAL_BATCH=$((MICRO_BATCH * WORLD_SIZE * 12))

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)

MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # flash, fused, unfused or local
    --vocab-size 50257
)

TRAINING_ARGS=(
    --micro-batch-size $MICRO_BATCH
    --global-batch-size $GLOBAL_BATCH
    --rampup-batch-size 16 16 5859375
    --train-iters 500000
    --lr 6.0e-5
    --recompute-activations
    --bf16
)
TRAINING_ARGS+=(--use-distributed-optimizer)

if [ "$USE_FP8" = 1 ]; then
    TRAINING_ARGS+=(--fp8-format hybrid)
fi

MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--sequence-parallel
	--num-layers-per-virtual-pipeline-stage 3
	--pipeline-model-parallel-size 16
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${MODEL_PARALLEL_ARGS[@]} "$@"
