// Crew: decides which thread leads which lane, in per_thread mode. A thread that comes takes a lane
// without a leader as its home and leads it alone, by LaneLoop::turn. Lanes with work and without a
// thread are led by threads that already have a home.
//
// One rule: a thread that leaves a lane looks round once, and a thread that leaves work in a lane
// without a leader looks for one (SleepWord, GONE). Both write first and look then, sequentially
// consistent, so either the next leader sees the work or the starter sees the leader.
//
// Lanes are taken by compare and exchange; none is handed from one thread to another. A thread that
// leads several lanes and is inside one of them loans the others. A thread without a lane may take
// a loaned one, so that a long handler does not delay it. A thread that finds no home stands by and
// asks the threads that lead several. While a thread stands by, no other takes a second lane.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "baton/deadline.hpp"
#include "core/lane_loop.hpp"

namespace baton {

class Crew;

/// A thread inside Crew::turn; on its stack.
struct CrewMember {
  CrewMember(Crew& in, std::uint32_t stops_before) noexcept : crew(in), stops(stops_before) {}
  ~CrewMember();
  CrewMember(const CrewMember&) = delete;
  CrewMember& operator=(const CrewMember&) = delete;

  Crew& crew;
  std::uint32_t stops;    // Crew::stops_ when it came
  bool for_good = false;  // it leaves, and is not expected to come back
  std::bitset<limits::lanes_max> leads;
  LaneLoop* home = nullptr;                 // one of them
  Deadline look_again = Deadline::never();  // a lane without a thread may be taken then
  std::uint32_t depth = 0;                  // handlers that have called turn()
  const LaneLoop::Stay* stay = nullptr;     // in `home`, between its calls
  bool settled = false;                     // it leads its home, as before, and no other

  [[nodiscard]] bool leads_one() const noexcept {
    auto rest = leads;
    return home != nullptr && rest.reset(home->lane_index()).none();
  }
};

/// A thread that leads its home between its calls, too; made and destroyed by that thread.
class AttachedMember {
 public:
  explicit AttachedMember(Crew& crew);
  ~AttachedMember();
  AttachedMember(const AttachedMember&) = delete;
  AttachedMember& operator=(const AttachedMember&) = delete;
  [[nodiscard]] bool has_lane() const noexcept { return stay_.has_value(); }

 private:
  CrewMember member_;
  std::optional<LaneLoop::Stay> stay_;  // ends before the member leaves
};

class Crew {
 public:
  Crew(Ledger& ledger, const std::vector<std::unique_ptr<LaneLoop>>& loops,
       const std::atomic<bool>& stopped, const HandlerRunner& runner) noexcept
      : ledger_(ledger), loops_(loops), stopped_(stopped), runner_(runner) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// As Dispatcher::turn. `for_good`: the thread is not expected to come back. Throws what handlers
  /// throw; and DrivingRefused(errc::wrong_thread) when a lane needs a thread and its engine, or
  /// that of this thread's lane, is bound to its own (profile=pinned).
  std::size_t turn(Deadline deadline, std::size_t handlers_max, bool return_after_handlers,
                   bool for_good);
  /// Something was left in a lane without a leader. Any thread.
  void find_leader() noexcept;
  /// After `stopped` was set: every thread that is inside leaves.
  void stop() noexcept;

  /// A thread is at home in the lane, or may be about to come.
  [[nodiscard]] bool has_thread(std::uint32_t lane) noexcept;
  /// The lane where the calling thread is at home, if it leads `lane` besides; else `lane`.
  [[nodiscard]] std::uint32_t home_beside(std::uint32_t lane) const noexcept;
  /// The calling thread is attached, and in no handler.
  [[nodiscard]] bool attached_here() const noexcept {
    const LaneLoop::Inside* const here = LaneLoop::innermost(ledger_);
    const CrewMember* const member = here != nullptr ? here->loop->member() : nullptr;
    return member != nullptr && member->stay != nullptr && member->stay->is(here);
  }
  [[nodiscard]] bool has_attached() const noexcept {
    return attached_.load(std::memory_order_relaxed) > 0;
  }

 private:
  friend struct CrewMember;
  friend class AttachedMember;

  [[gnu::noinline]] std::size_t visit(Deadline deadline, std::size_t handlers_max,
                                      bool return_after_handlers, bool for_good);
  void outer_turn_regroups(CrewMember& member) noexcept;
  void come_again(CrewMember& member) noexcept;
  void go_away(CrewMember& member) noexcept;
  void nothing_ran(CrewMember& member) noexcept;
  void keep_home_only(CrewMember& member) noexcept;
  bool take_home(Deadline deadline, CrewMember& member);
  LaneLoop* stand_by(Deadline deadline, CrewMember& member) noexcept;
  LaneLoop* take_free(CrewMember& member) noexcept;
  void ask_for_lane() noexcept;
  [[nodiscard]] bool stopped(const CrewMember& member) const noexcept {
    return stopped_.load(std::memory_order_seq_cst) ||
           stops_.load(std::memory_order_seq_cst) != member.stops;
  }
  [[gnu::always_inline]] std::size_t drive(CrewMember& member, Deadline deadline,
                                           std::size_t handlers_max, bool return_after_handlers);
  void claim_all(CrewMember& member) noexcept;
  std::size_t turn_all(CrewMember& member, std::size_t handlers_max);
  void regroup(CrewMember& member);
  void give(CrewMember& member) noexcept;
  void take(CrewMember& member);
  void leave_what_it_left() noexcept;
  bool take_besides(CrewMember& member, LaneLoop& loop);
  void wait(CrewMember& member, Deadline deadline) noexcept;
  void sleep(CrewMember& member, Deadline until) noexcept;
  void member_left(bool for_good) noexcept;
  void look_round() noexcept;
  bool call_standby(std::uint32_t threads) noexcept;
  template <class Visit>
  void for_each(const CrewMember& member, Visit&& visit) const {
    for (const auto& loop : loops_) {
      if (member.leads[loop->lane_index()]) visit(*loop);
    }
  }

  Ledger& ledger_;
  const std::vector<std::unique_ptr<LaneLoop>>& loops_;
  const std::atomic<bool>& stopped_;
  const HandlerRunner& runner_;
  std::atomic<std::uint32_t> stops_{0};
  std::atomic<std::uint32_t> changes_{0};   // a futex: threads that stand by wait for the next
  std::atomic<std::uint32_t> standby_{0};   // threads
  std::atomic<std::uint32_t> watching_{0};  // threads that sleep, and look again soon, unasked
  std::atomic<std::uint32_t> rounds_{0};    // each lane is the first in its turn
  std::atomic<std::uint32_t> attached_{0};  // AttachedMembers with a lane
  std::atomic<std::int64_t> first_came_ns_{0};
  std::atomic<bool> all_came_{false};
};

}  // namespace baton
