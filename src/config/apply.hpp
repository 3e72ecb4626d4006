// Applier: puts the settings of one source (a file, a variable) into a Config, and records the
// source of each. validate() and the notes for explain() look at the whole afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baton/config.hpp"
#include "config/keys.hpp"

namespace baton::config {

class Applier {
 public:
  /// `source` is named in Config::sources: "wait=epoll from BATON".
  Applier(Config& config, std::string source) : config_(config), source_(std::move(source)) {}

  /// A setting of the proactor as a whole; `place` is named in the Failure. REQUIRES: there is a
  /// setting of this name.
  Result<void, Failure> set(std::string_view place, std::string_view name, std::string_view value);
  /// A setting of the processors first to last (one behind). REQUIRES: likewise.
  Result<void, Failure> set(std::string_view place, std::string_view name, std::string_view value,
                            std::size_t first, std::size_t last);
  /// A line of the account that is not a setting.
  void note(std::string text) { config_.sources.push_back(std::move(text)); }
  /// From now on settings come from there: "baton.xml:3".
  void set_source(std::string source) { source_ = std::move(source); }

 private:
  void account(std::string_view prefix, std::string_view name, const std::string& value,
               const std::string& before);

  Config& config_;
  std::string source_;
};

inline constexpr std::size_t every_processor = SIZE_MAX;
/// One setting by its name ("wait") and in the words of the other forms ("epoll"), for the options
/// of a command line: of every processor, or of the one of that index. Settings of the proactor
/// ignore the index. `source` says in the Failure, and in Config::sources, where it comes from
/// ("--wait").
Result<Config, Failure> set_named(std::string_view name, std::string_view value, Config base,
                                  std::string_view source, std::size_t processor = every_processor);

/// "processor 0": counted from zero, as explain() and the log do.
std::string processor_name(std::size_t index);

/// Checks names and numbers of every setting, and then their combinations. `places` tells where
/// each processor was described; where it is shorter, processors are named by their number.
Result<void, Failure> check(const Config& config, std::string_view place,
                            const std::vector<std::string>& places = {});

/// Whether the registry says so of that engine.
bool waits_by_strategy(const std::string& engine);

/// Rewrites the "note:" lines of the account: settings that have no effect, operations that no
/// processor takes. A setting that only one engine or strategy uses is judged where that part is
/// named: called again with the names of the opened parts, it covers "auto", too.
void refresh_notes(Config& config);
/// Begins the account with what the program itself set, if nothing is there yet.
void account_for_program(Config& config);

}  // namespace baton::config
