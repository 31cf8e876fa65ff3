"""Runs pipeline schedules on PyTorch's own pipeline runtime and says what happened.

    from trainwright.engine import EngineGroup, Job

    with EngineGroup(4) as engine:
        answer = engine.run(Job(csv=open("schedule.csv").read(), steps=3))
        print(answer["status"], answer["gradient_difference"], answer["step_seconds"])

`python -m trainwright.engine run schedule.csv --ranks 4` does the same from the command line.
"""
from .group import EngineFailed, EngineGroup
from .job import Job
from .schedule_csv import Schedule, ScheduleError, read_schedule

__all__ = ["EngineFailed", "EngineGroup", "Job", "Schedule", "ScheduleError", "read_schedule"]
