"""Trainwright in Python. Only `trainwright.engine` touches PyTorch, and only when it is used."""


def record(*arguments, **options):
    """Records a PyTorch program's memory; see `trainwright.engine.record`."""
    from .engine.record import record as record_program
    return record_program(*arguments, **options)
