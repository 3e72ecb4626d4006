// An engine of a program's own: files, by threads that block.
#pragma once

#include <baton/engine.hpp>
#include <memory>

namespace own_parts {

inline constexpr const char* file_threads_name = "file_threads";

/// For a team: another engine has to take the sockets.
baton::Result<std::unique_ptr<baton::Engine>, baton::Failure> open_file_threads(
    const baton::EngineOptions& options);

}  // namespace own_parts
