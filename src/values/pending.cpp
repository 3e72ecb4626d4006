// The report of pending operations as text.
#include "baton/pending.hpp"

#include <dlfcn.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

namespace baton {
namespace {

std::string seconds(Duration span) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", std::chrono::duration<double>(span).count());
  return text.data();
}

/// "server+0x1234", for addr2line: the offset is the same in every run.
std::string address_of(CompletionFunction handler) {
  const auto* const address = std::bit_cast<const void*>(handler);
  Dl_info module{};
  if (::dladdr(address, &module) == 0 || module.dli_fname == nullptr) return "?";
  const char* slash = std::strrchr(module.dli_fname, '/');
  std::array<char, 32> offset{};
  std::snprintf(offset.data(), offset.size(), "+0x%tx",
                static_cast<const char*>(address) - static_cast<const char*>(module.dli_fbase));
  return std::string(slash != nullptr ? slash + 1 : module.dli_fname) + offset.data();
}

std::string line_of(const PendingOperation& operation) {
  std::string line =
      seconds(operation.age) + " " + to_string(operation.kind) + " " + to_string(operation.state);
  if (operation.cancel_asked) line += " (cancel asked)";
  if (operation.native != invalid_handle) {
    line += " handle=" + std::to_string(operation.handle) + "/" +
            std::to_string(operation.generation) + " fd=" + std::to_string(operation.native) +
            " processor=" + std::to_string(operation.processor);
  }
  line += " lane=" + std::to_string(operation.lane) + " bytes=" + std::to_string(operation.bytes) +
          " tag=" + std::to_string(operation.tag);
  if (!operation.name.empty()) line += " (" + operation.name + ")";
  if (operation.handler != nullptr) line += " handler=" + address_of(operation.handler);
  return line + "\n";
}

}  // namespace

std::string PendingReport::to_string() const {
  std::string text = "pending " + std::to_string(matching) + ", shown " +
                     std::to_string(operations.size()) + ", queued " + std::to_string(queued) +
                     "\n";
  for (const PendingOperation& operation : operations) text += line_of(operation);
  if (timers_unseen > 0) text += std::to_string(timers_unseen) + " timers not looked at\n";
  for (const SilentLane& lane : silent) {
    text += "lane " + std::to_string(lane.lane) +
            (lane.driven
                 ? ": no answer in time, its thread is in a handler, or away between two calls\n"
                 : ": no thread is in run() for it\n");
  }
  return text;
}

}  // namespace baton
