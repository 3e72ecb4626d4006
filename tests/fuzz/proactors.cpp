#include "proactors.hpp"

#include <array>

#include "expect.hpp"

namespace baton::fuzz {
namespace {

// All wait in the calling thread, so that an input leads to the same course every time.
constexpr std::array texts{
    "engine=emulated,wait=epoll,mode=shared",
    "engine=emulated,wait=poll,mode=shared",
    "engine=emulated,wait=select,mode=shared",
    "engine=io_uring,mode=shared",
    "engine=emulated,wait=epoll,mode=per_thread,threads=1",
    "engine=io_uring,mode=per_thread,threads=1",
};

baton_proactor* open(const char* text, std::uint32_t slots, std::size_t completion_size,
                     char* reason, std::size_t reason_size) {
  baton_config config = BATON_CONFIG_INIT;
  config.text = text;
  config.slots = slots;
  config.completion_size = static_cast<std::uint32_t>(completion_size);
  baton_proactor* proactor = nullptr;
  const int error = baton_open(&config, &proactor, reason, reason_size);
  expect((error == 0) == (proactor != nullptr), "an open that fails gives none");
  return proactor;
}

}  // namespace

baton_proactor* open_proactor(std::uint8_t choice, std::uint32_t slots,
                              std::size_t completion_size) {
  std::array<char, 512> reason{};
  const char* const text = texts[choice % texts.size()];
  if (auto* proactor = open(text, slots, completion_size, reason.data(), reason.size())) {
    return proactor;
  }
  // If the system has no ring, the input is tried with the first engine, which every system has.
  auto* const other = open(texts[0], slots, completion_size, reason.data(), reason.size());
  expect(other != nullptr, "there is an engine", reason.data());
  return other;
}

baton_proactor* kept_proactor(std::uint8_t choice) {
  static std::array<baton_proactor*, texts.size()> kept{};
  baton_proactor*& proactor = kept[choice % texts.size()];
  if (proactor == nullptr) proactor = open_proactor(choice, 16, sizeof(baton_completion));
  return proactor;
}

}  // namespace baton::fuzz
