// Maps suites and tests to rules. A line without a test covers the rest of its suite.
#include "rules.hpp"

#include <algorithm>
#include <array>

namespace baton::conformance {
namespace {

constexpr std::array all_rules{
    Rule{"1", "one start, one completion"},
    Rule{"2", "memory is Baton's until then"},
    Rule{"3", "order"},
    Rule{"4", "short reads, ends of streams"},
    Rule{"5", "cancel and deadlines"},
    Rule{"6", "close"},
    Rule{"7", "errors are values"},
    Rule{"8", "limits"},
    Rule{"9", "stop, drain, destruction"},
    Rule{"10", "files never block a leader"},
    Rule{"11", "an error state costs no CPU"},
    Rule{"12", "owned and borrowed"},
    Rule{"threads", "threads and wake-ups"},
    Rule{"idle", "idle costs nothing"},
    Rule{"processes", "processes and reports"},
    Rule{"same", "tells what every engine tells"},
    Rule{"wait_strategy", "wait strategy"},
    Rule{"interrupt_strategy", "interrupt strategy"},
};

struct Line {
  std::string_view suite;
  std::string_view test;  ///< empty: all others of the suite
  std::string_view rule;
};

// Every test of an operation also checks rule 1, in the fixture's TearDown: as many completions as
// starts.
constexpr Line lines[] = {
    {"Start", "a_handler_may_destroy_its_own_operation", "2"},
    {"Start", "refuses_while_stopped_and_works_after_restart", "9"},
    {"Start", "", "1"},
    {"Foreign", "", "1"},
    {"Sessions", "", "1"},
    {"Stress", "", "1"},
    {"Connection", "a_pending_connect_can_be_cancelled_and_closed", "6"},
    {"Connection", "", "1"},
    {"Handlers", "may_destroy_their_own_operation", "2"},
    {"Handlers", "may_close_their_own_handle", "6"},
    {"Handlers", "", "threads"},
    {"Stream", "vectored_transfers_keep_the_order_of_their_buffers", "3"},
    {"Stream", "pooled_reads_take_a_block_only_for_data", "2"},
    {"Stream", "", "4"},
    {"Order", "", "3"},
    {"Driving", "a_closed_file_frees_its_handle", "6"},
    {"Driving", "", "threads"},
    {"Message", "wait_ready_reports_readable_and_writable", "4"},
    {"Message", "", "3"},
    {"Network", "an_address_that_goes_is_an_error_and_the_sockets_live_on", "7"},
    {"Network", "", "11"},
    {"Cancel", "", "5"},
    {"Calls", "a_drain_that_is_over_leaves_the_accepts_after_it", "9"},
    {"Calls", "a_borrowed_descriptor_is_adopted_anew_right_after_a_close", "12"},
    {"Calls", "", "5"},
    {"Timing", "timers_fire_in_order_and_never_early", "threads"},
    {"Timing", "timers_are_cancelled_and_set_again", "threads"},
    {"Timing", "a_nearer_timer_wakes_the_thread_that_waits", "threads"},
    {"Timing", "", "5"},
    {"Close", "", "6"},
    {"CloseOfFiles", "", "10"},
    {"Errors", "", "7"},
    {"Run", "an_exception_leaves_one_run_and_the_others_go_on", "7"},
    {"Run", "run_works_again_after_an_exception", "7"},
    {"Run", "", "threads"},
    {"Limits", "", "8"},
    {"Stop", "", "9"},
    {"End", "", "9"},
    {"File", "appended_blocks_keep_the_order_of_their_start", "3"},
    {"File", "errors_are_completions", "7"},
    {"File", "", "10"},
    {"Idle", "", "11"},
    {"Held", "", "11"},
    {"Full", "", "11"},
    {"Borrowed", "blocking_sockets_and_pipes_block_no_other_operation", "10"},
    {"Borrowed", "", "12"},
    {"Adopted", "", "12"},
    {"CancelsBesideALane", "", "12"},
    {"Teams", "a_merged_wait_does_not_spin", "idle"},
    {"Teams", "operations_max_is_for_each_processor", "8"},
    {"Teams", "a_bound_on_started_operations_defers_the_rest_and_loses_nothing", "8"},
    {"Teams", "", "threads"},
    {"DedicatedTeams", "", "threads"},
    {"Roles", "an_idle_proactor_makes_no_system_calls", "idle"},
    {"Roles", "a_proactor_that_only_waits_makes_no_system_calls", "idle"},
    {"Roles", "", "threads"},
    {"SharedRoles", "", "threads"},
    {"RolesWithoutLooks", "", "threads"},
    {"LastingHandlers", "", "threads"},
    {"Blocking", "", "threads"},
    {"Timers", "", "threads"},
    {"Lanes", "", "threads"},
    {"Attached", "", "threads"},
    {"Crews", "", "threads"},
    {"CallsAtALook", "", "threads"},
    {"CrewsWithoutRings", "", "threads"},
    {"Strands", "go_on_after_an_exception", "7"},
    {"Strands", "", "threads"},
    {"Processes", "", "processes"},
    {"Pending", "", "processes"},
    {"Same", "", "same"},
    {"wait_strategy", "", "wait_strategy"},
    {"interrupt_strategy", "", "interrupt_strategy"},
    {"signal_interrupt", "", "interrupt_strategy"},
};

}  // namespace

std::span<const Rule> rules() { return all_rules; }

int rule_of(std::string_view suite, std::string_view test) {
  const auto* const line = std::find_if(std::begin(lines), std::end(lines), [&](const Line& one) {
    return one.suite == suite && (one.test.empty() || one.test == test);
  });
  if (line == std::end(lines)) return -1;
  const auto rule = std::find_if(all_rules.begin(), all_rules.end(),
                                 [&](const Rule& one) { return one.key == line->rule; });
  return static_cast<int>(rule - all_rules.begin());
}

}  // namespace baton::conformance
