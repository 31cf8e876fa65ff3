"""A folder in which exported plans of the tiny model are trained by the real torchtitan on CPU processes."""
import json
import os
import pathlib
import re

import tiny_torchtitan
from compared import Steps, run

HERE = pathlib.Path(__file__).resolve().parent
STEP = re.compile(r"step: *(\d+) +loss: *(-?[\d.]+) +grad_norm: *([\d.]+)")


class TorchtitanPlace:
    def __init__(self, folder: pathlib.Path, python: pathlib.Path):
        """`python` has torchtitan. All runs start with the weights of one checkpoint, whatever their layout."""
        self.folder, self.python = folder, python
        (folder / "bin").mkdir()
        shim = folder / "bin/torchrun"  # launch.sh as it is exported, but for the device
        shim.write_text(f"#!{python}\nimport sys\nfrom torch.distributed.run import main\nwords = sys.argv[1:]\n"
                        "if '-m' in words:\n    at = words.index('-m')\n"
                        f"    words[at:at + 2] = ['{HERE}/torchtitan_on_cpu.py']\nmain(words)\n")
        shim.chmod(0o755)
        (folder / "tiny.json").write_text(json.dumps(tiny_torchtitan.CONFIG))
        run([python, HERE / "tiny_torchtitan.py", folder / "assets"])
        run([shim, "--nproc-per-node", "1", "--standalone", HERE / "torchtitan_on_cpu.py", "--module", "tiny_torchtitan", "--config",
             "tiny", "--dump_folder", folder / "seed", "--checkpoint.enable", "--checkpoint.create_seed_checkpoint"],
            self.environment())

    def environment(self, port: int = 29500) -> dict[str, str]:
        return {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1",
                "TINY_ASSETS": f"{self.folder}/assets", "TINY_BATCH": "8", "HF_HOME": f"{self.folder}/hf", "HF_HUB_OFFLINE": "1",
                "HF_DATASETS_OFFLINE": "1", "MODULE": "tiny_torchtitan", "CONFIG": "tiny", "MASTER_PORT": str(port)}

    def words(self, steps: int | str) -> list[str]:
        """What launch.sh is given beside its settings. The default backend of 0.3.0 wants a newer PyTorch for FSDP and TP."""
        return ["--training.steps", str(steps), "--parallelism.spmd_backend", "partial_dtensor", "--checkpoint.enable",
                "--checkpoint.load_only", "--checkpoint.initial_load_path", f"{self.folder}/seed/checkpoint/step-0"]

    def train(self, plan: pathlib.Path, port: int, steps: int, more: list[str]) -> str:
        """The log of an exported plan."""
        words = self.words(steps) + ["--dump_folder", f"{plan}/out", *more]
        return run(["bash", plan / "launch.sh", *words], self.environment(port))


def steps_of(log: str) -> Steps:
    """Loss and norm of gradients of each step as printed by a rank with the last stage; the others print a loss of -1."""
    found = {int(number): (loss, norm) for number, loss, norm in STEP.findall(log) if not loss.startswith("-")}
    return [found[number] for number in sorted(found)]
