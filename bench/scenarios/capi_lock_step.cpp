// The cost of a message in a program in C: an echo in lock-step (lock_step.hpp), by arrays.
//
//   capi_lock_step [--mode MODE] [--attached 1] --sessions N --block B --rounds R
//
// BATON=engine=...,wait=... chooses the rest.
#include <cstdint>
#include <string>
#include <vector>

#include "baton.h"
#include "lock_step.hpp"
#include "scenario.hpp"

namespace {

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "capi_lock_step: %s: %s\n", what, why);
  std::_Exit(2);
}

baton_operation operation(int kind, baton_handle handle, std::size_t session,
                          std::vector<char>& block) {
  baton_operation made = BATON_OPERATION_INIT;
  made.kind = static_cast<std::uint16_t>(kind);
  made.flags = kind == BATON_WRITE_STREAM ? BATON_EXACTLY : 0;
  made.handle = handle;
  made.tag = session;
  made.data = block.data();
  made.length = block.size();
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  lock_step::Peers peers(argc, argv);
  const std::string text = "threads=1,mode=" + baton::bench::option(argc, argv, "--mode", "shared");
  baton_config config = BATON_CONFIG_INIT;
  config.text = text.c_str();
  config.flags = BATON_ENVIRONMENT;
  char why[256];
  baton_proactor* proactor = nullptr;
  if (baton_open(&config, &proactor, why, sizeof(why)) != 0) fail("open", why);
  if (lock_step::number(argc, argv, "--attached", 0) != 0) baton_attach(proactor);

  const std::size_t count = peers.sessions().size();
  std::vector<std::vector<char>> blocks(count, std::vector<char>(peers.block()));
  std::vector<baton_handle> handles(count);
  std::vector<baton_operation> next;
  std::vector<baton_completion> done(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int error =
        baton_adopt(proactor, peers.sessions()[i], BATON_STREAM_SOCKET, 0, &handles[i]);
    if (error != 0) fail("adopt", "it does");
    next.push_back(operation(BATON_READ_STREAM, handles[i], i, blocks[i]));
  }
  peers.begin();
  for (;;) {
    baton_batch batch = BATON_BATCH_INIT;
    batch.operations = next.data();
    batch.count = static_cast<int>(next.size());
    const int brought =
        baton_exchange(proactor, &batch, done.data(), static_cast<int>(done.size()), -1);
    if (brought < 0 || batch.why_not != 0) fail("exchange", "it does not take all");
    next.clear();
    for (int i = 0; i < brought; ++i) {
      const baton_completion& one = done[static_cast<std::size_t>(i)];
      if (one.error != 0 || one.result == 0) fail("an operation", "it failed");
      const auto session = static_cast<std::size_t>(one.tag);
      const bool is_read = one.kind == BATON_READ_STREAM;
      next.push_back(operation(is_read ? BATON_WRITE_STREAM : BATON_READ_STREAM, handles[session],
                               session, blocks[session]));
      if (!is_read) peers.answered();
    }
  }
}
