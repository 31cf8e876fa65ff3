NPROC_PER_NODE=8 megatron sft \
    --model Qwen/Qwen3-8B --tuner_type lora \
    --tensor_model_parallel_size 2 --micro_batch_size 1 --global_batch_size 16 --max_length 4096
