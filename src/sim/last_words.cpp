// The printed text. Everything outside the class runs in a handler of a signal that ends the
// program.
#include "sim/last_words.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

#include "sim/world.hpp"

namespace baton::sim {
namespace {

constexpr std::array signals{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr std::size_t stack_size = std::size_t{64} * 1024;

std::mutex mutex;
unsigned runs = 0;  // under the mutex
std::array<struct sigaction, signals.size()>
    before;  // written while our handlers are not installed

// A line of text that allocates no memory.
class Line {
 public:
  Line& operator<<(std::string_view text) noexcept {
    const std::size_t size = std::min(text.size(), sizeof(text_) - size_);
    std::memcpy(text_ + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  Line& operator<<(std::uint64_t number) noexcept {
    char digits[20];
    char* at = digits + sizeof(digits);
    do {
      *--at = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    return *this << std::string_view{at, static_cast<std::size_t>(digits + sizeof(digits) - at)};
  }
  void write() const noexcept { static_cast<void>(!::write(STDERR_FILENO, text_, size_)); }

 private:
  char text_[512];
  std::size_t size_ = 0;
};

void tell(const World& world, int signal, const void* address) noexcept {
  Line line;
  line << "baton: simulation: seed " << world.seed() << ": thread " << world.scheduler().self();
  if (world.scheduler().overflowed(address)) {
    line << " has used up its stack of " << std::uint64_t{Fiber::stack_size / 1024} << " KiB\n";
  } else {
    line << " ended the program by SIG" << ::sigabbrev_np(signal) << "\n";
  }
  line << world.replay();
  line.write();
}

extern "C" void last_words(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool fault = info->si_code > 0;  // caused by an instruction, not by kill() or raise()
  // A thread outside a run has no seed.
  if (const World* const world = World::current(); world != nullptr) {
    tell(*world, signal, fault ? info->si_addr : nullptr);
  }
  for (std::size_t i = 0; i < signals.size(); ++i) {
    if (signals[i] == signal) ::sigaction(signal, &before[i], nullptr);
  }
  // A faulting instruction runs again; any other signal has to be raised again.
  if (!fault) ::raise(signal);
  errno = error;
}

}  // namespace

LastWords::LastWords() : stack_(new std::byte[stack_size]) {
  stack_t stack{};
  stack.ss_sp = stack_.get();
  stack.ss_size = stack_size;
  ::sigaltstack(&stack, &before_);
  const std::lock_guard lock{mutex};
  if (runs++ != 0) return;
  struct sigaction action{};
  action.sa_sigaction = last_words;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &action, &before[i]);
}

LastWords::~LastWords() {
  {
    const std::lock_guard lock{mutex};
    if (--runs == 0) {
      for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before[i], nullptr);
    }
  }
  ::sigaltstack(&before_, nullptr);
}

}  // namespace baton::sim
