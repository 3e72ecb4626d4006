// Reads and prints each setting. The valid values are written here, once;
// docs/guide/configuration.md has their meaning.
#include "config/keys.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "baton/registry.hpp"

namespace baton::config {
namespace {

using Answer = std::optional<Problem>;

// Upper ends of ranges whose defaults are in limits.hpp. They keep a typing error from becoming an
// allocation.
constexpr std::uint32_t handles_end = 1U << 20;  // Linux's fs.nr_open, unless raised
constexpr std::uint32_t operations_end = 1U << 30;
constexpr std::uint32_t workers_end = 256;
constexpr std::uint32_t ring_entries_end = 32'768;        // IORING_MAX_ENTRIES
constexpr std::uint32_t completion_entries_end = 65'536;  // IORING_MAX_CQ_ENTRIES
constexpr std::uint32_t look_us_first = 10;  // below it a look costs more than it can gain
constexpr std::uint32_t look_us_end = 10'000'000;
constexpr std::uint32_t per_cent_end = 100;
constexpr std::uint32_t delay_us_end = 10'000'000;
constexpr std::uint32_t seed_end = 0xffff'ffff;

// -- numbers ----------------------------------------------------------------------------

std::string range_text(std::uint32_t first, std::uint32_t last, bool zero_too) {
  const std::string range = std::to_string(first) + " to " + std::to_string(last);
  return "valid: " + (zero_too ? "0 (the default), " : std::string{}) + range;
}

/// `zero_too`: 0 is valid beside the range, and means the default.
Answer read_number(std::string_view text, std::uint32_t first, std::uint32_t last, bool zero_too,
                   std::uint32_t& out) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) {
    return Problem{errc::bad_configuration,
                   "is not a whole number; " + range_text(first, last, zero_too)};
  }
  const bool in_range = number >= first && number <= last;
  if (error != std::errc{} || !(in_range || (zero_too && number == 0))) {
    return Problem{errc::bad_configuration,
                   "is out of range; " + range_text(first, last, zero_too)};
  }
  out = static_cast<std::uint32_t>(number);
  return std::nullopt;
}

template <std::uint32_t ProcessorConfig::* Member, std::uint32_t Last>
constexpr Key<ProcessorConfig> number_key(std::string_view name) {
  return {name,
          [](ProcessorConfig& processor, std::string_view text) {
            return read_number(text, 1, Last, true, processor.*Member);
          },
          [](const ProcessorConfig& processor) {
            return processor.*Member == 0 ? std::string{} : std::to_string(processor.*Member);
          }};
}

/// A number whose 0 is an ordinary value, and not the default.
template <std::uint32_t ProcessorConfig::* Member, std::uint32_t Last>
constexpr Key<ProcessorConfig> number_from_0_key(std::string_view name) {
  return {name,
          [](ProcessorConfig& processor, std::string_view text) {
            return read_number(text, 0, Last, false, processor.*Member);
          },
          [](const ProcessorConfig& processor) {
            return processor.*Member == ProcessorConfig{}.*Member
                       ? std::string{}
                       : std::to_string(processor.*Member);
          }};
}

template <std::uint32_t ProcessorConfig::* Member, std::uint32_t Last>
constexpr Key<ProcessorConfig> power_key(std::string_view name) {
  Key<ProcessorConfig> key = number_key<Member, Last>(name);
  key.set = [](ProcessorConfig& processor, std::string_view text) -> Answer {
    std::uint32_t number = 0;
    if (Answer problem = read_number(text, 1, Last, true, number)) return problem;
    if (number != 0 && !std::has_single_bit(number)) {
      const std::uint32_t above = std::bit_ceil(number);
      return Problem{errc::bad_configuration,
                     "is not a power of two; nearest: " + std::to_string(above / 2) + " and " +
                         std::to_string(std::min(above, Last))};
    }
    processor.*Member = number;
    return std::nullopt;
  };
  return key;
}

// -- names ------------------------------------------------------------------------------

// Mechanisms of other systems that people know by name.
constexpr std::string_view foreign_names[] = {"iocp", "sun_aio", "kqueue", "devpoll",
                                              "event_ports"};

Problem unknown_name(std::string_view what, std::span<const std::string> valid,
                     std::string_view found = {}) {
  const bool foreign = std::find(std::begin(foreign_names), std::end(foreign_names), found) !=
                       std::end(foreign_names);
  return {errc::unknown_name,
          (foreign ? "is not in this build; valid: "
                   : "is not a known " + std::string(what) + "; valid: ") +
              joined(valid),
          foreign ? ReasonCode::not_built : ReasonCode::unknown_name};
}

template <class Entries>
std::vector<std::string> names_of(const Entries& entries, bool with_auto) {
  std::vector<std::string> all;
  if (with_auto) all.emplace_back("auto");
  for (const auto& entry : entries) all.push_back(entry.name);
  return all;
}

struct EngineNames {
  static constexpr const char* what = "engine";
  static std::vector<std::string> valid() { return names_of(registry().engines(), true); }
};
struct WaitNames {
  static constexpr const char* what = "wait strategy";
  static std::vector<std::string> valid() { return names_of(registry().wait_strategies(), true); }
};
struct InterruptNames {
  static constexpr const char* what = "interrupt strategy";
  static std::vector<std::string> valid() {
    auto names = names_of(registry().interrupt_strategies(), true);
    names.emplace_back("ring");  // io_uring's own; other engines replace it
    return names;
  }
};
struct ProfileNames {
  static constexpr const char* what = "profile";
  static std::vector<std::string> valid() { return {"auto", "any", "pinned"}; }
};
struct NotifyNames {
  static constexpr const char* what = "notify strategy";
  static std::vector<std::string> valid() { return {"auto", "suspend", "sigwait", "callback"}; }
};

template <std::string ProcessorConfig::* Member, class Names>
constexpr Key<ProcessorConfig> name_key(std::string_view name) {
  return {name,
          [](ProcessorConfig& processor, std::string_view text) -> Answer {
            const std::vector<std::string> valid = Names::valid();
            if (std::find(valid.begin(), valid.end(), text) == valid.end()) {
              return unknown_name(Names::what, valid, text);
            }
            processor.*Member = text;
            return std::nullopt;
          },
          [](const ProcessorConfig& processor) {
            return processor.*Member == "auto" ? std::string{} : processor.*Member;
          }};
}

template <class Value>
struct Word {
  Value value;
  const char* word;
};
constexpr Word<Mode> modes[] = {{Mode::automatic, "auto"},
                                {Mode::shared, "shared"},
                                {Mode::dedicated, "dedicated"},
                                {Mode::per_thread, "per_thread"}};
constexpr Word<StartRule> start_rules[] = {{StartRule::automatic, "auto"},
                                           {StartRule::any_thread, "any_thread"},
                                           {StartRule::leader_only, "leader_only"}};
constexpr Word<AcceptPolicy> accept_policies[] = {{AcceptPolicy::round_robin, "round_robin"},
                                                  {AcceptPolicy::least_loaded, "least_loaded"},
                                                  {AcceptPolicy::same_thread, "same_thread"}};

template <class Value, std::size_t Count>
Answer read_word(const char* what, const Word<Value> (&words)[Count], std::string_view text,
                 Value& out) {
  std::vector<std::string> valid;
  for (const Word<Value>& word : words) {
    if (text == word.word) {
      out = word.value;
      return std::nullopt;
    }
    valid.emplace_back(word.word);
  }
  return unknown_name(what, valid);
}
template <class Value, std::size_t Count>
const char* word_of(const Word<Value> (&words)[Count], Value value) noexcept {
  for (const Word<Value>& word : words) {
    if (word.value == value) return word.word;
  }
  return "unknown";
}

// -- lists ------------------------------------------------------------------------------

/// Items between separators.
std::vector<std::string_view> items(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(list_separators);
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find_first_of(list_separators, begin);
    all.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end);
  }
  return all;
}

struct Group {
  const char* name;
  OperationKinds kinds;
};
constexpr Group groups[] = {{"stream", stream_operations},
                            {"accept", accept_operations},
                            {"connect", connect_operations},
                            {"datagram", datagram_operations},
                            {"file", file_operations}};
// The kinds that processors take; close, timers and posted work belong to the proactor.
constexpr std::size_t routed_kinds = static_cast<std::size_t>(OperationKind::close);
static_assert(routed_kinds + 3 == operation_kinds);

bool add_operations(std::string_view name, OperationKinds& kinds) {
  for (const Group& group : groups) {
    if (name == group.name) {
      kinds |= group.kinds;
      return true;
    }
  }
  for (std::size_t i = 0; i < routed_kinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    if (name == to_string(kind)) {
      kinds.add(kind);
      return true;
    }
  }
  return false;
}

Answer set_operations(ProcessorConfig& processor, std::string_view text) {
  OperationKinds kinds;
  if (text == "all") {
    processor.operations = kinds;
    return std::nullopt;
  }
  for (std::string_view item : items(text)) {
    if (add_operations(item, kinds)) continue;
    std::vector<std::string> valid{"all"};
    for (const Group& group : groups) valid.emplace_back(group.name);
    for (std::size_t i = 0; i < routed_kinds; ++i) {
      const std::string kind = to_string(static_cast<OperationKind>(i));
      if (kind != "accept" && kind != "connect") valid.push_back(kind);
    }
    Problem problem = unknown_name("kind of operation", valid);
    problem.what = "holds " + quoted(item) + ", which " + problem.what;
    return problem;
  }
  if (kinds.empty()) {
    return Problem{errc::bad_configuration,
                   "names no operation; valid: all, stream, accept, connect, datagram, file"};
  }
  processor.operations = kinds;
  return std::nullopt;
}

std::string get_operations(const ProcessorConfig& processor) {
  std::vector<std::string> words;
  OperationKinds said;
  for (const Group& group : groups) {
    bool whole = true;
    for (std::size_t i = 0; i < operation_kinds; ++i) {
      const auto kind = static_cast<OperationKind>(i);
      whole = whole && (!group.kinds.has(kind) || processor.operations.has(kind));
    }
    if (whole) {
      words.emplace_back(group.name);
      said |= group.kinds;
    }
  }
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    if (processor.operations.has(kind) && !said.has(kind)) words.emplace_back(to_string(kind));
  }
  return joined(words, " ");
}

Answer add_engines(std::vector<std::string>& to, std::string_view text) {
  const std::vector<std::string> valid = names_of(registry().engines(), false);
  std::vector<std::string> all = to;
  for (std::string_view item : items(text)) {
    if (std::find(valid.begin(), valid.end(), item) == valid.end()) {
      // A misspelt name must not leave an engine allowed that the user believes to be forbidden.
      Problem problem = unknown_name("engine", valid, item);
      problem.what = "holds " + quoted(item) + ", which " + problem.what;
      return problem;
    }
    if (std::find(all.begin(), all.end(), item) == all.end()) all.emplace_back(item);
  }
  to = std::move(all);
  return std::nullopt;
}

/// `adds`: a source adds to the values of earlier sources and takes none away, because the user of
/// an earlier source relies on them. Otherwise it replaces them, as with any other setting.
template <std::vector<std::string> Config::* Member, bool adds>
constexpr Key<Config> policy_key(std::string_view name) {
  return {name,
          [](Config& config, std::string_view text) -> Answer {
            std::vector<std::string> list;
            if (adds) list = config.*Member;
            if (Answer problem = add_engines(list, text)) return problem;
            config.*Member = std::move(list);
            return std::nullopt;
          },
          [](const Config& config) { return joined(config.*Member, ","); }};
}

// -- signals ----------------------------------------------------------------------------

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName signal_names[] = {
    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGIO", SIGIO}, {"SIGURG", SIGURG}};

constexpr const char* signals_valid =
    "valid: 0 (its own choice), 1 to SIGRTMAX, SIGRTMIN+n, SIGRTMAX-n, SIGUSR1, SIGUSR2, SIGIO, "
    "SIGURG";

bool parse_signal(std::string_view text, int& out) {
  for (const SignalName& signal : signal_names) {
    if (text == signal.name) return out = signal.number, true;
  }
  int base = 0;
  int sign = 1;
  if (text.starts_with("SIGRTMIN") || text.starts_with("SIGRTMAX")) {
    // The numbers differ from C library to C library, which keeps the first few for itself.
    const bool from_end = text.starts_with("SIGRTMAX");
    base = from_end ? SIGRTMAX : SIGRTMIN;
    sign = from_end ? -1 : 1;
    text.remove_prefix(std::string_view("SIGRTMIN").size());
    if (text.empty()) return out = base, true;
    if (text.front() != (from_end ? '-' : '+')) return false;
    text.remove_prefix(1);
  }
  unsigned number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return false;
  constexpr unsigned number_max = 1'000;  // far beyond every signal; keeps the sum in range
  out = base +
        sign * static_cast<int>(error == std::errc{} ? std::min(number, number_max) : number_max);
  return true;
}

/// Why `number` cannot be used; null if it can.
const char* signal_objection(int number) noexcept {
  switch (number) {
    case SIGKILL:
    case SIGSTOP:
      return "cannot be caught or blocked";
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
      return "is how the system reports a fault of the program itself";
    default:
      break;
  }
  if (number < 0 || number > SIGRTMAX) return "is out of range";
  // Between the classic signals and SIGRTMIN are those that the C library keeps.
  if (number > SIGSYS && number < SIGRTMIN) return "belongs to the C library";
  return nullptr;
}

template <int ProcessorConfig::* Member>
constexpr Key<ProcessorConfig> signal_key(std::string_view name) {
  return {
      name,
      [](ProcessorConfig& processor, std::string_view text) -> Answer {
        int number = 0;
        if (!parse_signal(text, number)) {
          return Problem{errc::bad_configuration, std::string("is not a signal; ") + signals_valid};
        }
        if (const char* objection = signal_objection(number)) {
          return Problem{errc::bad_configuration, std::string(objection) + "; " + signals_valid};
        }
        processor.*Member = number;
        return std::nullopt;
      },
      [](const ProcessorConfig& processor) {
        return processor.*Member == 0 ? std::string{} : std::to_string(processor.*Member);
      }};
}

// -- the tables -------------------------------------------------------------------------

constexpr Key<ProcessorConfig> mode_key{
    "mode",
    [](ProcessorConfig& processor, std::string_view text) {
      return read_word("mode", modes, text, processor.mode);
    },
    [](const ProcessorConfig& processor) -> std::string {
      return processor.mode == Mode::automatic ? "" : word_of(modes, processor.mode);
    }};

constexpr Key<ProcessorConfig> start_key{
    "start",
    [](ProcessorConfig& processor, std::string_view text) {
      return read_word("start rule", start_rules, text, processor.start);
    },
    [](const ProcessorConfig& processor) -> std::string {
      return processor.start == StartRule::automatic ? "" : word_of(start_rules, processor.start);
    }};

constexpr Key<ProcessorConfig> debug_key{
    "debug",
    [](ProcessorConfig& processor, std::string_view text) -> Answer {
      std::uint32_t number = 0;
      if (Answer problem = read_number(text, 0, 1, false, number)) return problem;
      processor.debug = number != 0;
      return std::nullopt;
    },
    [](const ProcessorConfig& processor) { return std::string{processor.debug ? "1" : ""}; }};

constexpr std::array processor_table{
    Key<ProcessorConfig>{"operations", set_operations, get_operations},
    name_key<&ProcessorConfig::engine, EngineNames>("engine"),
    name_key<&ProcessorConfig::wait, WaitNames>("wait"),
    name_key<&ProcessorConfig::interrupt, InterruptNames>("interrupt"),
    mode_key,
    start_key,
    number_key<&ProcessorConfig::started_max, operations_end>("started_max"),
    number_key<&ProcessorConfig::operations_max, operations_end>("operations_max"),
    number_key<&ProcessorConfig::threads, limits::lanes_max>("threads"),
    number_key<&ProcessorConfig::workers, workers_end>("workers"),
    signal_key<&ProcessorConfig::wait_signal>("wait_signal"),
    signal_key<&ProcessorConfig::interrupt_signal>("interrupt_signal"),
    power_key<&ProcessorConfig::ring_entries, ring_entries_end>("ring_entries"),
    power_key<&ProcessorConfig::completion_entries, completion_entries_end>("completion_entries"),
    name_key<&ProcessorConfig::profile, ProfileNames>("profile"),
    name_key<&ProcessorConfig::notify, NotifyNames>("notify"),
    debug_key,
    name_key<&ProcessorConfig::inner, EngineNames>("inner"),
    number_from_0_key<&ProcessorConfig::chaos_seed, seed_end>("chaos_seed"),
    number_from_0_key<&ProcessorConfig::chaos_short, per_cent_end>("chaos_short"),
    number_from_0_key<&ProcessorConfig::chaos_delay, per_cent_end>("chaos_delay"),
    number_from_0_key<&ProcessorConfig::chaos_delay_us, delay_us_end>("chaos_delay_us"),
    number_from_0_key<&ProcessorConfig::chaos_error, per_cent_end>("chaos_error"),
    number_from_0_key<&ProcessorConfig::chaos_late_cancel, per_cent_end>("chaos_late_cancel"),
};

constexpr std::array proactor_table{
    Key<Config>{"handles",
                [](Config& config, std::string_view text) {
                  return read_number(text, 1, handles_end, true, config.handles_max);
                },
                [](const Config& config) {
                  return config.handles_max == 0 ? std::string{}
                                                 : std::to_string(config.handles_max);
                }},
    Key<Config>{"accept",
                [](Config& config, std::string_view text) {
                  return read_word("accept policy", accept_policies, text, config.accept_policy);
                },
                [](const Config& config) -> std::string {
                  return config.accept_policy == AcceptPolicy::round_robin
                             ? ""
                             : word_of(accept_policies, config.accept_policy);
                }},
    policy_key<&Config::require, true>("require"),
    policy_key<&Config::prefer, false>("prefer"),
    policy_key<&Config::forbid, true>("forbid"),
    Key<Config>{"understudy_look_us",
                [](Config& config, std::string_view text) {
                  return read_number(text, look_us_first, look_us_end, false,
                                     config.understudy_look_us);
                },
                [](const Config& config) {
                  return config.understudy_look_us == Config{}.understudy_look_us
                             ? std::string{}
                             : std::to_string(config.understudy_look_us);
                }},
};

}  // namespace

std::span<const Key<ProcessorConfig>> processor_keys() noexcept { return processor_table; }
std::span<const Key<Config>> proactor_keys() noexcept { return proactor_table; }

std::string joined(std::span<const std::string> words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t shown_max = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > shown_max ? "...\"" : "\"");
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

Failure failure(std::string_view place, std::string_view name, std::string_view value,
                const Problem& problem) {
  std::string reason(place);
  reason += ": ";
  reason += name;
  reason += '=';
  reason += quoted(value);
  reason += ' ';
  reason += problem.what;
  return {make_error_code(problem.code), std::move(reason), problem.reason_code};
}

}  // namespace baton::config

namespace baton {

const char* to_string(Mode mode) noexcept { return config::word_of(config::modes, mode); }

}  // namespace baton
