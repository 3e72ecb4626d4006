// The options of a network load run; the command line fills them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton::tools {

struct LoadOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string protocol = "tcp";  // or udp: a block is a datagram
  std::size_t sessions = 1;
  std::size_t block = 512;  // bytes of one message
  std::size_t window = 0;   // bytes that may be in flight beyond the block; 0: half duplex
  double seconds = 1.0;     // length of the measured part
  std::size_t idle = 0;     // connections that only connect
  std::size_t threads = 1;
  std::size_t apart = 0;  // sessions with fewest messages, whose round trips are reported apart
  bool json = false;
  // For programs that measure the server: print `connected` before the measured part and `finished`
  // after the last byte, and wait each time for a line on standard input.
  bool hold = false;

  bool datagrams() const { return protocol == "udp"; }
};

inline constexpr std::size_t load_connections_max = 1'000'000;
inline constexpr std::size_t load_block_bytes_max = std::size_t{1} << 30;
inline constexpr std::size_t load_window_bytes_max = std::size_t{1} << 30;
inline constexpr std::size_t load_threads_max = 256;
inline constexpr std::size_t load_datagram_bytes_min = 16;      // its number, and a few more
inline constexpr std::size_t load_datagram_bytes_max = 65'507;  // of IPv4
inline constexpr std::size_t load_apart_sessions_max = 10'000;  // each then has its own histogram

// Runs the load and prints the report on standard output, errors and progress on standard error.
// Returns the process's exit status: 0 if every byte was right, every connection worked and every
// session received something, else 1. Lost datagrams are counted, and are no failure.
int run_network_load(const LoadOptions& options);

}  // namespace baton::tools
