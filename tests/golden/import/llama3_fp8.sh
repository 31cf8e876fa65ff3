torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --swiglu \
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 128256 --disable-bias-linear \
  --untie-embeddings-and-output-weights --normalization RMSNorm --position-embedding-type rope --max-position-embeddings 8192 \
  --hidden-dropout 0 --attention-dropout 0 --seq-length 8192 --micro-batch-size 1 --global-batch-size 128 --bf16 --grad-reduce-in-bf16 --fp8-format hybrid \
  --fp8-param-gather --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer
