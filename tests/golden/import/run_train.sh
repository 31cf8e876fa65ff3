export MODULE=llama3
CONFIG=llama3_8b ./run_train.sh --parallelism.pipeline_parallel_degree 2 \
  --parallelism.pipeline_parallel_schedule Interleaved1F1B --training.global_batch_size 64 --training.disable_cuda_graphs
