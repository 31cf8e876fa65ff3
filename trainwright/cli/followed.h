#pragma once
// Files that a user's own file names: they are read where they stand beside it, or else in the
// current folder. Without them nobody knows how weights are sharded, and no answer is given unless
// the layout that was asked for says it.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright::cli {

// "launch.sh" for the one who has to look there.
std::string file_named(const std::string& path);
std::string beside(const std::string& config, const std::string& path);

// A ds_config.json that `where` of `config` names; `layout` are entries that go before it.
struct NamedFile {
  const std::string& config;
  const std::string& where;
  const std::string& path;
  const std::string& layout;
};
// Its entries. What of it is not counted is told.
Result<std::string> deepspeed_of(const NamedFile& named, const std::string& data,
                                 Understood& understood);
// What DeepSpeed's own list makes of such settings, wherever they stand.
Result<void> tell_deepspeed(const std::vector<Setting>& settings, const std::string& file,
                            const std::string& data, Understood& understood);

// The settings with those of the file that the Trainer's fsdp_config names, if it names one.
Result<std::vector<Setting>> with_fsdp_file(const std::string& config,
                                            std::vector<Setting> settings,
                                            std::vector<std::string>& notes);

// What accelerate is told by a script that it launches: its file's settings, then its options.
struct LaunchSettings {
  std::vector<Setting> settings;
  std::string file;  // its own, "fsdp.yaml", or the script
  std::vector<std::string> notes;
};
Result<std::optional<LaunchSettings>> launch_settings_of(const std::string& config,
                                                         const std::string& text, SettingsForm form,
                                                         const std::string& layout);

}  // namespace trainwright::cli
