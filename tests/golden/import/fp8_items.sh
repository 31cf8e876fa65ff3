#!/bin/bash
# Options with their values as one item, in the way of Megatron-LM's examples/llama: a shell cuts them where no quotes stand.
DTYPE=${DTYPE:-fp8}
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope
    --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
)
TRAINING_ARGS=(
    "--micro-batch-size 1"
    "--global-batch-size 128"
    --bf16
)
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=(
        "--fp8-format hybrid"
        "--fp8-param-gather"
    )
fi
DDP_ARGS=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
TRAINING_ARGS+=("${DDP_ARGS[@]}")
DATA_ARGS=(
    "--tokenizer-type NullTokenizer"
    "--vocab-size 128256"
    "--split '99,1,0'"
)
torchrun --nproc_per_node 8 pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${DTYPE_ARGS[@]} \
    ${DATA_ARGS[@]}
