# The older way: options in a string. The tokenizer knows the vocabulary.
GPT_ARGS="
    --num-layers 40 --hidden-size 5120 --num-attention-heads 40 \
    --seq-length 4096 --max-position-embeddings 4096 \
    --tokenizer-type Llama2Tokenizer --tokenizer-model $TOKENIZER \
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel \
    --micro-batch-size 2 --global-batch-size $GBS --use-distributed-optimizer --bf16
"
GPT_ARGS="$GPT_ARGS --use-flash-attn"
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py $GPT_ARGS
