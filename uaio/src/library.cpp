#include "library.hpp"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "block.hpp"
#include "maps.hpp"
#include "size_limit.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

sigset_t mask_before_fork;

void write_error(const char* line, int length, std::size_t room) noexcept {
  const std::size_t size = std::min(room - 1, static_cast<std::size_t>(std::max(length, 0)));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, size);
}

// Initialised at load time: the first use may be in a signal handler that has interrupted malloc.
[[gnu::constructor]] void load() { Library::get(); }

// The requests belong to the parent. The child's copies of their aiocbs become complete, so that no
// thread of the child waits for them for ever. An aiocb in memory that the child shares with its
// parent is not a copy, and neither is one in memory that the child did not inherit. The child does
// not reuse the memory of the requests: its copy of the parent's proactor refers to it.
void lose_all() noexcept {
  bool some = false;
  for_each_pending([&some](Request&) { some = true; });
  if (!some) return;
  PrivateMemory memory;
  while (memory.next()) {
    for_each_pending([&memory](Request& request) {
      if (!memory.holds(request.block, sizeof(*request.block))) return;
      Block state{*request.block};
      // A request that was being published may already belong to the program again.
      const bool ours = request.stage.load() == Stage::pending;
      if (ours || state.waits_if_alive()) state.publish(ECANCELED, -1);
    });
  }
  for_each_pending([](Request& request) { request.stage.store(Stage::free); });
}

}  // namespace

Library& Library::get() {
  static Library* const library = new Library;
  return *library;
}

Library::Library() : options_(options_of_environment()) {
  if (!options_.mistake.empty()) {
    complain(("UAIO: not understood, and left out: " + options_.mistake).c_str());
  }
  measure_stacks();
  note_process();
  set_threads(options_.threads);
  constexpr std::size_t page = 4'096;
  void* const memory =
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && ::madvise(memory, page, MADV_WIPEONFORK) == 0) {
    origin_ = static_cast<volatile char*>(memory);
    *origin_ = 1;
  }
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (options_.statistics) ::atexit(at_exit);
}

void Library::set_threads(std::uint32_t count) {
  while (shards_.size() < count) {
    shards_.push_back(
        std::make_unique<Shard>(*this, options_.depth, options_.mode == Mode::single));
  }
  options_.threads = static_cast<std::uint32_t>(shards_.size());
}

bool Library::busy() const noexcept { return direct_.busy() || shards_busy(); }

bool Library::shards_busy() const noexcept {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->busy(); });
}

bool Library::shards_may_have(int fildes) const noexcept {
  return std::any_of(shards_.begin(), shards_.end(),
                     [fildes](const auto& shard) { return shard->may_have(fildes); });
}

// -- completions ----------------------------------------------------------------------------------

void Library::announce() noexcept {
  // seq_cst, both: either a sleeper sees the new number, or this thread sees the sleeper.
  events_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(events_, INT32_MAX);
}

// The list first: a thread that sees a complete request may fetch it, and must find it there.
void Library::store_and_list(aiocb& block, int error, ssize_t result, bool immediately) noexcept {
  const Locked locked{done_mutex_};
  Block state{block};
  state.links() = {nullptr, done_last_};
  (done_last_ != nullptr ? Block{*done_last_}.links().next : done_first_) = &block;
  done_last_ = &block;
  done_count_.fetch_add(1, std::memory_order_release);
  state.store(error, result, immediately);
}

// A signal handler may have interrupted the thread that collects and wait for this very request, so
// the result is published before anything else. The rest is in separate functions, so that not even
// stack for their variables is allocated before.
void Library::publish(Request& request, int error, ssize_t result) noexcept {
  // A thread that aio_suspend lets go on has the signal already, as with the system's library. But
  // a handler that interrupted this thread must not wait for it, and one that runs at once may
  // leave by a jump.
  const auto has_signal = [](const Notification& note) { return note.kind == SIGEV_SIGNAL; };
  const bool signals =
      has_signal(request.note) || (request.group != nullptr && has_signal(request.group->note));
  const bool signal_first = signals && runs_no_handlers();
  if (signal_first) signals_of(request.block).fetch_add(1, std::memory_order_relaxed);
  request.stage.store(Stage::publishing, std::memory_order_seq_cst);
  if (keeps_done_) {
    store_and_list(*request.block, error, result, false);
  } else {
    Block{*request.block}.publish(error, result);
  }
  tell(request, signal_first, error, result);
}

// The aiocb belongs to the program by now.
void Library::tell(const Request& request, bool signal_first, int error, ssize_t result) noexcept {
  if (!signal_first) announce();
  if (error != 0) count(errors);
  if (options_.trace) trace("complete", request.block, error, result);
  notifier_.tell(request.note);
  if (request.group != nullptr) leave(*request.group, error != 0);
  if (signal_first) {
    signals_of(request.block).fetch_sub(1, std::memory_order_release);
    announce();
  }
}

void Library::complete_at_once(aiocb& block, int error, ssize_t result, const Notification& note,
                               Group* group) noexcept {
  count(at_once);
  if (options_.trace) trace("at once", &block, error, result);
  if (error != 0 && group != nullptr) group->failed.store(true, std::memory_order_relaxed);
  if (error != 0) count(errors);
  if (keeps_done_) {
    store_and_list(block, error, result, true);
    announce();
  } else {
    Block{block}.publish_at_once(error, result);
  }
  notifier_.tell(note);
}

void Library::refuse(aiocb& block, int error) noexcept {
  Block state{block};
  if (options_.trace) trace("refused", &block, error, -1);
  // Not on the list of what is complete.
  if (keeps_done_) state.links() = {&block, nullptr};
  state.publish_at_once(error, -1);
}

void Library::leave(Group& group, bool failed) noexcept {
  if (failed) group.failed.store(true, std::memory_order_relaxed);
  // acq_rel: the last one sees the effects of all others.
  if (group.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const Notification note = group.note;
    announce();
    notifier_.tell(note);
  }
  release(group);
}

void Library::release(Group& group) noexcept {
  if (group.users.fetch_sub(1, std::memory_order_acq_rel) == 1) give_request(*group.holder);
}

void Library::direct_done() noexcept {
  if (waits_for_direct_.load(std::memory_order_seq_cst) == 0) return;
  for (const auto& shard : shards_) shard->look_at_direct();
}

void Library::hand_on(Request& request) noexcept {
  struct stat status{};
  // As in post(): the file matters only with several shards.
  const bool known = shards_.size() == 1 || ::fstat(request.fildes, &status) == 0;
  Shard& shard = shard_of(status);
  request.handed_to.store(&shard, std::memory_order_release);
  if (const int error = known ? shard.post(request) : EBADF; error != 0) {
    direct_.take_back(request);
    publish(request, error, -1);
    give_request(request);
  }
  direct_done();
}

// -- what is complete and not fetched -------------------------------------------------------------

// With the lock held.
void Library::unlink_done(aiocb& block) noexcept {
  const Block::Links links = Block{block}.links();
  if (links.next == &block) return;  // refused
  (links.previous != nullptr ? Block{*links.previous}.links().next : done_first_) = links.next;
  (links.next != nullptr ? Block{*links.next}.links().previous : done_last_) = links.previous;
  done_count_.fetch_sub(1, std::memory_order_relaxed);
}

// Mark and list change together: no thread finds a request on the list that another thread has
// fetched and restarted.
bool Library::fetch(aiocb& block) noexcept {
  if (!keeps_done_) return Block{block}.fetch();
  const Locked locked{done_mutex_};
  if (!Block{block}.fetch()) return false;
  unlink_done(block);
  return true;
}

aiocb* Library::fetch_first(int& error, ssize_t& result) noexcept {
  const Locked locked{done_mutex_};
  aiocb* const first = done_first_;
  if (first == nullptr) return nullptr;
  Block state{*first};
  error = state.error();
  result = state.result();
  state.fetch();
  unlink_done(*first);
  return first;
}

// -- what was done --------------------------------------------------------------------------------

std::string Library::statistics() const {
  static constexpr const char* names[counters] = {"at_once", "at_engine", "direct", "not_cached",
                                                  "errors",  "lists",     "threads"};
  std::string text;
  const auto add = [&text](const char* name, std::uint64_t value) {
    text += name;
    text += ' ';
    text += std::to_string(value);
    text += '\n';
  };
  for (std::size_t i = 0; i < counters; ++i) add(names[i], counts_[i].load());
  add("signals", notifier_.signals());
  add("signals_postponed", notifier_.postponed());
  add("callbacks", notifier_.callbacks());
  return text;
}

void Library::trace(const char* what, const void* block, long first, long second) const noexcept {
  char line[160];
  const int length = ::snprintf(line, sizeof(line), "uaio[%d]: %s %p %ld %ld\n", ::getpid(), what,
                                block, first, second);
  write_error(line, length, sizeof(line));
}

void Library::complain(const char* text, int number) const noexcept {
  char line[512];
  const int length = number != 0 ? ::snprintf(line, sizeof(line), "uaio: %s%d\n", text, number)
                                 : ::snprintf(line, sizeof(line), "uaio: %s\n", text);
  write_error(line, length, sizeof(line));
}

void Library::at_exit() {
  const Library& self = get();
  // A shell or another program in between made no request and has nothing to report.
  const bool idle = std::all_of(self.counts_.begin(), self.counts_.end(),
                                [](const auto& count) { return count.load() == 0; });
  if (idle) return;
  std::string text = "uaio: statistics of process " + std::to_string(::getpid()) + "\n";
  text += self.statistics();
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// -- fork -----------------------------------------------------------------------------------------

// The library's own threads hold these locks only while they change a list. The child decides what
// to do with a request by the request alone.
void Library::before_fork() noexcept {
  Library& self = get();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&self.start_mutex_);
  for (const auto& shard : self.shards_) shard->lock_for_fork();
  self.notifier_.lock();
  pthread_mutex_lock(&self.done_mutex_);
  mask_before_fork = before;
}

void Library::after_fork_in_parent() noexcept {
  Library& self = get();
  const sigset_t before = mask_before_fork;
  pthread_mutex_unlock(&self.done_mutex_);
  self.notifier_.unlock();
  for (const auto& shard : self.shards_) shard->unlock_after_fork();
  pthread_mutex_unlock(&self.start_mutex_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Library::after_fork_in_child() noexcept {
  Library& self = get();
  const sigset_t before = mask_before_fork;
  if (self.origin_ != nullptr) *self.origin_ = 1;
  note_process();
  forget_limits_of_other_threads();
  self.done_first_ = self.done_last_ = nullptr;
  self.done_count_.store(0);
  pthread_mutex_unlock(&self.done_mutex_);
  self.notifier_.reset();
  self.notifier_.unlock();
  self.sleepers_.store(0);
  for (auto& each : self.unsent_) each.store(0);
  self.driver_.store(pthread_t{});
  self.watcher_.store(false);
  self.waits_for_direct_.store(0);
  self.timer_started_.store(false);
  lose_all();
  self.direct_.after_fork_in_child();
  for (const auto& shard : self.shards_) {
    shard->after_fork_in_child();
    shard->unlock_after_fork();
  }
  pthread_mutex_unlock(&self.start_mutex_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace uaio
