// Config: which engine, which strategies, which threads - as data (the paper's AIO_Config, 000
// section 12; P-33 to P-35). From code, from an XML file, from the environment, in order of rising
// precedence:
//
//   Config config;  // defaults: everything "auto", mode shared
//   config.processors = {{.engine = "emulated", .wait = "epoll"}};
//   Proactor proactor{Config::from_environment(config)};  // + BATON_CONFIG=file.xml + BATON=...
//
// File and environment apply only through from_environment. It uses secure_getenv, so the caller
// of a setuid program cannot influence it. Unknown names, wrong combinations and bad numbers
// are a Failure that lists the valid ones; unsuitable settings are replaced by the engine's own
// choice, visibly (Proactor::explain()).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/limits.hpp"
#include "baton/operation.hpp"
#include "baton/result.hpp"

namespace baton {

/// Which thread leads a processor, and which threads run the handlers of its operations.
enum class Mode : std::uint8_t {
  automatic,   ///< shared
  shared,      ///< leader: one of the threads in run(), changing; handlers: any thread in run()
  dedicated,   ///< leader: a thread of its own, always; handlers: the threads in run()
  per_thread,  ///< one processor for each thread in run(); handlers on that thread, without a lock
};
BATON_EXPORT const char* to_string(Mode mode) noexcept;

/// The threads that may start an operation at the engine (P-17; paper 000 section 7, options a and
/// b).
enum class StartRule : std::uint8_t {
  automatic,   ///< what the engine can
  any_thread,  ///< at once, by the thread that calls start
  leader_only  ///< others defer it and interrupt the leader
};

/// Groups of operation kinds, as an administrator names them.
inline constexpr OperationKinds stream_operations{
    OperationKind::read_stream, OperationKind::write_stream, OperationKind::wait_ready,
    OperationKind::shutdown};
/// Operations on files.
inline constexpr OperationKinds file_operations{OperationKind::read_file, OperationKind::write_file,
                                                OperationKind::sync_file};
/// Operations on datagram sockets.
inline constexpr OperationKinds datagram_operations{OperationKind::read_datagram,
                                                    OperationKind::write_datagram};
/// Accepting connections.
inline constexpr OperationKinds accept_operations{OperationKind::accept};
/// Making connections.
inline constexpr OperationKinds connect_operations{OperationKind::connect};

/// One processor: an engine and how it is run.
struct ProcessorConfig {
  /// Kinds it takes; empty: everything its engine supports. An operation goes to the first
  /// processor of the team that takes it (P-15).
  OperationKinds operations{};
  std::string engine = "auto";             ///< name of the engine; auto: the first that opens
  std::string wait = "auto";               ///< wait strategy of a readiness engine
  std::string interrupt = "auto";          ///< how a wait is cut short
  Mode mode = Mode::automatic;             ///< how threads share the work
  StartRule start = StartRule::automatic;  ///< which threads submit
  /// Started at once; beyond it starts are deferred. 0: the engine's own bound.
  std::uint32_t started_max = 0;
  /// Started and deferred together; beyond it start fails with errc::limit_reached. 0: the default.
  std::uint32_t operations_max = 0;
  /// per_thread: how many processors (= threads in run()). 0: the cores this process may use.
  std::uint32_t threads = 0;
  /// Workers for blocking file operations of a readiness engine; 0: limits::workers_max.
  std::uint32_t workers = 0;
  /// Signals of strategies that need one; 0: their own choice.
  int wait_signal = 0;
  int interrupt_signal = 0;  ///< the same for the interrupt strategy
  /// io_uring: entries of the submission ring, a power of two; 0: 256. The completion ring is 4
  /// times as large unless given.
  std::uint32_t ring_entries = 0;
  std::uint32_t completion_entries = 0;  ///< entries of the completion ring
  /// io_uring: "auto", "any" or "pinned" (SINGLE_ISSUER with DEFER_TASKRUN).
  std::string profile = "auto";
  /// posix_aio: how it is notified of a completed request, "auto" (suspend), "suspend", "sigwait"
  /// (by `wait_signal`) or "callback".
  std::string notify = "auto";
  /// Debug mode (docs/guide/testing.md): the engine works on copies of operations and buffers. A
  /// program that destroys, frees or changes either before its completion is ended with a report.
  /// It finds mistakes and costs speed.
  bool debug = false;
  /// chaos: the engine that does the work, by name; "auto" is the first that opens.
  std::string inner = "auto";
  /// chaos: the seed of its faults.
  std::uint32_t chaos_seed = 1;
  /// chaos: in percent: transfers that are made in parts; operations that are delayed by up to
  /// chaos_delay_us; operations that fail; cancels that are delayed.
  std::uint32_t chaos_short = 25;
  std::uint32_t chaos_delay = 25;        ///< operations in a hundred
  std::uint32_t chaos_delay_us = 2'000;  ///< microseconds, at most
  std::uint32_t chaos_error = 1;         ///< operations in a hundred
  std::uint32_t chaos_late_cancel = 50;  ///< cancels in a hundred
};

/// How accepted connections find their home processor in per_thread mode.
enum class AcceptPolicy : std::uint8_t {
  round_robin,
  least_loaded,  ///< the processor with the fewest open handles
  same_thread    ///< the one that accepted; with a reuse-port listener per processor
};

struct BATON_EXPORT Config {
  /// In order: an operation goes to the first that takes it. Empty: one processor, all "auto".
  std::vector<ProcessorConfig> processors;
  /// Handles (descriptors) at once; 0: min(RLIMIT_NOFILE, limits::handles_max).
  std::uint32_t handles_max = 0;
  /// Homes of accepted connections, per_thread.
  AcceptPolicy accept_policy = AcceptPolicy::round_robin;
  // Policy, by names of engines; docs/guide/configuration.md explains how it interacts with
  // `engine`.
  /// Engines that must be used: one that cannot be opened is a Failure, and is never replaced. A
  /// processor that says "auto" gets the first of them that no other processor has.
  std::vector<std::string> require;
  /// Engines that "auto" and the search for a replacement try first, in this order.
  std::vector<std::string> prefer;
  /// Engines that must not be used, not even probed: no system call of theirs is ever made.
  std::vector<std::string> forbid;
  /// Microseconds between two checks of a leader by the standby; up to 8 times as long while no
  /// handler is stuck.
  std::uint32_t understudy_look_us = 1'000;
  /// The system-call table in place of the real one: for tests and simulation, or
  /// high_descriptors(); null: the real one.
  const os::System* system = nullptr;
  /// Where log lines go; null: nowhere. Must outlive the proactor.
  Log* log = nullptr;
  /// Where each value came from, in order of precedence; filled by the functions below and shown
  /// by explain().
  std::vector<std::string> sources;

  /// `base`, then the file that BATON_CONFIG names, then BATON, then BATON_REQUIRE, BATON_PREFER
  /// and BATON_FORBID. Throws std::system_error with the reason if one of them is malformed;
  /// parse_environment does not throw.
  static Config from_environment(Config base);
  static Config from_environment();
  /// As from_environment, without exceptions.
  static Result<Config, Failure> parse_environment(Config base);
  /// "engine=emulated,wait=epoll,mode=shared": applied to all processors (or, with ';', one by
  /// one).
  static Result<Config, Failure> parse(std::string_view text, Config base);
  /// The document that `to_xml` prints, applied to `base`; not_supported if BATON_XML is off.
  static Result<Config, Failure> parse_xml(std::string_view document, Config base);
  /// The same from a file, of at most 1 MiB.
  static Result<Config, Failure> load_xml(const std::string& path, Config base);
  /// For an interface whose threads are in the library only during a wait, and may end between two
  /// waits. A per_thread processor then binds no engine to a thread, unless its profile asks for
  /// that. `client` is the name of the interface in `sources`. Call it after all other settings.
  void let_threads_change(std::string_view client);
  /// A value for `system`: the real calls, except that the library's own descriptors (rings, epoll
  /// sets, eventfds, signalfds, pipes) get numbers from lowest_high_descriptor() on. For a library
  /// with a proactor inside a program that expects to get the low numbers. The table is never
  /// destroyed. Any thread.
  [[nodiscard]] static const os::System* high_descriptors() noexcept;
  /// 64 (or a quarter of the table, if that is less) below the end of the table of descriptors
  /// (RLIMIT_NOFILE), and 4,032 at most.
  [[nodiscard]] static int lowest_high_descriptor() noexcept;
  /// The XML form that load_xml reads back.
  [[nodiscard]] std::string to_xml() const;
  /// Checks names, numbers and combinations; the Failure lists the valid ones.
  [[nodiscard]] Result<void, Failure> validate() const;
};

}  // namespace baton
