accelerate launch --config_file elsewhere.yaml train.py --model_name_or_path meta-llama/Llama-3.1-8B \
  --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --gradient_checkpointing True \
  --max_length 4096 --learning_rate 2e-5
