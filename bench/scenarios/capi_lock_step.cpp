// The cost of a message in a program in C: an echo in lock-step (lock_step.hpp), by arrays.
//
//   capi_lock_step [--mode MODE] [--attached 1] --sessions N --block B --rounds R
//
// BATON=engine=...,wait=... chooses the rest.
#include <cstdint>
#include <span>
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

/// A connection, and what is started on it again and again.
struct Session {
  std::vector<char> block;
  baton_operation read = BATON_OPERATION_INIT;
  baton_operation write = BATON_OPERATION_INIT;

  void prepare(baton_handle handle, std::uint64_t tag) {
    for (baton_operation* each : {&read, &write}) {
      each->handle = handle;
      each->tag = tag;
      each->data = block.data();
      each->length = block.size();
    }
    read.kind = BATON_READ_STREAM;
    write.kind = BATON_WRITE_STREAM;
    write.flags = BATON_EXACTLY;
  }
};

/// What follows on each completion; `next` are the operations to start. Not in main(), where
/// compilers save space.
[[gnu::noinline]] void react(std::span<const baton_completion> done, const Session* sessions,
                             baton_operation* next, lock_step::Peers& peers) {
  for (const baton_completion& one : done) {
    if (one.error != 0 || one.result == 0) fail("an operation", "it failed");
    const Session& session = sessions[one.tag];
    const bool is_read = one.kind == BATON_READ_STREAM;
    *next++ = is_read ? session.write : session.read;
    if (!is_read) peers.answered();
  }
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
  std::vector<Session> sessions(count, Session{std::vector<char>(peers.block())});
  std::vector<baton_operation> next;
  std::vector<baton_completion> done(count);
  for (std::size_t i = 0; i < count; ++i) {
    baton_handle handle = 0;
    const int error = baton_adopt(proactor, peers.sessions()[i], BATON_STREAM_SOCKET, 0, &handle);
    if (error != 0) fail("adopt", "it does");
    sessions[i].prepare(handle, i);
    next.push_back(sessions[i].read);
  }
  baton_batch batch = BATON_BATCH_INIT;
  batch.operations = next.data();
  batch.count = static_cast<int>(next.size());
  peers.begin();
  for (;;) {
    const int brought =
        baton_exchange(proactor, &batch, done.data(), static_cast<int>(done.size()), -1);
    if (brought < 0 || batch.why_not != 0) fail("exchange", "it does not take all");
    react(std::span{done}.first(static_cast<std::size_t>(brought)), sessions.data(), next.data(),
          peers);
    batch.count = brought;
  }
}
