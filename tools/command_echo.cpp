// `baton echo`: a server that returns what it gets, on whatever the configuration names.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "command.hpp"
#include "config_options.hpp"
#include "echo/server.hpp"
#include "echo/watch.hpp"

namespace baton::tools {
namespace {

struct Options {
  EchoOptions echo;
  ConfigOptions config;
  WatchOptions watch;
  bool explain = false;
};

// Every connection is a descriptor: as many as the system allows this process.
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

// As many threads in run() as asked for; the calling one is the first, so that with one thread
// there is no other. Returns when all have returned; answers false when one ended by an exception.
bool run_threads(Proactor& proactor, std::uint32_t count) {
  std::atomic<bool> good{true};
  const auto run = [&] {
    try {
      proactor.run();
    } catch (const std::exception& error) {
      fmt::print(stderr, "baton echo: {}\n", error.what());
      good = false;
      proactor.stop();
    }
  };
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < count; ++i) others.emplace_back(run);
  run();
  for (auto& thread : others) thread.join();
  return good;
}

// From a listener - an acceptor, or the socket of the datagrams - to the end.
template <typename Listener>
int serve_on(Proactor& proactor, Result<Listener> listener, const Endpoint& endpoint,
             const Options& options, void (*start)(EchoServer&, Listener)) {
  if (!listener) {
    return report_failure(
        "echo", {listener.error(), fmt::format("cannot listen on {}: {}", endpoint.to_string(),
                                               listener.error().message())});
  }
  const auto listening = listener->local_endpoint();
  if (!listening) return report_failure("echo", {listening.error(), listening.error().message()});

  EchoServer server(proactor, options.echo);
  if (const auto error = server.watch_signals()) {
    return report_failure("echo", {error, "cannot wait for signals: " + error.message()});
  }
  start(server, std::move(*listener));
  fmt::print("listening {}\n", listening->port());
  std::fflush(stdout);

  bool good = false;
  {
    const Watch watch(server, options.watch);
    good = run_threads(proactor, options.config.threads);
    if (good &&
        server.has_sessions()) {  // a second signal: they go at once, but the server goes last
      proactor.restart();
      proactor.drain(Deadline::immediately());
      good = run_threads(proactor, options.config.threads);
    }
  }
  fmt::print("{}", server.statistics());
  if (const auto error = server.accept_error()) {
    return report_failure("echo", {error, "accepting ended: " + error.message()});
  }
  return good ? 0 : 1;
}

int serve(Proactor& proactor, const Options& options) {
  const auto endpoint = endpoint_of(options.echo);
  if (!endpoint) return report_failure("echo", endpoint.error());
  const bool coroutine = options.echo.style == "coroutine";
  if (options.echo.datagrams()) {
    return serve_on(proactor, DatagramSocket::bind(proactor, *endpoint), *endpoint, options,
                    coroutine ? serve_datagrams_by_coroutine : serve_datagrams_by_callback);
  }
  return serve_on(proactor, Acceptor::listen(proactor, *endpoint), *endpoint, options,
                  coroutine ? serve_by_coroutine : serve_by_callback);
}

int run_echo(const Options& options) {
  raise_descriptor_limit();
  if (const auto error = EchoServer::block_signals()) {
    return report_failure("echo", {error, "cannot block signals: " + error.message()});
  }
  const auto config = make_config(options.config);
  if (!config) return report_failure("echo", config.error());
  const auto proactor = Proactor::open(*config);
  if (!proactor) return report_failure("echo", proactor.error());
  if (options.explain) fmt::print(stderr, "{}", (*proactor)->explain());
  return serve(**proactor, options);
}

void add_work_options(CLI::App& command, handler_work::Options& work) {
  const auto add = [&command](const char* name, std::uint32_t& us, const char* help) {
    command.add_option(name, us, help)->check(CLI::Range(0, 1'000'000))->capture_default_str();
  };
  add("--delay-us", work.delay_us, "Each message keeps its handler so many microseconds, asleep");
  add("--random-us", work.random_us,
      "Each message keeps its handler computing, for a random time below so many microseconds");
  add("--slow-us", work.slow_us,
      "Messages of the first connection keep their handler computing so many microseconds");
}

}  // namespace

void add_echo_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("echo", "Serve: return every byte to its sender");
  auto options = std::make_shared<Options>();
  EchoOptions& echo = options->echo;

  command->add_option("--port", echo.port, "Port to listen on; 0: any, told by the first line")
      ->capture_default_str();
  command->add_option("--host", echo.host, "Address to listen on")->capture_default_str();
  command->add_option("--protocol", echo.protocol, "udp: datagrams, back to where they came from")
      ->capture_default_str()
      ->check(CLI::IsMember({"tcp", "udp"}));
  command->add_option("--block", echo.block, "Bytes of a read at most (64k, 1m, ...)")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30));
  command->add_option("--style", echo.style, "How the sessions are written")
      ->capture_default_str()
      ->check(CLI::IsMember({"callback", "coroutine"}));
  command->add_flag("--pooled", echo.pooled, "Idle connections hold no buffer");
  command->add_flag("--until-empty", echo.until_empty, "End with the last connection");
  add_work_options(*command, echo.work);
  command
      ->add_option("--drain-seconds", echo.drain_seconds,
                   "How long open connections may go on after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag("--explain", options->explain,
                    "Print on standard error what was chosen, from which source, and why");
  command
      ->add_option("--watch", options->watch.lines,
                   "Once a second, on standard error: rates, wakes, the oldest stream operation. "
                   "Alone: only on a terminal; always: also into a pipe, with the time")
      ->expected(0, 1)
      ->default_str("auto")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_option("--metrics", options->watch.metrics,
                      "Write counters for Prometheus to this file, once a second");
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
