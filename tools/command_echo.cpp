// `baton echo`: a server that returns its input, on the configured engines.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "command.hpp"
#include "config_options.hpp"
#include "echo/runners.hpp"
#include "echo/server.hpp"
#include "echo/watch.hpp"
#include "option_checks.hpp"
#include "output.hpp"
#include "replaced_file.hpp"

namespace baton::tools {
namespace {

struct EchoCommand {
  EchoOptions echo;
  ConfigOptions config;
  WatchOptions watch;
  bool explain = false;
};

// If the reader of an output goes away, only that output is lost, and no connection.
void ignore_broken_pipes() {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

// Every connection is a descriptor, so the limit is raised as far as the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Endpoint, Failure> endpoint_of(const EchoOptions& options) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return Endpoint::parse(
      fmt::format("{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", options.port));
}

// Runs a part of the work. An exception (no memory, no thread) is reported and ends the loop.
template <typename Part>
bool done(Proactor& proactor, Part&& part) {
  try {
    part();
    return true;
  } catch (const std::bad_alloc&) {
    note_text("baton echo: not enough memory\n");
  } catch (const std::exception& error) {
    note("baton echo: {}\n", error.what());
  }
  proactor.stop();
  return false;
}

// Returns when the loop has ended; false if an exception in one of the threads has ended it.
bool run(Proactor& proactor, Runners& runners) {
  std::atomic<bool> good{true};
  runners.run([&] {
    if (!done(proactor, [&] { proactor.run(); })) good = false;
  });
  return good;
}

// The advice when an address is refused; empty without one.
std::string_view advice(std::error_code error, const Endpoint& endpoint) {
  if (error == std::errc::address_not_available) return "; choose a --host of this machine";
  if (endpoint.port() == 0) return "";
  if (error == std::errc::address_in_use) return "; choose another --port, or end its program";
  constexpr std::uint16_t first_free_port = 1024;
  const bool reserved = endpoint.port() < first_free_port;
  if (reserved && error == std::errc::permission_denied) return "; choose a --port from 1024 on";
  return "";
}

// The advice when the proactor takes no such operation; empty for other errors.
std::string what_is_needed(std::error_code error, const EchoOptions& options) {
  if (error != errc::not_supported) return "";
  return fmt::format(
      "; a server needs a processor for operations=stream+{}: take an engine that does all of them "
      "(`baton engines`)",
      options.datagrams() ? "datagram" : "accept");
}

// Serves a listener (an acceptor, or the socket of the datagrams) to the end.
template <typename Listener>
int serve_on(Proactor& proactor, Result<Listener> listener, const Endpoint& endpoint,
             const EchoCommand& options, std::uint32_t threads,
             void (*start)(EchoServer&, Listener)) {
  if (!listener) {
    return report_failure(
        "echo", {listener.error(),
                 fmt::format("cannot listen on {}: {}{}", endpoint.to_string(),
                             listener.error().message(), advice(listener.error(), endpoint))});
  }
  const auto listening = listener->local_endpoint();
  if (!listening) return report_failure("echo", {listening.error(), listening.error().message()});

  // First, while nothing is pending: it fails if there is no memory or thread.
  Runners runners(threads);
  EchoServer server(proactor, options.echo);
  Watch watch(server, options.watch);
  if (const auto error = server.watch_signals()) {
    return report_failure("echo", {error, "cannot wait for signals: " + error.message() +
                                              what_is_needed(error, options.echo)});
  }
  bool good = done(proactor, [&] {
    start(server, std::move(*listener));
    print("listening {}\n", listening->port());
    if (!flush_output()) throw std::runtime_error("the port could not be printed; the server ends");
  });
  good = good && run(proactor, runners);
  // A failure or a second signal leaves something pending: the accepts, if not sessions.
  server.end_at_once();
  good = run(proactor, runners) && good;
  watch.end();
  print("{}", server.statistics());
  if (const auto error = server.error()) {
    return report_failure("echo", {error, "the server has ended: " + error.message() +
                                              what_is_needed(error, options.echo)});
  }
  return good ? 0 : 1;
}

int serve(Proactor& proactor, const EchoCommand& options, std::uint32_t threads) {
  const auto endpoint = endpoint_of(options.echo);
  if (!endpoint) return report_failure("echo", endpoint.error());
  const bool coroutine = options.echo.style == "coroutine";
  if (options.echo.datagrams()) {
    return serve_on(proactor, DatagramSocket::bind(proactor, *endpoint), *endpoint, options,
                    threads,
                    coroutine ? serve_datagrams_by_coroutine : serve_datagrams_by_callback);
  }
  return serve_on(proactor, Acceptor::listen(proactor, *endpoint), *endpoint, options, threads,
                  coroutine ? serve_by_coroutine : serve_by_callback);
}

int run_echo(const EchoCommand& options) {
  if (!options.watch.metrics.empty()) {
    const auto possible = check_one_step(options.watch.metrics, Existing::replace);
    if (!possible) {
      Failure failure = possible.error();
      failure.reason.insert(0, "--metrics: ");
      return report_failure("echo", failure);
    }
  }
  raise_descriptor_limit();
  ignore_broken_pipes();
  if (const auto error = EchoServer::block_signals()) {
    return report_failure("echo", {error, "cannot block signals: " + error.message()});
  }
  const auto config = make_config(options.config);
  if (!config) return report_failure("echo", config.error());
  const auto proactor = Proactor::open(*config);
  if (!proactor) return report_failure("echo", proactor.error());
  if (options.explain) note("{}", (*proactor)->explain());
  warn_of_replacements("echo", (*proactor)->explain(), options.config);
  return serve(**proactor, options, threads_of(*config, options.config));
}

void add_work_options(CLI::App& command, handler_work::Options& work) {
  const auto add = [&command](const char* name, std::uint32_t& us, const char* help) {
    command.add_option(name, us, help)->check(whole_number(0, 1'000'000))->capture_default_str();
  };
  add("--delay-us", work.delay_us, "Microseconds that each message keeps its handler, asleep");
  add("--random-us", work.random_us,
      "Each message keeps its handler computing for a random time below these microseconds");
  add("--slow-us", work.slow_us,
      "Microseconds that messages of the first connection keep their handler computing");
}

}  // namespace

void add_echo_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("echo", "Serve: return every byte to its sender");
  auto options = std::make_shared<EchoCommand>();
  EchoOptions& echo = options->echo;

  command->add_option("--port", echo.port, "Port to listen on; 0: any, which the first line names")
      ->capture_default_str()
      ->check(whole_number(0, 65'535));
  command->add_option("--host", echo.host, "Address to listen on")
      ->capture_default_str()
      ->check(not_empty("address"));
  command
      ->add_option("--protocol", echo.protocol,
                   "tcp: streams; udp: datagrams, which go back to their senders")
      ->capture_default_str()
      ->check(one_of({"tcp", "udp"}));
  command->add_option("--block", echo.block, "Bytes of a read at most (64k, 1m, ...)")
      ->capture_default_str()
      ->transform(size(1, std::uint64_t{1} << 30));
  command->add_option("--style", echo.style, "How the sessions are written")
      ->capture_default_str()
      ->check(one_of({"callback", "coroutine"}));
  command->add_flag("--pooled", echo.pooled, "Idle connections hold no buffer");
  command->add_flag("--until-empty", echo.until_empty, "End with the last connection");
  add_work_options(*command, echo.work);
  command
      ->add_option("--drain-seconds", echo.drain_seconds,
                   "How long open connections may continue after SIGTERM")
      ->capture_default_str()
      ->check(seconds(0, 1e6));
  command->add_flag("--explain", options->explain,
                    "Print on standard error the configuration in force, the source of each value, "
                    "and the replacements with their reasons");
  command
      ->add_option("--watch", options->watch.lines,
                   "Once a second, on standard error: rates, wakes, the oldest stream operation; "
                   "auto, or the option alone: only on a terminal; always: also into a pipe, with "
                   "the time; never, or without the option: not at all")
      ->expected(0, 1)
      ->default_str("auto")
      ->check(one_of({"auto", "always", "never"}));
  command
      ->add_option("--metrics", options->watch.metrics,
                   "Write counters for Prometheus to this file, once a second")
      ->check(not_empty("name of a file"));
  add_config_options(*command, options->config);
  add_threads_option(*command, options->config);
  command->callback([&run, options] {
    if (options->echo.datagrams() && (options->echo.pooled || options->echo.until_empty)) {
      throw CLI::ValidationError("--protocol udp", "no connections: no --pooled, no --until-empty");
    }
    options->echo.watched = options->watch.wanted();
    run = [options] { return run_echo(*options); };
  });
}

}  // namespace baton::tools
