// Accepting, counting, ending.
#include "server.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <new>
#include <utility>

#include "session.hpp"

namespace httpd {
namespace {

// Until an accept, or a wait for signals, that found no memory is started again.
constexpr std::chrono::milliseconds pause{10};

}  // namespace

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
    ends_of_idle_.emplace_back(proactor);
  }
}

FileCache& Server::files() {
  const std::uint32_t lane = proactor_.current_lane();
  return *files_[lane < files_.size() ? lane : 0];
}

baton::CancellationToken Server::end_of_idle() const {
  const std::uint32_t lane = proactor_.current_lane();
  return ends_of_idle_[lane < ends_of_idle_.size() ? lane : 0].token();
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
      if (peer.error() == std::errc::not_enough_memory) {
        static_cast<void>(co_await baton::sleep_for(proactor_, pause));
        continue;
      }
      end_by(peer.error());
      co_return;
    }
    Place place = admit();
    if (place.admission() == Admission::dropped) {
      // Before the next: a crowd could take all descriptors.
      static_cast<void>(co_await peer->close());
      continue;
    }
    start_session(std::move(*peer), std::move(place));
  }
}

// Without memory the connection ends, and the listener goes on.
void Server::start_session(baton::StreamSocket peer, Place place) {
  try {
    proactor_.spawn(serve_connection(*this, std::move(peer), std::move(place)));
  } catch (const std::bad_alloc&) {
    proactor_.task_failed(std::current_exception());
  }
}

Place Server::admit() {
  accepted_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t others = open_.fetch_add(1);
  if (others < limits().connections) return {*this, Admission::served};
  turned_away_.fetch_add(1, std::memory_order_relaxed);
  const bool answered = others < limits().connections + turned_away_max_;
  return {*this, answered ? Admission::turned_away : Admission::dropped};
}

Place::~Place() {
  if (server_ != nullptr) server_->give_back_place();
}

void Server::give_back_place() {
  if (open_.fetch_sub(1) == 1) end_if_empty();
}

void Server::add(const Counts& counts) {
  const std::lock_guard lock(mutex_);
  counts_.requests += counts.requests;
  counts_.errors += counts.errors;
  counts_.timeouts += counts.timeouts;
}

// -- ending ---------------------------------------------------------------------------------------

std::error_code Server::wait_for_signal() {
  return signals_.wait(signal_operation_, signal_, [this](baton::Operation&) { on_signal(); });
}

void Server::on_signal() {
  if (const std::error_code error = signal_operation_.error()) return wait_has_failed(error);
  if (draining_) return proactor_.stop();
  // Waits again before the drain begins, which is what ends that wait.
  if (wait_for_signal()) return proactor_.stop();
  drain();
}

// Without its signals the server could not be ended, so it ends at any other error.
void Server::wait_has_failed(std::error_code error) {
  if (error == std::errc::operation_canceled) return;
  if (error != std::errc::not_enough_memory) return end_by(error);
  wait_again_.set_handler([this](baton::Operation&) {
    if (const std::error_code refused = wait_for_signal()) return wait_has_failed(refused);
    end_if_empty();  // it may have become so meanwhile
  });
  const baton::Deadline later = baton::Deadline::after(pause, proactor_.now());
  if (const std::error_code refused = proactor_.start_timer(wait_again_, later)) end_by(refused);
}

void Server::end_by(std::error_code error) {
  if (draining_.exchange(true)) return;
  error_ = error;
  begin_drain();
}

void Server::drain() {
  if (!draining_.exchange(true)) begin_drain();
}

void Server::begin_drain() {
  proactor_.drain(baton::Deadline::after(limits().drain_time, proactor_.now()));
  for (baton::CancellationSource& end : ends_of_idle_) end.cancel();
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
