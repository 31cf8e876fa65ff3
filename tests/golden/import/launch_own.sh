# A loop of one's own, which the Trainer has no part in.
accelerate launch --config_file zero2.yaml train.py --batch_size 4
