// The cost of posting a handler with nothing in between: an intrusive queue under a mutex and an
// eventfd that is written only when the loop sleeps. The loop takes the whole queue at once.
// bench/scenarios/post.cpp does the same on a Baton proactor.
//
//   floor_post [--rounds N]
//
// post_inside: a handler posts 100 no-op handlers and returns; they run; the last one begins again.
// post_inside_1000: the same with 1000, which as operations of 200 bytes do not fit the nearest
// cache any more, while the 16 bytes of a post here do. post_chain: a handler posts itself, so that
// one is on the way. post_other_thread: another thread posts a million while the loop runs them,
// never more than 16,000 ahead of it: unbounded, a round measures which thread was scheduled first.
// wake_hop: two loops on one processor post to each other, and each sleeps when it is posted to.
// Prints one line of JSON: nanoseconds per post, median and least of the rounds.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "one_core.hpp"
#include "rounds.hpp"

namespace {

struct Post {
  void (*handler)(Post*);
  Post* next = nullptr;
};

class Loop {
 public:
  Loop() : wake_(::eventfd(0, EFD_CLOEXEC)) {}
  ~Loop() { ::close(wake_); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(Post* post) {
    post->next = nullptr;
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      *tail_ = post;
      tail_ = &post->next;
      // Only a post that finds the loop asleep wakes it, once.
      wake = sleeping_;
      sleeping_ = false;
    }
    if (wake) {
      const std::uint64_t one = 1;
      if (::write(wake_, &one, sizeof one) != sizeof one) std::abort();
    }
  }

  void stop() { stopping_.store(true, std::memory_order_relaxed); }  // from a handler

  void run() {
    stopping_.store(false, std::memory_order_relaxed);
    while (!stopping_.load(std::memory_order_relaxed)) {
      Post* list = take_all();
      while (list != nullptr) {
        Post* const post = list;
        list = post->next;  // before the handler, which may post it again
        post->handler(post);
      }
    }
  }

 private:
  Post* take_all() {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (head_ != nullptr) {
          Post* const list = head_;
          head_ = nullptr;
          tail_ = &head_;
          return list;
        }
        sleeping_ = true;
      }
      std::uint64_t count = 0;
      if (::read(wake_, &count, sizeof count) != sizeof count) std::abort();
    }
  }

  std::mutex mutex_;
  Post* head_ = nullptr;
  Post** tail_ = &head_;
  bool sleeping_ = false;
  std::atomic<bool> stopping_{false};
  int wake_;
};

Loop loop;
constexpr std::size_t posts_inside = 1'000'000;

constexpr std::size_t posts_other_thread = 1'000'000;
constexpr std::size_t ahead_max = 16'000;
constexpr std::size_t hops = 20'000;

std::vector<Post> posts;
std::size_t batch_count;
std::size_t batches_left;
std::atomic<std::size_t> run_count;  // written by the loop's thread only

void no_op(Post*) {}

void post_batch(Post*) {
  if (batches_left-- == 0) return loop.stop();
  for (std::size_t i = 0; i + 1 < batch_count; ++i) loop.post(&posts[i]);
  loop.post(&posts[batch_count - 1]);  // whose handler is this function
}

void count_run(Post*) {
  const std::size_t count = run_count.load(std::memory_order_relaxed) + 1;
  // Release: the poster may use this post again once it sees the count.
  run_count.store(count, std::memory_order_release);
  if (count == posts_other_thread) loop.stop();
}

void post_all() {
  for (std::size_t i = 0; i < posts_other_thread; ++i) {
    // Read rarely, so that the counter's cache line mostly stays in place.
    while (i % 1000 == 0 && i - run_count.load(std::memory_order_acquire) > ahead_max - 1000) {
      std::this_thread::yield();
    }
    loop.post(&posts[i % ahead_max]);
  }
}

double post_inside(std::size_t count) {
  batch_count = count;
  posts.assign(batch_count, Post{no_op});
  posts.back().handler = post_batch;
  batches_left = posts_inside / batch_count;
  Post first{post_batch};
  const auto start = rival::Clock::now();
  loop.post(&first);
  loop.run();
  return rival::ns_since(start) / static_cast<double>(posts_inside);
}

double post_other_thread() {
  posts.assign(ahead_max, Post{count_run});
  run_count = 0;
  // The poster starts when the clock does: creating the thread is not part of the measure.
  std::atomic<bool> go{false};
  std::thread poster([&go] {
    go.wait(false);
    post_all();
  });
  const auto start = rival::Clock::now();
  go = true;
  go.notify_one();
  loop.run();
  const double ns = rival::ns_since(start) / static_cast<double>(posts_other_thread);
  poster.join();
  return ns;
}

double post_chain() {
  Post post{[](Post* self) {
    if (batches_left-- == 0) return loop.stop();
    loop.post(self);
  }};
  batches_left = posts_inside;
  const auto start = rival::Clock::now();
  loop.post(&post);
  loop.run();
  return rival::ns_since(start) / static_cast<double>(posts_inside);
}

struct Hopper : Post {
  Loop* mine;
  Hopper* other;
};
std::size_t hops_left;  // only the loop that runs touches it

void hop(Post* post) {
  auto& self = *static_cast<Hopper*>(post);
  if (hops_left == 0) return self.mine->stop();
  if (--hops_left == 0) self.mine->stop();  // the other one gets the last
  self.other->mine->post(self.other);
}

double wake_hop() {
  const bench::OneCore one_core;
  Loop second_loop;
  Hopper first{{hop}, &loop, nullptr};
  Hopper second{{hop}, &second_loop, &first};
  first.other = &second;
  hops_left = hops;
  std::thread thread([&second_loop] { second_loop.run(); });
  const auto start = rival::Clock::now();
  loop.post(&first);
  loop.run();
  thread.join();
  return rival::ns_since(start) / static_cast<double>(hops);
}

}  // namespace

int main(int argc, char** argv) {
  rival::Report report("floor_post", argc, argv, 15);
  report.measure("post_inside", [] { return post_inside(100); });
  report.measure("post_inside_1000", [] { return post_inside(1000); });
  report.measure("post_chain", post_chain);
  report.measure("post_other_thread", post_other_thread);
  report.measure("wake_hop", wake_hop);
  return 0;
}
