// Accepting, counting, ending.
#include "server.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "session.hpp"

namespace httpd {

Server::Server(baton::Proactor& proactor, const Options& options, const DocumentRoot& root)
    : proactor_(proactor),
      options_(options),
      root_(root),
      // Enough to tell a crowd that it is one, and few enough to bound what that costs.
      turned_away_max_(std::min(16 + options.limits.connections / 8, options.limits.connections)),
      blocks_(block_size, options.limits.connections + turned_away_max_) {
  for (std::uint32_t lane = 0; lane < proactor.lanes(); ++lane) {
    files_.push_back(
        std::make_unique<FileCache>(proactor, root, options.cache_files, options.cache_seconds));
  }
}

FileCache& Server::files() {
  const std::uint32_t lane = proactor_.current_lane();
  return *files_[lane < files_.size() ? lane : 0];
}

std::error_code Server::start(baton::Acceptor acceptor) {
  auto signals = baton::SignalSet::open(proactor_, {SIGTERM, SIGINT});
  if (!signals) return signals.error();
  signals_ = std::move(*signals);
  if (const std::error_code error = wait_for_signal()) return error;
  proactor_.spawn(accept_all(std::move(acceptor)));
  return {};
}

// -- accepting ------------------------------------------------------------------------------------

baton::Task<void> Server::accept_all(baton::Acceptor acceptor) {
  baton::Scope scope(proactor_, {.strand = false});
  const std::size_t count = std::min(accepts, limits().connections);
  for (std::size_t i = 0; i < count; ++i) scope.spawn(accept_one_by_one(acceptor));
  co_await scope.join();
  drain();  // in case that the listener ended by itself
}

baton::Task<void> Server::accept_one_by_one(baton::Acceptor& acceptor) {
  for (;;) {
    auto peer = co_await acceptor.accept();
    if (!peer) {
      // One connection may be too many for the table of handles; the listener is none the worse.
      if (peer.error() == baton::errc::no_free_handles) continue;
      co_return;
    }
    const Admission admission = admit();
    if (admission == Admission::dropped) {
      // Before the next: a crowd could take all descriptors.
      static_cast<void>(co_await peer->close());
      continue;
    }
    proactor_.spawn(serve_connection(*this, std::move(*peer), admission));
  }
}

Admission Server::admit() {
  accepted_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t others = open_.fetch_add(1);
  if (others < limits().connections) return Admission::served;
  turned_away_.fetch_add(1, std::memory_order_relaxed);
  if (others < limits().connections + turned_away_max_) return Admission::turned_away;
  open_.fetch_sub(1);
  return Admission::dropped;
}

void Server::enter(Session& session) {
  const std::lock_guard lock(mutex_);
  session.place_ = sessions_.insert(sessions_.end(), &session);
}

void Server::leave(Session& session, const Counts& counts) {
  {
    const std::lock_guard lock(mutex_);
    sessions_.erase(session.place_);
    counts_.requests += counts.requests;
    counts_.errors += counts.errors;
    counts_.timeouts += counts.timeouts;
  }
  if (open_.fetch_sub(1) == 1) end_if_empty();
}

// -- ending ---------------------------------------------------------------------------------------

std::error_code Server::wait_for_signal() {
  return signals_.wait(signal_operation_, signal_, [this](baton::Operation&) { on_signal(); });
}

void Server::on_signal() {
  if (signal_operation_.failed()) return;
  if (draining_) return proactor_.stop();
  // Waits again before the drain begins, which is what ends that wait.
  if (wait_for_signal()) return proactor_.stop();
  drain();
}

void Server::drain() {
  if (draining_.exchange(true)) return;
  proactor_.drain(baton::Deadline::after(limits().drain_time, proactor_.now()));
  {
    // Connections between two requests have nothing to finish. One that begins to wait after this
    // look sees that the server drains; one that has just got a request answers it, for only its
    // reading side is closed.
    const std::lock_guard lock(mutex_);
    for (Session* session : sessions_) session->end_if_idle();
  }
  end_if_empty();
}

// A drain waits for everything that is pending, and so would wait for a second signal, too. Called
// by the one that begins the drain and by the one that closes the last session: whichever comes
// later sees what the other did (both orders are sequentially consistent).
void Server::end_if_empty() {
  if (draining_ && open_ == 0) signals_.cancel();
}

std::string Server::statistics() const {
  const std::lock_guard lock(mutex_);
  return "accepted " + std::to_string(accepted_) + "\nturned_away " + std::to_string(turned_away_) +
         "\nrequests " + std::to_string(counts_.requests) + "\nerrors " +
         std::to_string(counts_.errors) + "\ntimeouts " + std::to_string(counts_.timeouts) + '\n' +
         proactor_.statistics().to_string();
}

}  // namespace httpd
