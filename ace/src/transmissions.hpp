// Transmissions: each is one ACE operation that sends a header, a part of a file and a trailer
// through a socket, by several operations of Baton.
#pragma once

#include <ace/POSIX_Asynch_IO.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "baton/ace/proactor.hpp"
#include "descriptors.hpp"
#include "native/open_file.hpp"

namespace baton::ace {

class Transmission;

class Transmissions {
 public:
  /// Cancels the transmissions to this socket. False: there are none.
  bool cancel(int socket) noexcept;

 private:
  friend class Transmission;
  std::mutex mutex_;
  Transmission* first_ = nullptr;
};

/// One transmission. It deletes itself when it has delivered its outcome.
class Transmission {
 public:
  struct Plan {
    int socket = -1;
    int file = -1;
    ACE_Asynch_Transmit_File::Header_And_Trailer* ends = nullptr;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;     ///< of the file
    std::size_t per_send = 0;  ///< not 0
  };

  /// Returns 0 and takes the result over, or returns an errno.
  static int begin(const std::shared_ptr<Bridge>& bridge, const Plan& plan,
                   ACE_POSIX_Asynch_Result& result) noexcept;

 private:
  friend class Transmissions;
  /// The transmissions in flight.
  enum class Step : std::uint8_t { none, header, read, data, trailer };

  Transmission(Bridge& bridge, const Plan& plan, ACE_POSIX_Asynch_Result& result) noexcept
      : bridge_(bridge), plan_(plan), result_(result) {}
  ~Transmission();
  void enlist() noexcept;

  int go_on(std::size_t just_read) noexcept;
  int read() noexcept;
  int write(const ACE_Message_Block& block, std::size_t bytes) noexcept;
  int start_step(int fildes, Action action, char* data, std::size_t size) noexcept;
  [[nodiscard]] bool is_last() const noexcept;
  static void step_ended(Bridge& bridge, void* what, Outcome outcome);
  void step_ended(Outcome outcome);
  int take_in(Outcome outcome) noexcept;

  Bridge& bridge_;
  Plan plan_;
  ACE_POSIX_Asynch_Result& result_;
  native::OpenFile socket_;  // the numbers in the plan may name others by the next step
  native::OpenFile file_;
  std::unique_ptr<char[]> piece_;
  std::size_t sent_ = 0;
  Step step_ = Step::none;
  bool cancelled_ = false;  // guarded by the mutex of Transmissions; read between two steps
  Transmission* next_ = nullptr;
  Transmission* previous_ = nullptr;
};

}  // namespace baton::ace
