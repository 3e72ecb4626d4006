// The file that the doctor writes: read back by the library's own loader, and never half there.
#include "doctor/config_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "doctor/facts.hpp"
#include "made_up.hpp"

namespace baton::doctor {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    std::string path = testing::TempDir() + "doctorXXXXXX";
    folder_ = ::mkdtemp(path.data());
    file_ = folder_ + "/baton.xml";
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }

  std::size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  static Recommendation team() {
    MadeUp m;
    const auto a = m.row("emulated", "epoll");
    const auto f = m.row("io_uring", "", false);
    m.measured(a, Mode::per_thread, {1, 1, 1});
    m.measured_files({a, Mode::per_thread}, {f, Mode::dedicated}, {1, 1, 1});
    m.policy.forbid = {"other"};
    Recommendation r = m.recommended();
    r.config.forbid.clear();
    r.sentences.push_back("two hyphens -- and three --- and -->");
    return r;
  }

  std::string folder_;
  std::string file_;
};

TEST_F(ConfigFileTest, IsReadBackByTheLibrary) {
  const Recommendation r = team();
  const std::string text = config_text(r, Facts{});
  const auto back = Config::parse_xml(text, Config{});
  ASSERT_TRUE(back.has_value()) << back.error().reason << "\n" << text;
  EXPECT_EQ(back->to_xml(), r.config.to_xml());
  ASSERT_EQ(back->processors.size(), 2U);
  EXPECT_EQ(back->processors[0].wait, "epoll");
  EXPECT_EQ(back->processors[0].mode, Mode::per_thread);
  EXPECT_EQ(back->processors[1].operations, file_operations);
  EXPECT_NE(text.find("Use emulated/epoll, mode per_thread for sockets."), std::string::npos);
}

TEST_F(ConfigFileTest, IsWrittenInOneStep) {
  auto file = ConfigFile::open(file_, false);
  ASSERT_TRUE(file.has_value()) << file.error().reason;
  EXPECT_FALSE(std::filesystem::exists(file_));
  ASSERT_TRUE(file->commit("text").has_value());
  EXPECT_EQ(whole_file(file_), "text");
  EXPECT_EQ(files(), 1U);
  struct stat facts{};
  ASSERT_EQ(::stat(file_.c_str(), &facts), 0);
  EXPECT_NE(facts.st_mode & S_IRUSR, 0U);
}

TEST_F(ConfigFileTest, IsNotThereWithoutACommit) {
  {
    auto file = ConfigFile::open(file_, false);
    ASSERT_TRUE(file.has_value());
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(ConfigFileTest, ExistingOneIsRefusedUnlessForced) {
  std::ofstream(file_) << "mine";
  const auto refused = ConfigFile::open(file_, false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().reason.find("--force"), std::string::npos);
  auto forced = ConfigFile::open(file_, true);
  ASSERT_TRUE(forced.has_value());
  ASSERT_TRUE(forced->commit("new").has_value());
  EXPECT_EQ(whole_file(file_), "new");
}

TEST_F(ConfigFileTest, OneThatCameMeanwhileIsKept) {
  auto file = ConfigFile::open(file_, false);
  ASSERT_TRUE(file.has_value());
  std::ofstream(file_) << "mine";
  const auto done = file->commit("new");
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, std::errc::file_exists);
  EXPECT_EQ(whole_file(file_), "mine");
}

TEST_F(ConfigFileTest, FolderThatIsNotThereIsTold) {
  const auto file = ConfigFile::open(folder_ + "/missing/baton.xml", false);
  ASSERT_FALSE(file.has_value());
  EXPECT_NE(file.error().reason.find("cannot write"), std::string::npos);
}

}  // namespace
}  // namespace baton::doctor
