// A library built with BATON_XML=OFF: this program has no_xml.cpp, so the archive's xml.cpp stays
// out. Every function that reads a document refuses it with a helpful reason; the rest works.
#include <errno.h>

#include "baton.h"
#include "support.hpp"

namespace baton {
namespace {

void expect_refused(const Failure& failure, const std::string& place) {
  EXPECT_EQ(failure.code, std::errc::not_supported);
  EXPECT_EQ(failure.reason_code, ReasonCode::not_built);
  EXPECT_EQ(failure.reason.find(place + ": this build of Baton reads no XML"), 0U)
      << failure.reason;
  expect_words(failure.reason, {"BATON_XML=OFF", "BATON=name=value", "BATON_XML=ON", "pugixml"});
}

TEST(ConfigWithoutXml, DocumentsAndFilesAreRefused) {
  const TemporaryFile file{"<baton/>"};
  const auto parsed = Config::parse_xml("<baton/>", {});
  ASSERT_FALSE(parsed.has_value());
  expect_refused(parsed.error(), "XML");
  const auto loaded = Config::load_xml(file.path(), {});
  ASSERT_FALSE(loaded.has_value());
  expect_refused(loaded.error(), file.path());
}

TEST(ConfigWithoutXml, TheVariableIsRefusedAndNamed) {
  const TemporaryFile file{"<baton/>"};
  const Variable variable{"BATON_CONFIG", file.path()};
  const auto parsed = Config::parse_environment({});
  ASSERT_FALSE(parsed.has_value());
  expect_refused(parsed.error(), "BATON_CONFIG: " + file.path());
}

TEST(ConfigWithoutXml, TheInterfaceInCRefusesADocumentAndTheVariable) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = nullptr;
  char reason[512] = "";
  const auto open = [&] { return baton_open(&config, &proactor, reason, sizeof reason); };
  config.text = "<baton/>";
  EXPECT_EQ(open(), ENOTSUP);
  expect_words(reason, {"XML: this build of Baton reads no XML", "BATON_XML=ON"});
  config.text = "engine=emulated";
  config.flags = BATON_ENVIRONMENT;
  const Variable variable{"BATON_CONFIG", "/etc/baton.xml"};
  EXPECT_EQ(open(), ENOTSUP);
  expect_words(reason, {"BATON_CONFIG: /etc/baton.xml: this build of Baton reads no XML"});
}

TEST(ConfigWithoutXml, TheOneLineFormAndPrintingWork) {
  const Variable text{"BATON", "engine=emulated,wait=poll"};
  const auto parsed = Config::parse_environment({});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->to_xml(),
            "<baton>\n  <processor engine=\"emulated\" wait=\"poll\" />\n</baton>\n");
}

}  // namespace
}  // namespace baton
