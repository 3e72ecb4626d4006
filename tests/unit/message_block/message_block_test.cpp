// Message blocks: their content and sharing, and that all blocks are returned.
#include "baton/message_block.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace baton {
namespace {

ConstBuffer bytes_of(const std::string& text) { return {text.data(), text.size()}; }

std::string text_of(const MessageBlock& message) {
  std::string text(message.size(), '\0');
  EXPECT_EQ(message.peek({text.data(), text.size()}), text.size());
  return text;
}

std::string text_of_parts(const MessageBlock& message) {
  std::array<ConstBuffer, 64> list;
  std::string text;
  for (const ConstBuffer& part : message.parts(list)) {
    EXPECT_GT(part.size, 0U);
    text.append(static_cast<const char*>(part.data), part.size);
  }
  return text;
}

void expect_all_back(const MessagePool& pool, std::size_t blocks, std::size_t links) {
  EXPECT_EQ(pool.blocks_available(), blocks);
  EXPECT_EQ(pool.links_available(), links);
}

TEST(message_block, empty_without_a_pool) {
  MessageBlock message;
  EXPECT_TRUE(message.empty());
  EXPECT_EQ(message.room().size, 0U);
  MessageBlock other(std::move(message));
  EXPECT_TRUE(other.empty());
  EXPECT_TRUE(other.duplicate().has_value());
}

TEST(message_block, holds_the_written_bytes) {
  MessagePool pool({.block_size = 4, .blocks = 8});
  {
    MessageBlock message = pool.copy(bytes_of("hello, world")).value();
    EXPECT_EQ(text_of(message), "hello, world");
    EXPECT_EQ(text_of_parts(message), "hello, world");
    EXPECT_EQ(pool.blocks_available(), 5U);
    message.consume(5);
    EXPECT_EQ(text_of(message), ", world");
    EXPECT_EQ(pool.blocks_available(), 6U);  // the blocks read are returned at once
    EXPECT_FALSE(message.write(bytes_of("!")));
    EXPECT_EQ(text_of(message), ", world!");
  }
  expect_all_back(pool, 8, 16);
}

TEST(message_block, is_filled_in_place) {
  MessagePool pool({.block_size = 8, .blocks = 2});
  MessageBlock message = pool.take().value();
  const MutableBuffer room = message.room();
  ASSERT_EQ(room.size, 8U);
  static_cast<char*>(room.data)[0] = 'a';
  static_cast<char*>(room.data)[1] = 'b';
  message.commit(2);
  EXPECT_EQ(message.room().size, 6U);
  EXPECT_EQ(text_of(message), "ab");
  // Read to its end it starts again, without a new block.
  message.consume(2);
  EXPECT_EQ(message.room().size, 8U);
  EXPECT_EQ(pool.blocks_available(), 1U);
}

TEST(message_block, a_bound_is_an_answer) {
  MessagePool pool({.block_size = 4, .blocks = 3, .links = 4});
  EXPECT_EQ(pool.copy(bytes_of("thirteen byte")).error(), errc::pool_exhausted);
  expect_all_back(pool, 3, 4);
  MessageBlock message = pool.copy(bytes_of("12345678")).value();
  EXPECT_EQ(message.write(bytes_of("123456789")), errc::pool_exhausted);
  EXPECT_EQ(text_of(message), "12345678");
  const auto twin = message.duplicate();
  ASSERT_TRUE(twin.has_value());
  EXPECT_EQ(message.duplicate().error(), errc::pool_exhausted);  // of links
  EXPECT_EQ(message.split(3).error(), errc::pool_exhausted);
  EXPECT_EQ(text_of(message), "12345678");
}

TEST(message_block, a_bound_of_links_gives_the_blocks_back) {
  MessagePool pool({.block_size = 4, .blocks = 4, .links = 2});
  EXPECT_EQ(pool.take(12).error(), errc::pool_exhausted);
  expect_all_back(pool, 4, 2);
  MessageBlock message = pool.take(8).value();
  EXPECT_EQ(pool.take().error(), errc::pool_exhausted);
  expect_all_back(pool, 2, 0);
  message.commit(0);
  EXPECT_TRUE(message.empty());
}

// A block has a header, and with it more bytes than there are.
TEST(message_block, a_pool_of_too_large_blocks_is_refused) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {most, most - 15, most - 16, most - 31, most - 32, most / 2}) {
    EXPECT_THROW((MessagePool{{.block_size = size, .blocks = 1}}), std::bad_alloc) << size;
  }
}

// Each write used to visit all blocks that are free behind it: this took minutes.
TEST(message_block, with_much_room_is_written_in_many_small_parts) {
  constexpr std::size_t count = 1'000'000;
  MessagePool pool({.block_size = 1, .blocks = count});
  {
    MessageBlock message = pool.take(count).value();
    for (std::size_t i = 0; i < count; ++i) ASSERT_FALSE(message.write(bytes_of("x")));
    EXPECT_EQ(message.size(), count);
    EXPECT_EQ(message.write(bytes_of("x")), errc::pool_exhausted);
  }
  expect_all_back(pool, count, 2 * count);
}

TEST(message_block, appended_to_itself_stays_as_it_is) {
  MessagePool pool({.block_size = 4, .blocks = 8});
  {
    MessageBlock message = pool.copy(bytes_of("hello, world")).value();
    MessageBlock& same = message;
    message.append(std::move(same));
    EXPECT_EQ(text_of(message), "hello, world");
  }
  expect_all_back(pool, 8, 16);
}

TEST(message_block, tells_as_many_parts_as_there_is_room_for) {
  MessagePool pool({.block_size = 4, .blocks = 5});
  const MessageBlock message = pool.copy(bytes_of("of four parts")).value();
  std::array<ConstBuffer, 2> list;
  EXPECT_EQ(message.parts(list).size(), 2U);
  EXPECT_EQ(message.parts({}).size(), 0U);
  const MessageBlock empty = pool.take().value();
  EXPECT_EQ(empty.parts(list).size(), 0U);
}

TEST(message_block, grows_behind_shared_blocks) {
  MessagePool pool({.block_size = 4, .blocks = 4});
  MessageBlock message = pool.copy(bytes_of("ab")).value();
  const MessageBlock twin = message.duplicate().value();
  EXPECT_FALSE(message.grow(4));
  const MessageBlock both = message.duplicate().value();  // the new one is shared, too
  EXPECT_FALSE(message.grow(4));
  EXPECT_FALSE(message.write(bytes_of("cdef")));
  EXPECT_EQ(text_of(message), "abcdef");
  EXPECT_EQ(text_of(both), "ab");
  EXPECT_EQ(text_of(twin), "ab");
}

TEST(message_block, is_split_at_its_end) {
  MessagePool pool({.block_size = 4, .blocks = 4});
  MessageBlock message = pool.copy(bytes_of("eight by")).value();
  MessageBlock front = message.split(8).value();
  EXPECT_TRUE(message.empty());
  EXPECT_EQ(text_of(front), "eight by");
  EXPECT_FALSE(message.write(bytes_of("again")));
  EXPECT_EQ(text_of(message), "again");
  MessageBlock none = message.split(0).value();
  EXPECT_TRUE(none.empty());
}

TEST(message_block, a_duplicate_shares_the_bytes_and_not_the_place) {
  MessagePool pool({.block_size = 16, .blocks = 4});
  MessageBlock message = pool.copy(bytes_of("shared")).value();
  MessageBlock twin = message.duplicate().value();
  EXPECT_EQ(pool.blocks_available(), 3U);
  EXPECT_EQ(message.room().size, 0U);  // a shared block is not written
  EXPECT_FALSE(message.write(bytes_of(" no more")));
  twin.consume(3);
  EXPECT_EQ(text_of(twin), "red");
  EXPECT_EQ(text_of(message), "shared no more");
  message.reset();
  EXPECT_EQ(text_of(twin), "red");
  EXPECT_EQ(pool.blocks_available(), 3U);
  EXPECT_GT(twin.room().size, 0U);  // alone again
  twin.reset();
  expect_all_back(pool, 4, 8);
}

TEST(message_block, gives_up_what_is_read_and_shown_by_another) {
  MessagePool pool({.block_size = 16, .blocks = 1});
  MessageBlock message = pool.copy(bytes_of("shared")).value();
  MessageBlock twin = message.duplicate().value();
  message.consume(6);
  twin.reset();
  expect_all_back(pool, 1, 2);
}

TEST(message_block, is_written_behind_what_was_split_off) {
  MessagePool pool({.block_size = 16, .blocks = 1});
  MessageBlock message = pool.copy(bytes_of("front")).value();
  MessageBlock front = message.split(5).value();
  EXPECT_EQ(message.room().size, 0U);
  front.reset();
  EXPECT_EQ(message.room().size, 11U);
  EXPECT_FALSE(message.write(bytes_of("rest")));
  EXPECT_EQ(text_of(message), "rest");
}

TEST(message_block, splits_and_joins_without_a_copy) {
  MessagePool pool({.block_size = 4, .blocks = 8});
  for (std::size_t cut = 0; cut <= 10; ++cut) {
    MessageBlock rest = pool.copy(bytes_of("0123456789")).value();
    const std::size_t blocks = pool.blocks_available();
    MessageBlock front = rest.split(cut).value();
    EXPECT_EQ(pool.blocks_available(), blocks);
    EXPECT_EQ(text_of(front) + "|" + text_of(rest), std::string("0123456789").insert(cut, "|"));
    front.append(std::move(rest));
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(text_of(front), "0123456789");
  }
  expect_all_back(pool, 8, 16);
}

// Compared with a string that does the same; a failure prints the seed.
TEST(message_block, does_what_a_string_does) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::size_t most) { return random() % (most + 1); };
    MessagePool pool({.block_size = 1 + up_to(15), .blocks = 40, .links = 90});
    {
      std::vector<MessageBlock> messages(1);
      std::vector<std::string> texts(1);
      char next = 'a';
      for (int step = 0; step < 400; ++step) {
        const std::size_t at = up_to(messages.size() - 1);
        MessageBlock& message = messages[at];
        std::string& text = texts[at];
        switch (up_to(6)) {
          case 0: {
            const std::string more(up_to(20), next);
            next = next == 'z' ? 'a' : static_cast<char>(next + 1);
            auto tail = pool.copy(bytes_of(more));
            if (!tail) break;
            message.append(std::move(*tail));
            text += more;
            break;
          }
          case 1: {
            const std::string more(up_to(20), next);
            if (message.empty()) break;
            if (!message.write(bytes_of(more))) text += more;
            break;
          }
          case 2: {
            const std::size_t count = up_to(text.size());
            message.consume(count);
            text.erase(0, count);
            break;
          }
          case 3: {
            const std::size_t count = up_to(text.size());
            auto front = message.split(count);
            if (!front || messages.size() > 6) {
              if (front) message = std::move(*front), text.erase(count);
              break;
            }
            texts.push_back(text.substr(0, count));
            texts[at].erase(0, count);
            messages.push_back(std::move(*front));
            break;
          }
          case 4: {
            auto twin = message.duplicate();
            if (!twin || messages.size() > 6) break;
            texts.push_back(texts[at]);
            messages.push_back(std::move(*twin));
            break;
          }
          case 5: {
            const std::size_t other = up_to(messages.size() - 1);
            if (other == at) break;
            message.append(std::move(messages[other]));
            text += texts[other];
            texts[other].clear();
            break;
          }
          default:
            message.reset();
            text.clear();
        }
        for (std::size_t i = 0; i < messages.size(); ++i) {
          ASSERT_EQ(text_of(messages[i]), texts[i]) << "step " << step;
          ASSERT_EQ(messages[i].size(), texts[i].size());
        }
      }
    }
    expect_all_back(pool, 40, 90);
  }
}

}  // namespace
}  // namespace baton
