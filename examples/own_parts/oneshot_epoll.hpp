// A wait strategy of a program's own: epoll with EPOLLONESHOT.
#pragma once

#include <baton/wait_strategy.hpp>
#include <memory>

namespace own_parts {

inline constexpr const char* oneshot_epoll_name = "oneshot_epoll";

baton::Result<std::unique_ptr<baton::WaitStrategy>, baton::Failure> open_oneshot_epoll(
    const baton::WaitOptions& options);

}  // namespace own_parts
