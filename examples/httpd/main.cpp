// httpd: a static file server over HTTP/1.1, to show Baton in an application: sockets on one
// processor and files on another, whatever engines those are, with a limit on everything.
//
//   httpd --root FOLDER --listen 127.0.0.1:8080      prints "listening PORT"
//
// docs/guide/httpd.md says what it does and what it does not.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <baton/baton.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "crew.hpp"
#include "document_root.hpp"
#include "options.hpp"
#include "server.hpp"

namespace httpd {
namespace {

int fail(const std::string& reason) {
  std::fprintf(stderr, "httpd: %s\n", reason.c_str());
  return 1;
}

// Every connection is a descriptor: as many as the system allows this process.
void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The descriptors that are left to connections and files. The lowest free number tells how many
// are open already.
std::size_t free_descriptors() {
  constexpr rlim_t reserve = 4;  // the listener, the signals, and the open of a name takes two
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int lowest = ::open("/", O_PATH | O_CLOEXEC);
  if (lowest < 0) return 0;
  ::close(lowest);
  const rlim_t taken = static_cast<rlim_t>(lowest) + reserve;
  return limit.rlim_cur > taken ? static_cast<std::size_t>(limit.rlim_cur - taken) : 0;
}

// Connections and files share the descriptors. If either took all of them, every client would get a
// 503, or none would be accepted. So a fifth each is for connections, for the files that are sent
// on them, for connections that are turned away or dropped, and for files that are kept open.
bool fit_to_descriptors(Options& options, std::size_t lanes) {
  const std::size_t fifth = free_descriptors() / 5;
  if (fifth == 0) return false;
  const std::size_t connections = std::min(options.limits.connections, fifth);
  const std::size_t files = std::min(options.cache_files, fifth / lanes);
  if (connections < options.limits.connections || files < options.cache_files) {
    std::fprintf(stderr,
                 "httpd: few descriptors (ulimit -n): %zu connections at once, %zu files kept open "
                 "in each lane\n",
                 connections, files);
  }
  options.limits.connections = connections;
  options.cache_files = files;
  return true;
}

// The system leaves the name of a UNIX socket behind, and the next start would find it taken.
class UnixName {
 public:
  // REQUIRES: this program listens there, so the name is its own.
  explicit UnixName(const std::string& listen) {
    constexpr std::string_view prefix = "unix:";
    if (listen.starts_with(prefix) && listen[prefix.size()] != '@') {
      path_ = listen.substr(prefix.size());
    }
  }
  ~UnixName() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  UnixName(const UnixName&) = delete;
  UnixName& operator=(const UnixName&) = delete;

 private:
  std::string path_;
};

int serve(baton::Proactor& proactor, const Options& options, std::uint32_t threads) {
  const auto endpoint = baton::Endpoint::parse(options.listen);
  if (!endpoint) return fail(endpoint.error().reason);
  DocumentRoot root;
  if (const auto error = root.open(options.root)) {
    return fail("cannot serve " + options.root + ": " + error.message());
  }
  auto acceptor = baton::Acceptor::listen(proactor, *endpoint);
  if (!acceptor) {
    return fail("cannot listen on " + options.listen + ": " + acceptor.error().message());
  }
  const UnixName name(options.listen);
  const auto listening = acceptor->local_endpoint();
  if (!listening) return fail(listening.error().message());

  // A session that has run out of memory ends alone.
  proactor.on_task_exception([](const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "httpd: a connection ended: %s\n", error.what());
    }
  });
  Server server(proactor, options, root);
  bool good = false;
  {
    // A second signal leaves sessions and accepts pending: they end here, before the server.
    const baton::FinishAtEnd end(proactor);
    Crew crew(proactor, threads);
    if (const auto error = server.start(std::move(*acceptor))) return fail(error.message());
    std::printf("listening %u\n", listening->port());
    good = std::fflush(stdout) == 0 && crew.run();
  }
  std::printf("%s", server.statistics().c_str());
  if (const auto error = server.error()) return fail("the server has ended: " + error.message());
  return good ? 0 : 1;
}

int run(int argc, char** argv) {
  auto options = parse_options(argc, argv);
  if (!options) return fail(options.error().reason);
  if (options->help) {
    std::printf("%s", usage().c_str());
    return 0;
  }
  raise_descriptor_limit();
  // Before there is a second thread.
  if (const auto error = baton::SignalSet::block({SIGTERM, SIGINT})) return fail(error.message());
  const auto config = make_config(*options);
  if (!config) return fail(config.error().reason);
  const auto proactor = baton::Proactor::open(*config);
  if (!proactor) return fail(proactor.error().reason);
  if (options->explain) std::fprintf(stderr, "%s", (*proactor)->explain().c_str());
  if (!fit_to_descriptors(*options, (*proactor)->lanes())) {
    return fail("too few descriptors: raise the limit (ulimit -n)");
  }
  return serve(**proactor, *options, threads_of(*config, *options));
}

}  // namespace
}  // namespace httpd

int main(int argc, char** argv) {
  try {
    const int status = httpd::run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    return httpd::fail("standard output cannot be written");
  } catch (const std::exception& error) {  // out of memory, before the first connection
    return httpd::fail(error.what());
  }
}
