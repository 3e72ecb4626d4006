// Tables that map one kind of value to another, in full.
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "baton/endpoint.hpp"
#include "baton/error.hpp"
#include "baton/log.hpp"
#include "baton/pending.hpp"
#include "baton/reason_code.hpp"
#include "baton/statistics.hpp"
#include "baton/version.hpp"

namespace baton {
namespace {

TEST(Error, EveryConditionOfTheSystemsThatFits) {
  const std::pair<errc, std::errc> pairs[] = {
      {errc::operation_in_use, std::errc::device_or_resource_busy},
      {errc::too_many_threads, std::errc::resource_unavailable_try_again},
      {errc::wrong_thread, std::errc::operation_not_permitted},
      {errc::engine_forbidden, std::errc::operation_not_permitted},
      {errc::after_fork, std::errc::operation_not_permitted},
      {errc::descriptor_out_of_range, std::errc::value_too_large},
      {errc::engine_unavailable, std::errc::function_not_supported},
      {errc::bad_configuration, std::errc::invalid_argument},
      {errc::wrong_handle_kind, std::errc::invalid_argument},
      {errc::already_adopted, std::errc::file_exists},
      {errc::not_prepared, std::errc::invalid_argument},
      {errc::engine_lost, std::errc::operation_not_permitted},
  };
  for (const auto& [ours, systems] : pairs) EXPECT_EQ(make_error_code(ours), systems);
  for (const errc alone : {errc::stopped, errc::end_of_stream, errc::delimiter_not_found}) {
    EXPECT_EQ(make_error_code(alone).default_error_condition().category(), error_category());
  }
}

TEST(ReasonCode, OfErrorsOfTheSystems) {
  const auto of = [](std::errc error) { return reason_code_of(std::make_error_code(error)); };
  EXPECT_EQ(of(std::errc::too_many_files_open), ReasonCode::limit_descriptors);
  EXPECT_EQ(of(std::errc::too_many_files_open_in_system), ReasonCode::limit_descriptors);
  EXPECT_EQ(of(std::errc::invalid_argument), ReasonCode::bad_value);
  EXPECT_EQ(of(std::errc::not_enough_memory), ReasonCode::limit_memory);
  EXPECT_EQ(of(std::errc::function_not_supported), ReasonCode::not_in_kernel);
  EXPECT_EQ(of(std::errc::operation_not_permitted), ReasonCode::denied);
  EXPECT_EQ(of(std::errc::permission_denied), ReasonCode::denied);
  EXPECT_EQ(of(std::errc::io_error), ReasonCode::system_error);
}

TEST(Log, EveryLevelHasAName) {
  EXPECT_STREQ(to_string(LogLevel::info), "info");
  EXPECT_STREQ(to_string(LogLevel::warning), "warning");
}

TEST(Version, IsThatOfTheHeader) {
  const std::string expected = std::to_string(BATON_VERSION_MAJOR) + "." +
                               std::to_string(BATON_VERSION_MINOR) + "." +
                               std::to_string(BATON_VERSION_PATCH);
  EXPECT_EQ(version(), expected);
  detail::abi_reference();  // a program with this header and this library fit together
}

TEST(Endpoint, OfAnUnknownFamilyIsUnspecified) {
  Endpoint endpoint = Endpoint::loopback(80);
  const sa_family_t foreign = AF_APPLETALK;
  std::memcpy(endpoint.data(), &foreign, sizeof(foreign));
  EXPECT_EQ(endpoint.family(), AddressFamily::unspecified);
  EXPECT_EQ(endpoint.port(), 0);
  EXPECT_EQ(endpoint.to_string(), "unspecified");
}

TEST(Endpoint, OfVersionSixDiffersByEachOfItsParts) {
  const Endpoint one = Endpoint::parse("[fe80::1%2]:80").value();
  EXPECT_EQ(one, Endpoint::parse("[fe80::1%2]:80").value());
  EXPECT_FALSE(one == Endpoint::parse("[fe80::1%2]:81").value());
  EXPECT_FALSE(one == Endpoint::parse("[fe80::1%3]:80").value());
  EXPECT_FALSE(one == Endpoint::parse("[fe80::2%2]:80").value());
}

TEST(Statistics, PrometheusLabelNamesKeepTheAllowedCharacters) {
  const Statistics::Label labels[] = {{"aZ_09{~", "x"}};
  EXPECT_NE(Statistics{}.to_prometheus(labels).find("baton_waits_total{aZ_09__=\"x\"} 0"),
            std::string::npos);
}

TEST(PendingReport, NamesAHandlerByItsModuleWhereThereIsOne) {
  PendingReport report;
  PendingOperation& nowhere = report.operations.emplace_back();
  const std::uintptr_t no_address = 1;
  std::memcpy(&nowhere.handler, &no_address, sizeof(no_address));
  report.timers_unseen = 3;
  const std::string text = report.to_string();
  EXPECT_NE(text.find("handler=?"), std::string::npos) << text;
  EXPECT_NE(text.find("3 timers not looked at"), std::string::npos) << text;
  // The kernel's own module has no path, only a name.
  const unsigned long kernels = ::getauxval(AT_SYSINFO_EHDR);
  if (kernels == 0) GTEST_SKIP() << "the kernel gives this program no code of its own";
  std::memcpy(&nowhere.handler, &kernels, sizeof(kernels));
  EXPECT_NE(report.to_string().find("handler=linux-vdso"), std::string::npos) << report.to_string();
}

}  // namespace
}  // namespace baton
