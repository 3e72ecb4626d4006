// The same through include/baton.h: a program in C that listens, connects, sends, reads, cancels,
// sets timers and closes, while a call or an allocation fails in turn. Whatever fails: each
// accepted start completes once, a refused one never; nothing is left behind; and the proactor
// works when the trouble is over.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../support/failing_system.hpp"
#include "../support/patience.hpp"
#include "allocations.hpp"
#include "baton.h"
#include "capi/proactor.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using conformance::Combination;
using test::FailingCalls;
using test::Held;

constexpr std::size_t faults_of_each = 24;  // of one combination, if not full
constexpr std::size_t call_none = ~std::size_t{0};
constexpr baton_handle no_handle = 0;

/// One program and its accounts.
class Program {
 public:
  explicit Program(baton_proactor& proactor) : proactor_(proactor) {}

  /// Stops at the first thing that fails.
  void run() {
    if (!connect() || !talk() || !wait_for_nothing() || !meet() || !read_pooled()) return;
    whole_ = true;
  }
  /// Pending operations are cancelled, and complete.
  void end() {
    static_cast<void>(baton_cancel_all(&proactor_));
    for (baton_handle& handle : handles_) {
      if (handle != no_handle) baton_handle_close(&proactor_, handle);
      handle = no_handle;
    }
    while (pending_ > 0) bring();
    EXPECT_EQ(started_, completed_);
    if (block_ != nullptr) {
      EXPECT_EQ(baton_pool_give(pool_, block_), 0);
    }
    EXPECT_EQ(baton_pool_close(pool_), 0);
    pool_ = nullptr;
  }
  void expect_works() {
    baton_operation timer = operation(BATON_TIMER, no_handle, 30);
    timer.deadline_ns = baton_now(&proactor_) + 1'000;
    EXPECT_TRUE(start(timer));
    EXPECT_TRUE(start(operation(BATON_POST, no_handle, 31)));
    while (pending_ > 0) bring();
    EXPECT_EQ(started_, completed_);
  }
  [[nodiscard]] bool whole() const { return whole_; }

 private:
  enum : std::uint64_t {
    accepting,
    connecting,
    writing,
    reading,
    pending_read,
    timing,
    posting,
    watching,
    meeting,
    coming,
    looking,
    pooled_read,
    pooled_write
  };
  enum { listener, client, server, met_listener, met_client, met_server, handles_count };

  static baton_operation operation(int kind, baton_handle handle, std::uint64_t tag) {
    baton_operation made{};
    made.size = sizeof(made);
    made.kind = static_cast<std::uint16_t>(kind);
    made.handle = handle;
    made.tag = tag;
    return made;
  }

  bool start(const baton_operation& operation) {
    int why_not = 0;
    const int taken = baton_start(&proactor_, &operation, 1, nullptr, &why_not);
    EXPECT_EQ(taken == 1, why_not == 0);
    if (taken != 1) return false;
    ++started_.at(operation.tag);
    ++pending_;
    return true;
  }

  /// A wait and its completions.
  void bring() {
    const std::int64_t span_ns = test::patience().count();
    std::array<baton_completion, 4> done{};
    const int count = baton_wait(&proactor_, done.data(), static_cast<int>(done.size()), span_ns);
    if (count == 0) {
      std::fprintf(stderr, "nothing came, %d pending\n", pending_);
      std::abort();
    }
    keep_books(done.data(), count);
  }
  void keep_books(const baton_completion* done, int count) {
    for (int i = 0; i < count; ++i) {
      const baton_completion& one = done[i];
      --pending_;
      ++completed_.at(one.tag);
      EXPECT_LE(completed_.at(one.tag), started_.at(one.tag)) << "tag " << one.tag;
      last_.at(one.tag) = one;
      EXPECT_EQ(one.handle != no_handle, one.tag == meeting && one.error == 0);
      if (one.handle != no_handle) handles_[met_server] = one.handle;
      if (one.tag == accepting && one.error == 0) accepted(static_cast<int>(one.result));
      if (one.data != nullptr) block_ = one.data;
    }
  }
  /// True: complete without an error.
  bool came(std::uint64_t tag) {
    while (completed_.at(tag) < started_.at(tag)) bring();
    return last_.at(tag).error == 0;
  }

  void accepted(int descriptor) {
    const int error =
        baton_adopt(&proactor_, descriptor, BATON_STREAM_SOCKET, BATON_OWNED, &handles_[server]);
    // Without memory for its name it is closed; otherwise it still belongs to the test.
    if (error != 0 && error != ENOMEM) test::failing_system().close(descriptor);
  }

  bool connect() {
    baton_endpoint here{};
    std::array<char, 128> text{};
    if (baton_listen(&proactor_, "127.0.0.1:0", 4, &handles_[listener]) != 0) return false;
    if (baton_local_endpoint(&proactor_, handles_[listener], &here) != 0) return false;
    if (baton_endpoint_print(&here, text.data(), text.size()) == 0) return false;
    if (!start(operation(BATON_ACCEPT, handles_[listener], accepting))) return false;
    if (baton_connect(&proactor_, text.data(), connecting, 0, &handles_[client], nullptr) != 0) {
      return false;
    }
    ++started_.at(connecting);
    ++pending_;
    if (!came(connecting)) return false;
    // An accept without a free descriptor drops the connection and keeps waiting for others.
    baton_operation watch = operation(BATON_READ_STREAM, handles_[client], watching);
    watch.data = &watched_;
    watch.length = 1;
    if (!start(watch)) return false;
    while (completed_.at(accepting) == 0 && completed_.at(watching) == 0) bring();
    return completed_.at(accepting) > 0 && came(accepting) && handles_[server] != no_handle;
  }

  bool talk() {
    constexpr std::size_t size = 100'000;  // more than goes at once
    baton_operation write = operation(BATON_WRITE_STREAM, handles_[client], writing);
    write.flags = BATON_EXACTLY;
    write.data = text_.data;
    write.length = size;
    baton_operation read = operation(BATON_READ_STREAM, handles_[server], reading);
    read.flags = BATON_EXACTLY;
    read.data = buffer_.data();
    read.length = size;
    if (!start(read) || !start(write) || !came(writing) || !came(reading)) return false;
    EXPECT_EQ(last_.at(reading).result, static_cast<std::int64_t>(size));
    EXPECT_TRUE(is_sent(buffer_.data(), size));
    return true;
  }

  bool wait_for_nothing() {
    std::array<char, 8> nothing{};
    baton_operation read = operation(BATON_READ_STREAM, handles_[server], pending_read);
    read.data = buffer_.data();
    read.length = nothing.size();
    baton_operation timer = operation(BATON_TIMER, no_handle, timing);
    timer.deadline_ns = baton_now(&proactor_) + 1'000;
    if (!start(read) || !start(timer) || !start(operation(BATON_POST, no_handle, posting)) ||
        !came(timing) || !came(posting)) {
      return false;
    }
    if (baton_cancel_tag(&proactor_, pending_read) < 0) return false;
    came(pending_read);
    return last_.at(pending_read).error == ECANCELED;
  }

  static baton_socket socket_of(int kind, const baton_endpoint& local) {
    baton_socket made = BATON_SOCKET_INIT;
    made.kind = kind;
    made.backlog = 4;
    made.local = &local;
    return made;
  }

  /// The long way to a connection: sockets with their own options and addresses, both ends started
  /// by one call that also waits, and an accept that gives a handle.
  bool meet() {
    const int on = 1;
    baton_endpoint local{};
    baton_option option = BATON_OPTION_INIT;
    option.level = SOL_SOCKET;
    option.name = SO_REUSEPORT;
    option.value = &on;
    option.value_size = sizeof on;
    if (baton_endpoint_parse("127.0.0.1:0", &local) != 0) return false;
    baton_socket made = socket_of(BATON_LISTENER, local);
    made.options = &option;
    made.option_count = 1;
    if (baton_socket_open(&proactor_, &made, &handles_[met_listener]) != 0) return false;
    made = socket_of(BATON_STREAM_SOCKET, local);
    if (baton_socket_open(&proactor_, &made, &handles_[met_client]) != 0) return false;
    if (baton_set_option(&proactor_, handles_[met_client], &option) != 0) return false;
    baton_endpoint there{};
    if (baton_local_endpoint(&proactor_, handles_[met_listener], &there) != 0) return false;
    return start_both(there) && has_met();
  }
  bool start_both(baton_endpoint& there) {
    std::array<baton_operation, 2> both{operation(BATON_ACCEPT, handles_[met_listener], meeting),
                                        operation(BATON_CONNECT, handles_[met_client], coming)};
    both[0].flags = BATON_ADOPT;
    both[1].endpoint = &there;
    baton_batch batch = BATON_BATCH_INIT;
    batch.operations = both.data();
    batch.count = static_cast<int>(both.size());
    std::array<baton_completion, 4> done{};
    const int count =
        baton_exchange(&proactor_, &batch, done.data(), static_cast<int>(done.size()), 0);
    for (int i = 0; i < batch.taken; ++i) ++started_.at(both.at(static_cast<std::size_t>(i)).tag);
    pending_ += batch.taken;
    keep_books(done.data(), std::max(count, 0));
    EXPECT_EQ(batch.taken == batch.count, batch.why_not == 0);
    return batch.why_not == 0 && came(coming);
  }
  bool has_met() {
    baton_operation watch = operation(BATON_READ_STREAM, handles_[met_client], looking);
    watch.data = &watched_;
    watch.length = 1;
    if (!start(watch)) return false;
    while (completed_.at(meeting) == 0 && completed_.at(looking) == 0) bring();
    if (completed_.at(meeting) == 0 || !came(meeting)) return false;
    baton_endpoint peer{};
    return baton_remote_endpoint(&proactor_, handles_[met_server], &peer) == 0;
  }

  bool read_pooled() {
    if (baton_pool_open(64, 2, &pool_) != 0) return false;
    baton_operation read = operation(BATON_READ_STREAM, handles_[met_server], pooled_read);
    read.flags = BATON_POOLED;
    read.data = pool_;
    baton_operation write = operation(BATON_WRITE_STREAM, handles_[met_client], pooled_write);
    write.data = text_.data;
    write.length = 32;
    if (!start(read) || !start(write) || !came(pooled_write) || !came(pooled_read)) return false;
    EXPECT_TRUE(is_sent(static_cast<const char*>(block_),
                        static_cast<std::size_t>(last_.at(pooled_read).result)));
    return true;
  }

  baton_proactor& proactor_;
  baton_pool* pool_ = nullptr;
  void* block_ = nullptr;
  bool whole_ = false;
  int pending_ = 0;
  std::array<int, 32> started_{};
  std::array<int, 32> completed_{};
  std::array<baton_completion, 32> last_{};
  std::array<baton_handle, handles_count> handles_{};
  Text<100'000> text_;
  char watched_ = 0;
  std::array<char, 100'000> buffer_{};
};

struct Trouble {
  std::size_t call = call_none;  ///< none: an allocation
  std::size_t nth = 0;           ///< 0: nothing fails
  int error = 0;
};

struct Counted {
  std::array<std::size_t, 64> calls{};
  std::size_t allocations = 0;
  bool hit = false;
};

class Interface : public testing::TestWithParam<Combination> {
 protected:
  /// From here on a close keeps one closed proactor, and frees another.
  static void SetUpTestSuite() {
    baton_config config = BATON_CONFIG_INIT;
    config.text = "engine=emulated,mode=shared";
    for (int i = 0; i < 64; ++i) {
      baton_proactor* closed = nullptr;
      ASSERT_EQ(baton_open(&config, &closed, nullptr, 0), 0);
      baton_close(closed);
    }
  }
  void SetUp() override {
    World world(GetParam(), 1, {});
    const std::string reason = world.open_as_named();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  Counted run(const Trouble& trouble) {
    Counted counted;
    const Held before = test::held_now();
    {
      Config config = GetParam().config();
      config.system = &test::failing_system();
      auto program = std::unique_ptr<Program>{};
      baton_proactor* proactor = nullptr;
      {
        const test::OpensProactor opens;
        proactor =
            new baton_proactor{new capi::Instance(std::move(config), 16, sizeof(baton_completion))};
      }
      program = std::make_unique<Program>(*proactor);
      {
        FailingAllocations allocations(trouble.call == call_none ? trouble.nth : 0);
        FailingCalls calls(FailingCalls::Whose::everybody,
                           trouble.call != call_none ? trouble.call : counted.calls.size() - 1,
                           trouble.nth, trouble.error);
        program->run();
        allocations.end();
        calls.end();
        counted.hit = calls.hit() || allocations.hit();
        for (std::size_t i = 0; i < counted.calls.size(); ++i) counted.calls[i] = calls.count(i);
        counted.allocations = allocations.count();
      }
      EXPECT_TRUE(program->whole() || counted.hit) << "failed, and nothing was wrong";
      program->end();
      program->expect_works();
      baton_close(proactor);
    }
    Held after = test::held_now();
    after.blocked_signals = before.blocked_signals;  // strategies by signal block theirs for good
    EXPECT_EQ(after, before) << "left behind";
    return counted;
  }

  Counted try_with(const Trouble& trouble) {
    std::string what = GetParam().name() + ", interface, ";
    if (trouble.nth == 0) {
      what += "no fault";
    } else if (trouble.call == call_none) {
      what += "allocation " + std::to_string(trouble.nth);
    } else {
      what += std::string(test::failing_calls()[trouble.call].name) + " " +
              std::to_string(trouble.nth) + ": " + test::name_of_fault(trouble.error);
    }
    SCOPED_TRACE(what);
    now_trying(what);
    Counted counted;
    expect_no_leak([&] { counted = run(trouble); });
    return counted;
  }

  void visit(const std::vector<Trouble>& troubles) {
    ASSERT_FALSE(troubles.empty()) << "there is nothing that could fail";
    std::size_t hits = 0;
    const std::size_t stride =
        full() ? 1 : std::max<std::size_t>(troubles.size() / faults_of_each, 1);
    for (std::size_t i = hash(GetParam().name()) % stride; i < troubles.size(); i += stride) {
      if (try_with(troubles[i]).hit) ++hits;
      if (HasFailure()) return;
    }
    EXPECT_GT(hits, 0U) << "no fault was made";
  }
};

TEST_P(Interface, each_call_fails_in_turn) {
  const Counted usual = try_with({});
  std::vector<Trouble> troubles;
  for (std::size_t call = 0; call < test::failing_calls().size(); ++call) {
    for (const int error : test::failing_calls()[call].running) {
      for (std::size_t nth = 1; nth <= usual.calls[call]; ++nth) {
        troubles.push_back({call, nth, error});
      }
    }
  }
  visit(troubles);
}

TEST_P(Interface, each_allocation_fails_in_turn) {
  const Counted usual = try_with({});
  std::vector<Trouble> troubles;
  for (std::size_t nth = 1; nth <= usual.allocations; ++nth) {
    troubles.push_back({call_none, nth, 0});
  }
  visit(troubles);
}

/// Calls it with the n-th allocation failing, until none fails. It answers ENOMEM then, or, where
/// it can do without, as usual: 0.
template <class Call>
void expect_told(const char* what, Call call) {
  EXPECT_EQ(call(), 0) << what;
  bool hit = true;
  for (std::size_t nth = 1; hit; ++nth) {
    FailingAllocations failing(nth);
    const int answer = call();
    failing.end();
    hit = failing.hit();
    EXPECT_TRUE(answer == 0 || (hit && answer == ENOMEM)) << what << ' ' << nth << ' ' << answer;
  }
}

// Without memory the text is empty.
TEST(InterfaceWithoutMemory, each_function_says_so) {
  baton_config config{};
  config.size = sizeof config;
  config.completion_size = sizeof(baton_completion);
  config.text = "engine=emulated,mode=shared";
  baton_proactor* proactor = nullptr;
  ASSERT_EQ(baton_open(&config, &proactor, nullptr, 0), 0);
  expect_told("open", [&config] {
    std::array<char, 256> why{};
    baton_proactor* made = nullptr;
    const int error = baton_open(&config, &made, why.data(), why.size());
    EXPECT_EQ(made == nullptr, error != 0);
    baton_close(made);
    return error;
  });
  std::array<char, 4'096> text{};
  const auto told = [&text](std::size_t length) {
    EXPECT_EQ(length, std::strlen(text.data()));
    return length != 0 ? 0 : ENOMEM;
  };
  baton_endpoint endpoint{};
  expect_told("parse", [&] { return baton_endpoint_parse("127.0.0.1:0", &endpoint); });
  expect_told("print",
              [&] { return told(baton_endpoint_print(&endpoint, text.data(), text.size())); });
  expect_told("explain", [&] { return told(baton_explain(proactor, text.data(), text.size())); });
  expect_told("statistics",
              [&] { return told(baton_statistics(proactor, text.data(), text.size())); });
  expect_told("pending",
              [&] { return told(baton_pending(proactor, 0, text.data(), text.size())); });
  expect_told("error", [&] {
    return told(baton_error_text(BATON_NO_FREE_HANDLES, text.data(), text.size()));
  });
  expect_told("listen", [&] {
    baton_handle listener = no_handle;
    const int error = baton_listen(proactor, "127.0.0.1:0", 4, &listener);
    EXPECT_EQ(listener == no_handle, error != 0);
    if (error == 0) {
      EXPECT_EQ(baton_handle_close(proactor, listener), 0);
    }
    return error;
  });
  expect_told("pool", [] {
    baton_pool* pool = nullptr;
    const int error = baton_pool_open(64, 2, &pool);
    EXPECT_EQ(pool == nullptr, error != 0);
    EXPECT_EQ(baton_pool_close(pool), 0);
    return error;
  });
  expect_told("engines", [&] { return told(baton_engines(text.data(), text.size())); });
  expect_told("socket", [&] {
    baton_endpoint local{};
    EXPECT_EQ(baton_endpoint_parse("127.0.0.1:0", &local), 0);
    baton_socket made = BATON_SOCKET_INIT;
    made.kind = BATON_STREAM_SOCKET;
    made.local = &local;
    baton_handle handle = no_handle;
    const int error = baton_socket_open(proactor, &made, &handle);
    EXPECT_EQ(handle == no_handle, error != 0);
    if (error == 0) {
      EXPECT_EQ(baton_handle_close(proactor, handle), 0);
    }
    return error;
  });
  baton_close(proactor);
}

// Of an owned descriptor: the caller cannot know how far the call has come, so it is closed. A
// borrowed one stays open.
TEST(InterfaceWithoutMemory, adopt_closes_what_it_owns_and_keeps_no_handle) {
  for (const int ownership : {BATON_OWNED, BATON_BORROWED}) {
    bool hit = true;
    int refused = 0;
    for (std::size_t nth = 1; hit; ++nth) {
      SCOPED_TRACE(nth);
      baton_config config{};
      config.size = sizeof config;
      config.completion_size = sizeof(baton_completion);
      config.text = "engine=emulated,mode=shared";
      baton_proactor* proactor = nullptr;
      ASSERT_EQ(baton_open(&config, &proactor, nullptr, 0), 0);
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      baton_handle handle = no_handle;
      FailingAllocations failing(nth);
      const int error = baton_adopt(proactor, ends[0], BATON_STREAM_SOCKET, ownership, &handle);
      failing.end();
      hit = failing.hit();
      EXPECT_EQ(handle == no_handle, error != 0);
      if (error == ENOMEM) {
        ++refused;
        baton_completion none{};
        baton_wait(proactor, &none, 1, 0);
        EXPECT_EQ(capi::find(proactor)->proactor.statistics().handles, 0U);
        EXPECT_EQ(::fcntl(ends[0], F_GETFD) < 0, ownership == BATON_OWNED);
      }
      const bool is_ours = error != 0 && error != ENOMEM;
      if (is_ours || ownership == BATON_BORROWED) {
        EXPECT_EQ(::close(ends[0]), 0);
      }
      ::close(ends[1]);
      baton_close(proactor);
    }
    EXPECT_GT(refused, 0) << "no fault was made";
  }
}

INSTANTIATE_TEST_SUITE_P(every, Interface, testing::ValuesIn(conformance::combinations()),
                         conformance::combination_name);

}  // namespace
}  // namespace baton::faults
