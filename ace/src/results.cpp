#include "results.hpp"

#include <ace/Addr.h>

#include <cstring>
#include <typeinfo>

#if defined(__SANITIZE_ADDRESS__)
#define BATON_ACE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BATON_ACE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define BATON_ACE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BATON_ACE_TSAN 1
#endif
#endif
#ifdef BATON_ACE_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace baton::ace {
namespace {

struct AnyResult : ACE_POSIX_Asynch_Result {
  static constexpr auto proxy = &AnyResult::handler_proxy_;
};

struct ReadDatagramResult : ACE_POSIX_Asynch_Read_Dgram_Result {
  static constexpr auto address = &ReadDatagramResult::remote_address_;
  static constexpr auto size = &ReadDatagramResult::addr_len_;
};

template <class... Classes>
bool is_one_of(const std::type_info& type) noexcept {
  return ((type == typeid(Classes)) || ...);
}

/// libACE, which is built without ThreadSanitizer, counts the references of a proxy by atomic
/// instructions. ThreadSanitizer does not see these, and reports the end of the last reference as a
/// race with earlier reads.
class ReadsCountedByAce {
 public:
#ifdef BATON_ACE_TSAN
  ReadsCountedByAce() noexcept { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~ReadsCountedByAce() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  ReadsCountedByAce() noexcept {}  // not trivial, so that a variable of this type counts as used
  ~ReadsCountedByAce() {}
#endif
  ReadsCountedByAce(const ReadsCountedByAce&) = delete;
  ReadsCountedByAce& operator=(const ReadsCountedByAce&) = delete;
};

}  // namespace

// -- memory of results ----------------------------------------------------------------------------

#ifdef BATON_ACE_ASAN
constexpr unsigned kept_max = 0;  // so that the sanitizer sees each use after the end
#else
constexpr unsigned kept_max = 64;
#endif

constinit thread_local ResultMemory::Kept ResultMemory::kept{};

ResultMemory::EndOfThread::~EndOfThread() {
  while (kept.first != nullptr) ::operator delete(std::exchange(kept.first, kept.first->next));
  kept.room = 0;  // destructors that run later cache nothing
}

void ResultMemory::free_or_begin(void* memory) noexcept {
  ::operator delete(memory);
  if (kept.begun) return;
  static thread_local const EndOfThread at_the_end;
  static_cast<void>(&at_the_end);
  kept.begun = true;
  kept.room = kept_max;
}

// -- what ACE keeps to itself ---------------------------------------------------------------------

ACE_Handler* handler_of(ACE_POSIX_Asynch_Result& result) noexcept {
  const ReadsCountedByAce reads;
  ACE_Handler::Proxy* const proxy = (result.*AnyResult::proxy).get();
  return proxy != nullptr ? proxy->handler() : nullptr;
}

bool is_of_the_program(const ACE_POSIX_Asynch_Result& result) noexcept {
  return !is_one_of<StreamResult<ACE_POSIX_Asynch_Read_Stream_Result>,
                    StreamResult<ACE_POSIX_Asynch_Write_Stream_Result>,
                    ACE_POSIX_Asynch_Read_Stream_Result, ACE_POSIX_Asynch_Write_Stream_Result,
                    ACE_POSIX_Asynch_Read_File_Result, ACE_POSIX_Asynch_Write_File_Result,
                    ACE_POSIX_Asynch_Read_Dgram_Result, ACE_POSIX_Asynch_Write_Dgram_Result,
                    ACE_POSIX_Asynch_Accept_Result, ACE_POSIX_Asynch_Connect_Result,
                    ACE_POSIX_Asynch_Transmit_File_Result>(typeid(result));
}

bool has_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result) noexcept {
  return result.*ReadDatagramResult::address != nullptr;
}

void set_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result, const Endpoint& sender) noexcept {
  ACE_Addr* const address = result.*ReadDatagramResult::address;
  if (sender.size() == 0) return;
  address->set_addr(sender.data(), static_cast<int>(sender.size()));
  result.*ReadDatagramResult::size = static_cast<int>(sender.size());
}

bool copy_address(const ACE_Addr& address, Endpoint& endpoint) noexcept {
  const auto size = static_cast<std::size_t>(address.get_size());
  if (size > Endpoint::capacity) return false;
  std::memcpy(endpoint.data(), address.get_addr(), size);
  endpoint.set_size(static_cast<std::uint32_t>(size));
  return true;
}

}  // namespace baton::ace
