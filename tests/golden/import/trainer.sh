deepspeed --num_gpus 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --deepspeed ds_zero3.json \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --gradient_checkpointing True \
  --max_seq_length 4096 --bf16 True --learning_rate 2e-5
