// A pipeline on a Reactor. Lines come in from several pipes; one stage cuts them out of the stream,
// the next counts their words. All of it moves through message blocks: bytes are copied from the
// kernel once, and the pool bounds the memory, even if the writers are fast.
//
//   11_pipeline            prints what it has counted
#include <fcntl.h>
#include <unistd.h>
#include <baton/baton.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "command_line.hpp"

namespace {

constexpr int writers = 3;
constexpr int lines_each = 1'000;

struct Totals {
  std::atomic<long> lines{0};
  std::atomic<long> words{0};
  std::atomic<int> sources{writers};
};

/// The last stage. Any thread of the reactor, several at once.
void count_words(const baton::MessageBlock& line, Totals& totals) {
  std::array<baton::ConstBuffer, 8> list;
  bool inside = false;
  long words = 0;
  for (const baton::ConstBuffer& part : line.parts(list)) {
    for (std::size_t i = 0; i < part.size; ++i) {
      const char c = static_cast<const char*>(part.data)[i];
      const bool blank = c == ' ' || c == '\n';
      if (!blank && !inside) ++words;
      inside = !blank;
    }
  }
  totals.words += words;
  ++totals.lines;
}

/// The first stage: what a pipe gives, cut into lines. Never in two threads at once.
class Source final : public baton::EventHandler {
 public:
  Source(baton::Reactor& reactor, baton::MessagePool& pool, Totals& totals)
      : reactor_(reactor), pool_(pool), totals_(totals) {}

  baton::Next on_input(baton::NativeHandle fd) override {
    if (unread_.room().size == 0) {
      auto more = pool_.take();
      // Nothing free: the later stages are behind. The data stays in the pipe meanwhile, and the
      // writer waits: this is called again when others have had their turn.
      if (!more) return baton::Next::again;
      unread_.append(std::move(*more));
    }
    const baton::MutableBuffer room = unread_.room();
    const ssize_t got = ::read(fd, room.data, room.size);
    if (got <= 0) return got == 0 ? baton::Next::remove : baton::Next::keep;
    unread_.commit(static_cast<std::size_t>(got));
    return cut_lines() ? baton::Next::keep : baton::Next::remove;
  }

  void on_close(baton::NativeHandle fd, std::error_code) noexcept override {
    ::close(fd);
    if (--totals_.sources == 0) {
      // Behind the lines that are on their way.
      if (reactor_.notify([this] { reactor_.end(); })) reactor_.end();
    }
  }

 private:
  bool cut_lines() {
    for (;;) {
      const std::size_t length = line_length();
      if (length == 0) return true;
      auto line = unread_.split(length);
      if (!line) return false;  // a line longer than all memory allows
      auto moved = std::make_shared<baton::MessageBlock>(std::move(*line));
      if (reactor_.notify([this, moved] { count_words(*moved, totals_); })) return false;
    }
  }
  [[nodiscard]] std::size_t line_length() const {
    std::array<baton::ConstBuffer, 64> list;
    std::size_t before = 0;
    for (const baton::ConstBuffer& part : unread_.parts(list)) {
      const std::string_view text(static_cast<const char*>(part.data), part.size);
      if (const auto at = text.find('\n'); at != std::string_view::npos) return before + at + 1;
      before += part.size;
    }
    return 0;
  }

  baton::Reactor& reactor_;
  baton::MessagePool& pool_;
  Totals& totals_;
  baton::MessageBlock unread_;
};

}  // namespace

int main() {
  Totals totals;
  baton::MessagePool pool({.block_size = 256, .blocks = 64, .links = 4096});
  auto reactor = baton::Reactor::open({});
  if (!reactor) {
    std::fprintf(stderr, "11_pipeline: %s\n", reactor.error().reason.c_str());
    return 1;
  }
  std::vector<int> inputs;
  for (int i = 0; i < writers; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      std::perror("11_pipeline: pipe");
      return 1;
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto source = std::make_shared<Source>(**reactor, pool, totals);
    if (const auto added = (*reactor)->add(ends[0], baton::Interest::in, std::move(source));
        !added) {
      std::fprintf(stderr, "11_pipeline: %s\n", added.error().message().c_str());
      return 1;
    }
    inputs.push_back(ends[1]);
  }
  std::vector<std::thread> threads;  // from here on nothing fails that would have to end them
  for (const int fd : inputs) {
    threads.emplace_back([fd] {
      const std::string line = "the baton is passed on\n";
      for (int k = 0; k < lines_each; ++k) {
        if (::write(fd, line.data(), line.size()) < 0) break;
      }
      ::close(fd);
    });
  }
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { static_cast<void>((*reactor)->run()); });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%ld lines, %ld words\n", totals.lines.load(), totals.words.load());
  const bool right = totals.lines == writers * lines_each && totals.words == 5 * totals.lines;
  return examples::flush_output() && right ? 0 : 1;
}
