"""Trainwright in Python. Only `trainwright.engine` touches PyTorch."""
