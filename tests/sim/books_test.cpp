// The books in which the simulator's judge keeps the contents of files: they find what is wrong.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "simulation/file_book.hpp"

namespace baton::tools::simulation {
namespace {

TEST(FileBook, FileDoesNotEndBeforeACompleteWrite) {
  FileBook book;
  const std::uint32_t write = book.begin_write(10, 5);
  const FileBook::Moment earlier = book.begin_read();
  book.end_write(write, 5, true);
  EXPECT_TRUE(book.may_end_at(earlier, 0)) << "the write was not complete when the read began";
  book.end_read(earlier);
  const FileBook::Moment later = book.begin_read();
  EXPECT_FALSE(book.may_end_at(later, 14));
  EXPECT_TRUE(book.may_end_at(later, 15));
  book.end_read(later);
}

TEST(AppendBook, AppendsThatFollowOneAnotherKeepTheirOrder) {
  AppendBook book;
  std::vector<std::byte> right;
  std::vector<std::byte> wrong;
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t append = book.begin_append();
    const std::byte* const bytes = AppendBook::bytes_of(append);
    right.insert(right.end(), bytes, bytes + 8);
    wrong.insert(wrong.begin(), bytes, bytes + 8);
    book.end_append(append, 8);
  }
  EXPECT_EQ(book.wrong(right), nullptr);
  EXPECT_NE(book.wrong(wrong), nullptr);
  right.resize(8);
  EXPECT_NE(book.wrong(right), nullptr) << "the second one is missing";
}

}  // namespace
}  // namespace baton::tools::simulation
