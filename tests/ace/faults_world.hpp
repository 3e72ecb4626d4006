// The environment of a scenario of the fault tests: a bridge with its ACE_Proactor, and an account
// of all starts. An accepted start completes once; a refused one never completes and sets errno to
// the reason. Waiting has no timeout: if a completion never comes, the program is ended.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "faults/allocations.hpp"
#include "support.hpp"
#include "wrapped_calls.hpp"

namespace baton::ace::test {

/// Calls and allocations of the test itself, which do not fail.
struct Own {
  const faults::Exempt allocations;
  const ExemptCalls calls;
};

class World final : public ACE_Handler {
 public:
  World();
  ~World() override;

  [[nodiscard]] ACE_Proactor* ace() { return ace_.get(); }
  [[nodiscard]] Proactor& bridge() { return *bridge_; }

  /// A call that answers 0, or -1 and errno. False: it failed, which is noted.
  template <class Call>
  bool take(Call&& call) {
    errno = 0;
    if (call() == 0) return true;
    fail(errno);
    return false;
  }
  /// The same, of a call that begins an operation.
  template <class Call>
  bool start(Call&& call) {
    pending_.fetch_add(1);
    if (take(call)) return true;
    pending_.fetch_sub(1);
    return false;
  }
  /// Cancels the operations of the scenario when something has failed. Answers as cancel() of ACE's
  /// operations does.
  void ends_by(std::function<int()> cancel);
  /// Drives until everything that was started is complete.
  void settle();
  /// The same with this many threads in ACE's event loop.
  void settle_by(unsigned threads);
  /// A result of its own was dispatched; an operation ended.
  void took(bool success, u_long error, std::size_t bytes);

  [[nodiscard]] bool failed() const { return error_.load() != -1; }
  /// The first errno of a call or a completion, -1 if there was none.
  [[nodiscard]] int error() const { return error_.load(); }
  void expect_works();
  void destroy();

  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override;
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override;
  void handle_read_file(const ACE_Asynch_Read_File::Result& result) override;
  void handle_write_file(const ACE_Asynch_Write_File::Result& result) override;
  void handle_read_dgram(const ACE_Asynch_Read_Dgram::Result& result) override;
  void handle_write_dgram(const ACE_Asynch_Write_Dgram::Result& result) override;
  void handle_transmit_file(const ACE_Asynch_Transmit_File::Result& result) override;
  void handle_time_out(const ACE_Time_Value& when, const void* act) override;
  void handle_accept(const ACE_Asynch_Accept::Result& result) override;
  void handle_connect(const ACE_Asynch_Connect::Result& result) override;

  std::atomic<long> bytes_read{0};
  std::atomic<long> bytes_sent{0};
  bool expects_cancel = false;  ///< ECANCELED is no failure

 private:
  void fail(int error);
  void handle_one();
  void end();

  std::unique_ptr<Proactor> bridge_;
  TimerQueue timers_;
  std::unique_ptr<ACE_Proactor> ace_;
  std::vector<std::function<int()>> cancels_;
  std::atomic<long> pending_{0};
  std::atomic<int> error_{-1};
  std::atomic<bool> ending_{false};
};

/// The current case, for the message of a crash or a hang.
void now_trying(const std::string& what);

}  // namespace baton::ace::test
