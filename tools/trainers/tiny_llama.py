"""The tiny model of DeepSpeed's runs as a Hugging Face configuration, which trainwright reads: llama_config(64, 8, 512, 4)."""
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": 64,
          "intermediate_size": 176, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
          "max_position_embeddings": 2048, "tie_word_embeddings": False}
