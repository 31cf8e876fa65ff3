#include "trainwright/export/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/export/form.h"

namespace trainwright::detail {

std::int64_t per_node(const Cluster& cluster) {
  return accelerator_count(cluster) / std::max<std::int64_t>(node_count(cluster), 1);
}

std::string run_name(const Plan& plan) {
  constexpr std::size_t kLongest = 40;  // with "-node-0-127" and five letters a host has at most 63
  std::string name;
  for (const char c : lower_case(plan.model.name)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain || (!name.empty() && name.back() != '-')) name += plain ? c : '-';
  }
  if (name.empty() || name.front() < 'a') name.insert(0, "run-");
  name.resize(std::min(name.size(), kLongest));
  while (name.ends_with('-')) name.pop_back();
  return name;
}

namespace {

std::string ask(const Asked& asked) {
  return fmt::format(": \"${{{}:?{}}}\"\n", asked.name, asked.what);
}

// What the model's own arguments are where the settings do not name one.
bool names_model(const Translation& translation) {
  return std::any_of(translation.settings.begin(), translation.settings.end(),
                     [](const Setting& setting) { return setting.of.starts_with("model"); });
}

constexpr const char* kTorchrun =
    "torchrun --nnodes \"$NODES\" --nproc-per-node \"$PER_NODE\" --node-rank \"$NODE_RANK\" \\\n"
    "  --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n  ";

std::string megatron_lines() {
  return std::string("source settings.sh\n") + kTorchrun +
         "\"$MEGATRON/pretrain_gpt.py\" \"${MODEL[@]}\" \"${SETTINGS[@]}\" $TRAINING\n";
}

std::string titan_lines(const Target& target, const Translation& translation) {
  const bool named = names_model(translation);
  if (target.form == SettingsForm::Toml) {
    return std::string(kTorchrun) + "-m torchtitan.train --job.config_file torchtitan.toml " +
           (named ? "" : "--model.name \"$NAME\" --model.flavor \"$FLAVOR\" ") + "\"$@\"\n";
  }
  const bool changed =
      std::any_of(translation.settings.begin(), translation.settings.end(), is_of_module);
  std::string text;
  if (changed) {
    text += "export PYTHONPATH=\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"  # for trainwright_config.py\n";
    if (!named) text += "export MODULE CONFIG  # which it changes\n";
  }
  return text + "source settings.sh\n" + kTorchrun + "-m torchtitan.train " +
         (named || changed ? "" : "--module \"$MODULE\" --config \"$CONFIG\" ") +
         "\"${SETTINGS[@]}\" " + (changed ? "--module trainwright_config --config plan " : "") +
         "\"$@\" \"${SUBCOMMANDS[@]}\"\n";
}

std::string deepspeed_lines() {
  return "# For a script that calls deepspeed.add_config_arguments. One of Hugging Face's "
         "Trainer "
         "takes\n"
         "# CONFIG='--deepspeed ds_config.json' and the arguments of training_arguments.yaml.\n"
         "CONFIG=${CONFIG:---deepspeed --deepspeed_config ds_config.json}\n"
         "deepspeed --no_ssh --num_nodes \"$NODES\" --num_gpus \"$PER_NODE\" --node_rank "
         "\"$NODE_RANK\" \\\n  --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\" \\\n"
         "  \"$SCRIPT\" $CONFIG \"$@\"\n";
}

std::string script_lines(const Target& target, const Translation& translation) {
  switch (target.launcher) {
    case Launcher::Megatron: return megatron_lines();
    case Launcher::Titan: return titan_lines(target, translation);
    case Launcher::Deepspeed: return deepspeed_lines();
    case Launcher::Accelerate:
      return "accelerate launch --config_file accelerate.yaml --machine_rank \"$NODE_RANK\" \\\n"
             "  --main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\" \\\n"
             "  \"$SCRIPT\" \"$@\"\n";
    case Launcher::Bridge:
      return std::string("source settings.sh\n") + kTorchrun +
             "\"$SCRIPT\" \"${SETTINGS[@]}\" \"$@\"\n";
    case Launcher::Automodel:
      return std::string(kTorchrun) + "-m nemo_automodel.cli.app \"$RECIPE\" \"$@\"\n";
    case Launcher::Nanotron:
      return std::string(kTorchrun) + "\"$NANOTRON/run_train.py\" --config-file \"$CONFIG\"\n";
    case Launcher::Paddle:
      return "source settings.sh\n"
             "python -m paddle.distributed.launch --nnodes \"$NODES\" --nproc_per_node "
             "\"$PER_NODE\" \\\n"
             "  --master \"$MASTER_ADDR:$MASTER_PORT\" --rank \"$NODE_RANK\" \\\n"
             "  \"$SCRIPT\" \"${SETTINGS[@]}\" \"$@\"\n";
  }
  TW_CHECK(false, "no such launcher");
}

}  // namespace

std::vector<Asked> asked_of_user(const Target& target, const Translation& translation) {
  const Asked script = {"SCRIPT", "your training script"};
  switch (target.launcher) {
    case Launcher::Megatron:
      return {
          {"MEGATRON", "path of Megatron-LM"},
          {"TRAINING", "data, tokenizer, learning rate: '--mock-data --train-iters 10 --lr 1e-4'"}};
    case Launcher::Titan:
      if (names_model(translation)) return {};
      if (target.form == SettingsForm::Toml) {
        return {{"NAME", "model.name of torchtitan, such as llama3"},
                {"FLAVOR", "model.flavor of that name, such as 8B"}};
      }
      return {{"MODULE", "--module of torchtitan with this model"},
              {"CONFIG", "--config of that module"}};
    case Launcher::Bridge:
      return {{"SCRIPT", "a script of Megatron-Bridge that builds a recipe and takes overrides"}};
    case Launcher::Automodel:
      return {{"RECIPE", "your recipe with model, data and optimizer; merge recipe.yaml into it"}};
    case Launcher::Nanotron:
      return {{"NANOTRON", "path of nanotron, for its run_train.py"},
              {"CONFIG", "your configuration; merge nanotron.yaml into it"}};
    case Launcher::Deepspeed:
    case Launcher::Accelerate:
    case Launcher::Paddle: return {script};
  }
  TW_CHECK(false, "no such launcher");
}

std::string launch_script(const Plan& plan, const Target& target, const Translation& translation) {
  const std::int64_t nodes = node_count(plan.cluster);
  std::string text = "#!/usr/bin/env bash\n";
  text += nodes == 1 ? "# Starts the plan on this node.\n"
                     : fmt::format(
                           "# Starts the plan; on each of the {} nodes:\n"
                           "#   NODE_RANK=0 MASTER_ADDR=first-node bash launch.sh\n",
                           nodes);
  text += "set -euo pipefail\ncd \"$(dirname \"$0\")\"\n";
  text += fmt::format("NODES={} PER_NODE={}\n", nodes, per_node(plan.cluster));
  if (nodes == 1) {
    text += "NODE_RANK=0 MASTER_ADDR=localhost\n";
  } else {
    text += ask({"NODE_RANK", "number of this node, from 0"}) +
            ask({"MASTER_ADDR", "name of the first node"});
  }
  text += "MASTER_PORT=${MASTER_PORT:-29500}\n";
  for (const Setting& setting : translation.settings) {
    if (!is_environment(setting)) continue;
    text += fmt::format("export {}={}{}\n", setting.key, shell_word(setting.values.front()),
                        comment_behind(setting));
  }
  if (plan.trainer.allocator.expandable_segments) {
    text += fmt::format("export {}  # as the estimate assumes\n", plan.trainer.allocator.setting);
  }
  for (const Asked& one : asked_of_user(target, translation)) text += ask(one);
  return text + script_lines(target, translation);
}

namespace {

// Slurm reads quotes and blanks of such lines as a shell would.
std::string job_name(const Plan& plan) {
  constexpr std::size_t kLongest = 64;
  std::string name = plan.model.name.substr(0, kLongest);  // "llama of 8.03 B parameters"
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '_' && c != '-'; }, '-');
  return name;
}

}  // namespace

std::string sbatch_script(const Plan& plan) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n"
      "# Account, partition and time limit are yours: sbatch --account ... --time ... sbatch.sh\n"
      "set -euo pipefail\n"
      "cd \"$SLURM_SUBMIT_DIR\"\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_ADDR\n"
      "srun bash -c 'NODE_RANK=$SLURM_NODEID bash launch.sh'\n",
      job_name(plan), node_count(plan.cluster), per_node(plan.cluster));
}

}  // namespace trainwright::detail
