torchrun --nproc-per-node 8 pretrain_gpt.py \
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 \
    --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 --bf16 \
    --tensor-model-parallel-size 2 --tensor-parallel-num-weight-shards 4 --hybrid-context-parallel
