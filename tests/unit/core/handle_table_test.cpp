// Handle records: indices are reused, and generations distinguish their users (P-25).
#include "core/handle_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "baton/limits.hpp"

namespace baton {
namespace {

const os::System& real = os::real_system();

Handle* take(HandleTable& table, NativeHandle native = 0) {
  Handle* handle = table.allocate(native, HandleKind::pipe, Ownership::borrowed, true, 0);
  if (handle != nullptr) HandleTable::open(*handle);
  return handle;
}

TEST(HandleTable, a_reused_index_has_another_generation) {
  HandleTable table{16, real};
  Handle* first = take(table);
  const std::uint32_t index = first->index();
  std::set<std::uint32_t> generations{first->generation()};
  for (int i = 0; i < 1'000; ++i) {
    table.release(*first);
    first = take(table);
    ASSERT_EQ(first->index(), index);
    ASSERT_TRUE(generations.insert(first->generation()).second);
  }
  table.release(*first);
}

TEST(HandleTable, records_do_not_move_when_it_grows) {
  constexpr std::uint32_t bound = 3 * limits::handles_chunk;
  HandleTable table{bound, real};
  std::vector<Handle*> all;
  for (std::uint32_t i = 0; i < bound; ++i) {
    all.push_back(take(table, static_cast<NativeHandle>(i)));
    ASSERT_NE(all.back(), nullptr);
  }
  for (std::uint32_t i = 0; i < bound; ++i) {
    EXPECT_EQ(all[i]->native(), static_cast<NativeHandle>(i));
    EXPECT_EQ(all[i]->index(), i);
  }
  for (Handle* handle : all) table.release(*handle);
}

TEST(HandleTable, is_full_at_its_bound_and_takes_again_after_a_release) {
  HandleTable table{3, real};
  Handle* handles[3];
  for (Handle*& handle : handles) handle = take(table);
  EXPECT_EQ(table.count(), 3U);
  EXPECT_EQ(take(table), nullptr);
  table.release(*handles[1]);
  EXPECT_EQ(table.count(), 2U);
  EXPECT_EQ(take(table), handles[1]);
  EXPECT_EQ(take(table), nullptr);
  for (Handle* handle : handles) table.release(*handle);
}

TEST(HandleTable, a_reused_record_forgets_how_its_file_was_opened) {
  HandleTable table{1, real};
  const OpenFacts all{.readable = false,
                      .writable = false,
                      .is_terminal = true,
                      .appends = true,
                      .direct = true,
                      .syncs = true,
                      .is_file = true};
  Handle* handle = table.allocate(0, HandleKind::pipe, Ownership::owned, false, 0, 0, all);
  table.release(*handle);
  handle = take(table);
  ASSERT_NE(handle, nullptr);
  EXPECT_TRUE(handle->readable() && handle->writable() && handle->nonblocking());
  EXPECT_FALSE(handle->is_terminal() || handle->appends() || handle->direct() || handle->syncs());
  EXPECT_FALSE(handle->is_file() || handle->close_may_block() || handle->owned());
  table.release(*handle);
}

TEST(HandleTable, takes_no_handle_after_its_end) {
  HandleTable table{16, real};
  Handle* handle = table.allocate(0, HandleKind::pipe, Ownership::owned, true, 0);
  table.end();
  EXPECT_EQ(take(table), nullptr);
  EXPECT_EQ(table.count(), 1U) << "it is waited for";
  table.for_each([](Handle&) { ADD_FAILURE() << "it is not open yet"; });
  HandleTable::open(*handle);
  int visits = 0;
  table.for_each([&](Handle& each) { visits += &each == handle; });
  EXPECT_EQ(visits, 1);
  table.release(*handle);
  EXPECT_EQ(take(table), nullptr);
}

TEST(HandleTable, visits_open_handles) {
  HandleTable table{8, real};
  Handle* a = take(table);
  Handle* b = take(table);
  Handle* c = take(table);
  table.release(*b);
  std::vector<Handle*> seen;
  table.for_each([&](Handle& handle) { seen.push_back(&handle); });
  EXPECT_EQ(seen, (std::vector<Handle*>{a, c}));
  table.release(*a);
  table.release(*c);
}

// Four threads take and give back: no record is handed out twice.
TEST(HandleTable, hands_out_each_record_once) {
  HandleTable table{1'024, real};
  std::vector<std::thread> threads;
  std::atomic<bool> twice{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Handle*> mine;
      for (int i = 0; i < 5'000; ++i) {
        if (Handle* handle = take(table, t); handle != nullptr) mine.push_back(handle);
        if (mine.size() < 50) continue;
        for (Handle* handle : mine) {
          if (handle->native() != t) twice = true;
          table.release(*handle);
        }
        mine.clear();
      }
      for (Handle* handle : mine) table.release(*handle);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(twice);
  EXPECT_EQ(table.count(), 0U);
}

}  // namespace
}  // namespace baton
