// `baton doctor`: inspects the machine, tries every combination, measures those that work, and
// recommends a configuration with the reasons.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "command.hpp"
#include "config_options.hpp"
#include "doctor/config_file.hpp"
#include "doctor/report.hpp"
#include "option_checks.hpp"
#include "output.hpp"
#include "replaced_file.hpp"
#include "status_line.hpp"

namespace baton::tools {
namespace {

struct Options {
  std::string directory;
  double seconds = 10;
  bool no_calibration = false;
  bool json = false;
  bool force = false;
  std::string write;
  std::string known_bad;
};

// The share of the time for sockets; the rest is for files. Sockets have more combinations and more
// loads, and connecting to their servers takes time.
constexpr double sockets_share = 0.65;
constexpr std::uint64_t file_bytes = std::uint64_t{16} << 20;
// Enough for the checks of a file system.
constexpr std::uint64_t probe_bytes = std::uint64_t{64} << 10;

std::string default_directory() {
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : ".";
}

Result<std::vector<doctor::KnownBad>, Failure> load_known_bad(const Options& options) {
  if (options.known_bad.empty()) {
    return doctor::parse_known_bad(doctor::known_bad_built_in(), "known_bad.txt");
  }
  const auto text = doctor::whole_file(options.known_bad);
  if (text) return doctor::parse_known_bad(*text, options.known_bad);
  return unexpected{Failure{std::make_error_code(std::errc::no_such_file_or_directory),
                            options.known_bad + " cannot be read; leave --known-bad out for the "
                                                "list that is built in"}};
}

class Examination {
 public:
  Examination(const Options& options, Config policy) : options_(options) {
    report_.policy = std::move(policy);
  }

  Result<void, Failure> look() {
    const auto known = load_known_bad(options_);
    if (!known) return unexpected{known.error()};
    line_.show("inspecting the machine");
    report_.facts = doctor::collect_facts();
    report_.troubles = doctor::known_bad_of(*known, report_.facts);
    report_.calls = doctor::probe_calls(report_.policy.forbid);
    line_.show("opening every combination");
    report_.rows = doctor::probe_table(report_.policy);
    report_.interrupts = doctor::probe_interrupts();
    doctor::mark_avoided(report_.rows, report_.troubles);
    return {};
  }

  Result<void, Failure> measure() {
    if (auto made = make_file(); !made) return made;
    if (!options_.no_calibration) {
      tell_of_others();
      report_.sockets = doctor::calibrate_sockets(report_.rows, options_.seconds * sockets_share,
                                                  progress(0, sockets_share));
      if (file_) measure_files();
    }
    report_.recommendation = doctor::recommend(
        {report_.facts, report_.rows, report_.sockets, report_.files, report_.policy});
    return {};
  }

  doctor::Report& report() { return report_; }

 private:
  // Other work on the machine changes the numbers.
  void tell_of_others() {
    constexpr double share_of_cores = 0.5;
    const auto load = report_.facts.number("machine.load");
    const auto cores = report_.facts.number("machine.cores");
    if (!load || !cores || *load < *cores * share_of_cores) return;
    report_.findings.push_back(
        fmt::format("the machine is busy with other work (load average {:.1f} on {:.0f} cores): "
                    "the numbers below are less certain; measure again when it is idle",
                    *load, *cores));
  }

  // If no folder was named, a failure to make the file leaves out only the results about files.
  Result<void, Failure> make_file() {
    const std::string folder =
        options_.directory.empty() ? default_directory() : options_.directory;
    auto made = doctor::ScratchFile::make(
        folder, options_.no_calibration ? probe_bytes : file_bytes, Pattern{});
    if (!made) {
      if (!options_.directory.empty()) return unexpected{made.error()};
      report_.findings.push_back(made.error().reason);
      return {};
    }
    file_.emplace(std::move(*made));
    report_.file_system = doctor::probe_file_system(folder, *file_);
    return {};
  }

  void measure_files() {
    const doctor::Preferences preferences{report_.policy.require, report_.policy.prefer};
    const auto sockets = doctor::choose_for_sockets(report_.rows, report_.sockets, preferences);
    if (!sockets) return;
    report_.files = doctor::calibrate_files(
        report_.rows, doctor::fit_for_both(report_.rows, report_.sockets, *sockets), *file_,
        options_.seconds * (1 - sockets_share), progress(sockets_share, 1 - sockets_share));
  }

  doctor::OnProgress progress(double before, double share) {
    return [this, before, share](const std::string& what, double done) {
      line_.show(fmt::format("measuring, {:3.0f} %: {}", (before + share * done) * 100, what));
    };
  }

  const Options& options_;
  StatusLine line_;
  doctor::Report report_;
  std::optional<doctor::ScratchFile> file_;
};

int examine(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto policy = Config::parse_environment(Config{});
  if (!policy) return report_failure("doctor", policy.error());
  const Existing existing = options.force ? Existing::replace : Existing::refuse;
  if (!options.write.empty()) {  // before ten seconds are spent
    // Without XML this build could not read the file back.
    if (const auto read = Config::parse_xml("<baton/>", Config{}); !read) {
      Failure failure = read.error();
      failure.reason.insert(0, "--write: ");
      return report_failure("doctor", failure);
    }
    const auto possible = check_one_step(options.write, existing);
    if (!possible) return report_failure("doctor", possible.error());
  }
  doctor::Report report;
  {
    Examination examination(options, *policy);
    if (auto done = examination.look(); !done) return report_failure("doctor", done.error());
    if (auto done = examination.measure(); !done) return report_failure("doctor", done.error());
    report = std::move(examination.report());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string text = options.json ? json_of(report) : text_of(report);
  print_text(text);
  if (!flush_output()) return 1;
  if (!report.recommendation.complete) {
    return report_failure(
        "doctor", {errc::engine_unavailable, "no engine serves sockets here; the table says why"});
  }
  if (options.write.empty()) return 0;
  const auto done =
      write_in_one_step(options.write, existing, config_text(report.recommendation, report.facts));
  if (!done) return report_failure("doctor", done.error());
  note("written to {}\n", options.write);
  return 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, Run& run) {
  auto* command =
      app.add_subcommand("doctor", "Look at this machine, measure, and recommend a configuration");
  auto options = std::make_shared<Options>();
  command->add_option("--directory", options->directory, "Folder whose file system is inspected")
      ->default_str("$TMPDIR, else the current one")
      ->check(not_empty("name of a folder"));
  auto* length = command->add_option("--seconds", options->seconds, "Length of the measurement");
  length->capture_default_str()->check(seconds(0.1, 3600));
  command->add_flag("--no-calibration", options->no_calibration, "Measure nothing")
      ->excludes(length);
  command->add_flag("--json", options->json, "Print one JSON object");
  auto* write = command
                    ->add_option("--write", options->write,
                                 "Write the recommended configuration to this file (XML)")
                    ->check(not_empty("name of a file"));
  command->add_flag("--force", options->force, "Let --write replace a file that exists")
      ->needs(write);
  command
      ->add_option("--known-bad", options->known_bad,
                   "List of kernels and limits that make trouble, in place of the built-in one")
      ->check(not_empty("name of a file"));
  command->callback([&run, options] { run = [options] { return examine(*options); }; });
}

}  // namespace baton::tools
