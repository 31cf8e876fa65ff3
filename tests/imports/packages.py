"""The closed lists of keys that programs take, drawn from their own sources without importing them."""
import ast
import pathlib
import re


def _classes(files):
    """Every class of these files by its name."""
    found = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, node)
    return found


def _name(base):
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""


def _is_field(node):
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return False
    name, kind = node.target.id, ast.unparse(node.annotation)
    if name.startswith("_") or name == "model_config" or kind.startswith(("ClassVar", "InitVar")):
        return False
    # What a class works out for itself is no argument of it.
    return "init=False" not in ast.unparse(node)


def _aliases(node):
    return re.findall(r"\balias='(\w+)'", ast.unparse(node))


def _fields(classes, name, seen=None):
    """Its own fields and those of its bases: name -> annotation."""
    seen = set() if seen is None else seen
    if name not in classes or name in seen:
        return {}
    seen.add(name)
    fields = {}
    for base in classes[name].bases:
        fields |= _fields(classes, _name(base), seen)
    for node in classes[name].body:
        if _is_field(node):
            fields[node.target.id] = ast.unparse(node.annotation)
            fields |= {alias: fields[node.target.id] for alias in _aliases(node)}
    return fields


def _flat(classes, name, prefix="", within=()):
    """Fields with a model of their own for a value are sections: section.key."""
    keys = []
    for key, kind in _fields(classes, name).items():
        keys.append(prefix + key)
        inner = [word for word in re.findall(r"\w+", kind) if word in classes and word not in within]
        if "list[" in kind.lower() or "dict[" in kind.lower():
            continue
        for one in inner:
            if _fields(classes, one):
                keys += _flat(classes, one, prefix + key + ".", (*within, one))
    return keys


def _python_files(folder, pattern="**/*.py"):
    return sorted(folder.glob(pattern))


def transformers(packages):
    file = packages / "transformers/transformers/training_args.py"
    # Keys of fsdp_config have no class: those that the code asks for.
    asked = re.findall(r"""fsdp_config(?:\[|\.get\(|\.setdefault\()["'](\w+)["']""", file.read_text())
    asked = {"fsdp_config." + ("fsdp_version" if key == "version" else key) for key in asked}
    return sorted(set(_fields(_classes([file]), "TrainingArguments")) | asked)


def axolotl(packages):
    root = packages / "axolotl/axolotl"
    classes = _classes(_python_files(root / "utils/schemas") + _python_files(root / "integrations", "*/args.py"))
    keys = set(_flat(classes, "AxolotlInputConfig"))
    # A plugin names the class of its keys.
    for file in _python_files(root / "integrations"):
        for name in re.findall(r'return "axolotl\.integrations\.[\w.]+\.(\w+)"', file.read_text()):
            keys |= set(_flat(classes, name))
    return sorted(keys)


def llamafactory(packages):
    folder = packages / "llamafactory/llamafactory/hparams"
    classes = _classes(_python_files(folder))
    keys = set(transformers(packages))
    for name in ("ModelArguments", "DataArguments", "TrainingArguments", "FinetuningArguments", "GeneratingArguments"):
        keys |= set(_fields(classes, name))
    return sorted(keys)


TRL_SFT = ("SFTConfig", "ModelConfig", "ScriptArguments", "DatasetMixtureConfig")


def trl_classes(packages):
    root = packages / "trl/trl"
    return _classes(_python_files(root / "trainer", "*_config.py") + [root / "scripts/utils.py"])


def trl(packages):
    classes, keys = trl_classes(packages), set(transformers(packages))
    for name in classes:
        if name.endswith("Config") or name == "ScriptArguments":
            keys |= set(_fields(classes, name))
    return sorted(keys)


def optimizers(packages):
    """Values of the enums of optimizers that the Trainer and axolotl accept."""
    files = {"OptimizerNames": packages / "transformers/transformers/training_args.py",
             "CustomSupportedOptimizers": packages / "axolotl/axolotl/utils/schemas/enums.py"}
    return {ast.literal_eval(node.value) for name, file in files.items() for node in _classes([file])[name].body
            if isinstance(node, ast.Assign)}


def _is_optional_bool(node):
    return ast.unparse(node.annotation) in ("bool", "Optional[bool]", "bool | None")


def _option_names(name, node):
    """As argument_utils.py ArgumentGroupFactory makes them: --no-x and --disable-x where x is usual."""
    text = ast.unparse(node.value) if node.value is not None else ""
    meta = re.search(r"'arg_names': \[([^]]*)\]", text)
    if meta:
        return re.findall(r"'(--[\w-]+)'", meta.group(1))
    option = name.replace("_", "-")
    usual = re.search(r"(?:^|default=)True", text)
    if _is_optional_bool(node) and usual:
        return [f"--no-{option}", f"--disable-{option}"]
    return [f"--{option}"]


def _dataclass_nodes(classes, name, seen=None):
    seen = set() if seen is None else seen
    if name not in classes or name in seen:
        return {}
    seen.add(name)
    nodes = {}
    for base in classes[name].bases:
        nodes |= _dataclass_nodes(classes, _name(base), seen)
    return nodes | {node.target.id: node for node in classes[name].body if _is_field(node)}


def megatron(folder):
    """Options of Megatron-LM's arguments.py: written out, and made of the fields of its classes."""
    root = folder / "megatron"
    tree = ast.parse((root / "training/arguments.py").read_text())
    classes = _classes(_python_files(root / "training/config") + [root / "core/transformer/transformer_config.py",
                       root / "core/model_parallel_config.py"] + _python_files(root / "training", "*.py"))
    lists = {node.targets[0].id: node.value for node in ast.walk(tree)
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List)}
    options = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            options |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and str(arg.value).startswith("--")}
        if _name(node.func) == "ArgumentGroupFactory":
            exclude = next((word.value for word in node.keywords if word.arg == "exclude"), None)
            exclude = lists.get(exclude.id) if isinstance(exclude, ast.Name) else exclude
            left_out = set(ast.literal_eval(exclude)) if exclude is not None else set()
            for name, field in _dataclass_nodes(classes, _name(node.args[0])).items():
                if name not in left_out:
                    options |= set(_option_names(name, field))
    return sorted(options)


def accelerate(packages):
    """Keys of its file: fields of ClusterConfig, and of its sections what `accelerate launch` has options for."""
    root = packages / "accelerate/accelerate/commands"
    keys = set(_fields(_classes([root / "config/config_args.py"]), "ClusterConfig"))
    keys |= set(_fields(_classes([root / "config/config_args.py"]), "BaseConfig"))
    sections = {"fsdp_args": "fsdp_config", "deepspeed_args": "deepspeed_config", "megatron_lm_args": "megatron_lm_config",
                "fp8_args": "fp8_config", "parallelism_config_args": "parallelism_config"}
    for node in ast.walk(ast.parse((root / "launch.py").read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
            continue
        section, names = sections.get(ast.unparse(node.func.value)), [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        if section:
            key = names[0].removeprefix("--")
            keys.add(f"{section}.{key.removeprefix('fsdp_') if section == 'fsdp_config' and key != 'fsdp_version' else key}")
    return sorted(keys)


def deepspeed(folder):
    """Keys of its JSON: names that its code asks for, and sections by their classes."""
    root = folder / "deepspeed/runtime"
    tree = ast.parse((root / "constants.py").read_text())
    names = {node.targets[0].id: node.value.value for node in ast.walk(tree)
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)}
    keys = {value for name, value in names.items() if isinstance(value, str) and re.fullmatch(r"[a-z0-9_]+", value) and not name.endswith("DEFAULT")}
    classes = _classes(_python_files(root / "zero", "*.py") + [root / "precision_config.py", root / "zenflow/zenflow_config.py",
                       root / "tensor_parallel/config.py", folder / "deepspeed/compile/config.py"])
    for section, name in (("zero_optimization", "DeepSpeedZeroConfig"), ("bf16", "DeepSpeedBF16Config"), ("fp16", "DeepSpeedFP16Config"),
                          ("tensor_parallel", "TPTrainingConfig"), ("compile", "CompileConfig")):
        keys |= {section, *_flat(classes, name, section + ".")}
    return sorted(keys)
