// The options of the command line, with the limits that are on by default.
#pragma once

#include <baton/baton.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace httpd {

struct Limits {
  std::size_t connections = 1'024;    ///< served at once; some more are told to come back later
  std::uint64_t requests = 10'000;    ///< of one connection; 0: no limit
  std::size_t header_bytes = 16'384;  ///< of a request head
  std::uint64_t body_bytes = 65'536;  ///< of a request body, which is read and thrown away
  baton::Duration header_time{};      ///< from a request's first byte to the end of its body
  baton::Duration idle_time{};        ///< between two requests
  baton::Duration write_time{};       ///< until the client has taken one piece of an answer
  baton::Duration drain_time{};       ///< from SIGTERM to the end, whatever is on its way
};

struct Options {
  std::string root = ".";
  std::string listen = "127.0.0.1:8080";
  bool listing = false;
  bool hidden = false;
  Limits limits;
  std::size_t cache_files = 1'024;  ///< open files, in each lane
  std::int64_t cache_seconds = 2;

  std::optional<std::uint32_t> threads;
  std::string config_file;
  std::string engine;
  std::string wait;
  std::string mode;
  std::string file_engine;
  std::string file_mode;
  bool explain = false;
  bool help = false;
};

/// Options, or what is wrong with them.
baton::Result<Options, baton::Failure> parse_options(int argc, const char* const* argv);
std::string usage();

/// In order of rising precedence: sockets on one processor and files on another, the XML file, the
/// environment (BATON_CONFIG, BATON, BATON_FORBID), the options.
baton::Result<baton::Config, baton::Failure> make_config(const Options& options);

/// How many threads run handlers: the lanes of `config`, which make_config has made, in per_thread
/// mode; else what the options say, or 1.
std::uint32_t threads_of(const baton::Config& config, const Options& options);

}  // namespace httpd
