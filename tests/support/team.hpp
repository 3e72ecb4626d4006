// Teams in which one engine handles only files, or everything but files.
#pragma once

#include <utility>

#include "baton/config.hpp"

namespace baton::test {

/// The first processor keeps the files, and `emulated` gets everything else. `emulated` goes first,
/// because tests of sockets change it. The two have no kind in common, so the order decides
/// nothing.
inline void make_team(Config& config) {
  ProcessorConfig& files = config.processors.front();
  ProcessorConfig others = files;
  files.operations = file_operations;
  others.engine = "emulated";
  others.notify = "auto";
  for (const OperationKinds kinds :
       {stream_operations, accept_operations, connect_operations, datagram_operations}) {
    others.operations |= kinds;
  }
  config.processors.insert(config.processors.begin(), std::move(others));
}

/// The first processor keeps everything but the files, which `emulated` gets.
inline void make_team_for_files(Config& config) {
  ProcessorConfig& others = config.processors.front();
  ProcessorConfig files = others;
  files.operations = file_operations;
  files.engine = "emulated";
  for (const OperationKinds kinds :
       {stream_operations, accept_operations, connect_operations, datagram_operations}) {
    others.operations |= kinds;
  }
  config.processors.push_back(std::move(files));
}

}  // namespace baton::test
