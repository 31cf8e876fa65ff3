#pragma once
// Files of an export in a folder that may hold older ones.
//
// What was written there last is remembered by its hash, in `.trainwright.json` beside it. A file
// that is neither that nor what would be written now is somebody's work, and a link may lead
// anywhere: both are refused, unless --force says that they may go. Then too, a link is replaced
// and what it leads to stays.
#include <string>
#include <vector>

#include "trainwright/cli/command.h"

namespace trainwright::cli {

Argument force_argument();  // --force

// The files, which all have that folder before their names, and the one with their hashes; or all
// that would be lost by writing them.
Result<std::vector<File>> into_folder(const std::string& folder, std::vector<File> files,
                                      bool force);

// Writes those that replace what is there: each beside its place first, and when all are written
// in their places. Empty, or what could not be written.
std::string replace_files(const std::vector<File>& files);

}  // namespace trainwright::cli
