// The command line, as a table.
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace httpd {
namespace {

using baton::Failure;

Failure wrong(std::string reason) {
  return {make_error_code(baton::errc::bad_configuration), std::move(reason)};
}

// The fault of a value; empty: none.
using Store = std::function<std::string(std::string_view value)>;

struct Option {
  std::string_view name;
  std::string_view value;  // what it is called in the help; empty: the option has none
  std::string_view help;
  Store store;
};

Store text(std::string& place) {
  return [&place](std::string_view value) {
    place = value;
    return std::string();
  };
}

Store flag(bool& place) {
  return [&place](std::string_view) {
    place = true;
    return std::string();
  };
}

template <class Number>
std::string text_of(Number number) {
  char digits[32];
  return {digits, std::to_chars(std::begin(digits), std::end(digits), number).ptr};
}

// `Place` is a number, or an optional one.
template <class Number, class Place>
Store number(Place& place, Number least, Number most) {
  return [&place, least, most](std::string_view value) {
    Number parsed{};
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, parsed);
    if (error != std::errc{} || stop != end || !(parsed >= least && parsed <= most)) {
      return "must be a number from " + text_of(least) + " to " + text_of(most);
    }
    place = parsed;
    return std::string();
  };
}

Store seconds(baton::Duration& place) {
  return [&place](std::string_view value) {
    double span = 0;
    std::string problem = number(span, 0.001, 86'400.0)(value);
    if (problem.empty()) {
      place = std::chrono::duration_cast<baton::Duration>(std::chrono::duration<double>(span));
    }
    return problem;
  };
}

std::vector<Option> table(Options& options) {
  constexpr auto many = std::numeric_limits<std::uint32_t>::max();
  Limits& limits = options.limits;
  return {
      {"--root", "FOLDER", "what is served (.)", text(options.root)},
      {"--listen", "ADDRESS:PORT", "where; port 0 takes any free one (127.0.0.1:8080)",
       text(options.listen)},
      {"--listing", "", "show the contents of folders without index.html", flag(options.listing)},
      {"--hidden", "", "serve names that begin with a dot, too", flag(options.hidden)},
      {"--connections", "N", "served at once (1024)",
       number<std::size_t>(limits.connections, 1, 60'000)},
      {"--requests", "N", "of one connection; 0: no limit (10000)",
       number<std::uint64_t>(limits.requests, 0, many)},
      {"--header-bytes", "N", "of a request head (16384)",
       number<std::size_t>(limits.header_bytes, 1'024, 1'048'576)},
      {"--body-bytes", "N", "of a request body (65536)",
       number<std::uint64_t>(limits.body_bytes, 0, many)},
      {"--header-seconds", "S", "for a whole request (10)", seconds(limits.header_time)},
      {"--idle-seconds", "S", "between two requests (30)", seconds(limits.idle_time)},
      {"--write-seconds", "S", "for a client to take 64 KiB (30)", seconds(limits.write_time)},
      {"--drain-seconds", "S", "from SIGTERM to the end (10)", seconds(limits.drain_time)},
      {"--cache-files", "N", "kept open, in each lane; 0: none (1024)",
       number<std::size_t>(options.cache_files, 0, 30'000)},
      {"--cache-seconds", "S", "until an open file is looked for again (2)",
       number<std::int64_t>(options.cache_seconds, 0, 86'400)},
      {"--threads", "N", "threads that run handlers (1, or what a configuration says)",
       number<std::uint32_t>(options.threads, 1, baton::limits::lanes_max)},
      {"--config", "FILE", "configuration in XML, below the environment",
       text(options.config_file)},
      {"--engine", "NAME", "of the sockets (io_uring)", text(options.engine)},
      {"--wait", "NAME", "of the sockets, where the engine has a choice (auto)",
       text(options.wait)},
      {"--mode", "NAME", "of the sockets: shared, dedicated or per_thread (per_thread)",
       text(options.mode)},
      {"--file-engine", "NAME", "of the files (emulated)", text(options.file_engine)},
      {"--file-mode", "NAME", "of the files (dedicated)", text(options.file_mode)},
      {"--explain", "", "print what was chosen, from which source, and why", flag(options.explain)},
      {"--help", "", "this", flag(options.help)},
  };
}

// Whether the file or the environment forbids an engine. Naming a forbidden engine is an error;
// ours is only a preference. make_config tells what is wrong with either.
bool is_forbidden(std::string_view engine, const Options& options) {
  baton::Config config;
  if (!options.config_file.empty()) {
    auto loaded = baton::Config::load_xml(options.config_file, config);
    if (loaded) config = std::move(*loaded);
  }
  const auto said = baton::Config::parse_environment(std::move(config));
  return said && std::ranges::find(said->forbid, engine) != said->forbid.end();
}

void append(std::string& section, const char* name, const std::string& value) {
  if (value.empty()) return;
  if (!section.empty()) section += ',';
  section += name;
  section += '=' + value;
}

}  // namespace

baton::Result<Options, Failure> parse_options(int argc, const char* const* argv) {
  using namespace std::chrono_literals;
  Options options;
  options.limits.header_time = 10s;
  options.limits.idle_time = 30s;
  options.limits.write_time = 30s;
  options.limits.drain_time = 10s;
  const std::vector<Option> known = table(options);
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const Option* option = nullptr;
    for (const Option& candidate : known) {
      if (candidate.name == name) option = &candidate;
    }
    if (option == nullptr) {
      return baton::unexpected{wrong("unknown option " + std::string(name) + "; see --help")};
    }
    std::string_view value;
    if (!option->value.empty()) {
      if (++i == argc) return baton::unexpected{wrong(std::string(name) + " needs a value")};
      value = argv[i];
    }
    if (const std::string problem = option->store(value); !problem.empty()) {
      return baton::unexpected{wrong(std::string(name) + " " + problem)};
    }
  }
  return options;
}

std::string usage() {
  Options unused;
  std::string out = "usage: httpd [OPTION...]\nServes the files of a folder over HTTP/1.1.\n\n";
  for (const Option& option : table(unused)) {
    std::string line = "  " + std::string(option.name) + ' ' + std::string(option.value);
    line.resize(28, ' ');
    out += line + std::string(option.help) + '\n';
  }
  return out;
}

baton::Result<baton::Config, Failure> make_config(const Options& options) {
  baton::Config config;
  baton::ProcessorConfig sockets;
  // The fastest for short requests (docs/guide/httpd.md). If the system has none, the next engine
  // takes its place, and --explain says so.
  if (!is_forbidden("io_uring", options)) sockets.engine = "io_uring";
  sockets.mode = baton::Mode::per_thread;
  sockets.operations = baton::stream_operations;
  sockets.operations |= baton::accept_operations;
  baton::ProcessorConfig files;
  // Data in the page cache is read at once, by the thread that asks, and the rest by workers. In a
  // mode of its own, so that a lane never has to wait for two engines.
  files.engine = "emulated";
  files.mode = baton::Mode::dedicated;
  files.operations = baton::file_operations;
  config.processors = {sockets, files};

  if (!options.config_file.empty()) {
    auto loaded = baton::Config::load_xml(options.config_file, std::move(config));
    if (!loaded) return loaded;
    config = std::move(*loaded);
  }
  auto surroundings = baton::Config::parse_environment(std::move(config));
  if (!surroundings) return surroundings;
  config = std::move(*surroundings);
  std::string for_sockets;
  append(for_sockets, "engine", options.engine);
  append(for_sockets, "wait", options.wait);
  append(for_sockets, "mode", options.mode);
  std::string for_files;
  append(for_files, "engine", options.file_engine);
  append(for_files, "mode", options.file_mode);
  if (!for_sockets.empty() || !for_files.empty()) {
    // A section for each processor; an empty one changes nothing.
    const bool one = config.processors.size() == 1 && for_files.empty();
    auto said =
        baton::Config::parse(one ? for_sockets : for_sockets + ';' + for_files, std::move(config));
    if (!said) return said;
    config = std::move(*said);
  }
  // The lanes are the threads that run handlers: as the option says, else the configuration.
  const std::uint32_t lanes = threads_of(config, options);
  for (baton::ProcessorConfig& processor : config.processors) {
    if (processor.mode != baton::Mode::per_thread) continue;
    if (options.threads || processor.threads == 0) processor.threads = lanes;
  }
  return config;
}

std::uint32_t threads_of(const baton::Config& config, const Options& options) {
  if (options.threads) return *options.threads;
  for (const baton::ProcessorConfig& processor : config.processors) {
    if (processor.mode == baton::Mode::per_thread && processor.threads != 0) {
      return processor.threads;
    }
  }
  return 1;
}

}  // namespace httpd
