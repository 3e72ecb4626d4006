// The file that the doctor writes: the library's own loader reads it back, and it is never half
// written.
#include "doctor/config_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "doctor/facts.hpp"
#include "made_up.hpp"
#include "replaced_file.hpp"

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
    r.sentences.push_back("two hyphens -- and three --- and -->, an option (--seconds)");
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
  EXPECT_NE(text.find("an option (- -seconds)"), std::string::npos) << text;
}

using tools::check_one_step;
using tools::Existing;
using tools::write_in_one_step;

TEST_F(ConfigFileTest, IsWrittenInOneStep) {
  ASSERT_TRUE(check_one_step(file_, Existing::refuse).has_value());
  EXPECT_EQ(files(), 0U);
  ASSERT_TRUE(write_in_one_step(file_, Existing::refuse, "text").has_value());
  EXPECT_EQ(whole_file(file_), "text");
  EXPECT_EQ(files(), 1U);
  struct stat facts{};
  ASSERT_EQ(::stat(file_.c_str(), &facts), 0);
  EXPECT_NE(facts.st_mode & S_IRUSR, 0U);
}

TEST_F(ConfigFileTest, ExistingOneIsRefusedUnlessForced) {
  std::ofstream(file_) << "mine";
  const auto refused = check_one_step(file_, Existing::refuse);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().reason.find("--force"), std::string::npos);
  EXPECT_TRUE(check_one_step(file_, Existing::replace).has_value());
  ASSERT_TRUE(write_in_one_step(file_, Existing::replace, "new").has_value());
  EXPECT_EQ(whole_file(file_), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(ConfigFileTest, AFileThatAppearedMeanwhileIsKept) {
  ASSERT_TRUE(check_one_step(file_, Existing::refuse).has_value());
  std::ofstream(file_) << "mine";
  const auto done = write_in_one_step(file_, Existing::refuse, "new");
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, std::errc::file_exists);
  EXPECT_EQ(whole_file(file_), "mine");
}

TEST_F(ConfigFileTest, NothingButARegularFileIsReplaced) {
  std::ofstream(folder_ + "/target") << "mine";
  std::filesystem::create_symlink("target", file_);
  EXPECT_FALSE(write_in_one_step(file_, Existing::replace, "new").has_value());
  EXPECT_EQ(whole_file(folder_ + "/target"), "mine");
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_FALSE(write_in_one_step(file_, Existing::replace, "new").has_value());
  EXPECT_FALSE(check_one_step(file_, Existing::replace).has_value());
  EXPECT_EQ(files(), 2U);
}

TEST_F(ConfigFileTest, AMissingFolderIsReported) {
  const auto possible = check_one_step(folder_ + "/missing/baton.xml", Existing::refuse);
  ASSERT_FALSE(possible.has_value());
  EXPECT_NE(possible.error().reason.find("cannot write"), std::string::npos);
}

}  // namespace
}  // namespace baton::doctor
