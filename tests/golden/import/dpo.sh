accelerate launch trl/scripts/dpo.py \
    --model_name_or_path Qwen/Qwen3-8B --dataset_name trl-lib/ultrafeedback_binarized \
    --per_device_train_batch_size 1 --max_length 2048 --use_peft
