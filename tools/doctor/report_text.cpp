// The report for people.
#include <fmt/format.h>

#include <algorithm>

#include "../printable.hpp"
#include "../wrapped.hpp"
#include "report.hpp"

namespace baton::doctor {
namespace {

constexpr std::size_t columns = 100;

std::string wrapped(const std::string& text, const std::string& first, const std::string& others) {
  return tools::wrapped(text, columns, first, others);
}

std::string fact(const Report& report, const char* name, const char* unknown = "-") {
  const std::string text = report.facts.text(name);
  return text.empty() ? unknown : text;
}

std::string item(const std::string& text) { return wrapped(text, "  - ", "    "); }

std::string machine_text(const Report& report) {
  const auto f = [&](const char* name) { return fact(report, name); };
  std::string out = "machine\n";
  out += fmt::format("  kernel       Linux {} ({}), {}\n", f("kernel"), f("kernel.release"),
                     f("machine.arch"));
  out += fmt::format("  cores        {}; control group: {} cores, {} MiB of {} MiB\n",
                     f("machine.cores"), f("cgroup.cpus"), f("cgroup.memory_mib"),
                     f("machine.memory_mib"));
  out += fmt::format("  descriptors  {} (hard {}), memlock {} KiB, queued signals {}\n",
                     f("rlimit.nofile"), f("rlimit.nofile_hard"), f("rlimit.memlock_kib"),
                     f("rlimit.sigpending"));
  out +=
      fmt::format("  sysctls      io_uring_disabled {}, aio-nr {} of {}, somaxconn {}, ports {}\n",
                  f("kernel.io_uring_disabled"), f("fs.aio-nr"), f("fs.aio-max-nr"),
                  f("net.core.somaxconn"), f("net.ipv4.ip_local_port_range"));
  return out;
}

std::string calls_text(const Report& report) {
  const std::string mode = fact(report, "seccomp.mode", "?");
  std::string out = fmt::format("  filter       {}\n",
                                mode == "0"   ? "none"
                                : mode == "2" ? "a system-call filter is in force (seccomp)"
                                              : "seccomp mode " + mode);
  for (const auto kind :
       {CallAnswer::Kind::denied, CallAnswer::Kind::missing, CallAnswer::Kind::fatal,
        CallAnswer::Kind::skipped, CallAnswer::Kind::unknown}) {
    std::string names;
    for (const CallAnswer& call : report.calls) {
      if (call.kind == kind) names += " " + call.name;
    }
    if (!names.empty()) out += fmt::format("  {:<12}{}\n", to_string(kind), names);
  }
  return out;
}

std::string file_system_text(const Report& report) {
  if (!report.file_system) return {};
  const FileSystem& f = *report.file_system;
  const auto feature = [](const Feature& one) {
    return fmt::format("{} ({})", one.there ? "yes" : "no", one.text);
  };
  return fmt::format("  files        {}: {}, blocks of {}{}; O_DIRECT {}; RWF_NOWAIT {}\n",
                     tools::printable(f.folder), f.type, f.block,
                     f.alignment > 0 ? fmt::format(", aligned to {}", f.alignment) : "",
                     feature(f.direct), feature(f.nowait));
}

std::string troubles_text(const Report& report) {
  std::string out;
  for (const KnownBad& one : report.troubles) {
    out +=
        item(fmt::format("{} [{}]: {}. Consequence: {}. Advice: {}. ({})", one.about,
                         to_string(one.level), one.what, one.consequence, one.advice, one.source));
  }
  for (const std::string& one : report.findings) out += item(one);
  return out.empty() ? out : "\nknown troubles and findings\n" + out;
}

const char* support_text(Support support) {
  return support == Support::unsupported ? "no" : to_string(support);
}

std::string modes_text(const Row& row) {
  std::string text;
  for (const Mode mode : modes) {
    if (row.works_in(mode)) text += (text.empty() ? "" : " ") + std::string(to_string(mode));
  }
  return text;
}

std::string table_text(const Report& report) {
  std::string out = fmt::format("\n{:<26}", "engine/wait");
  for (const auto& group : operation_groups()) out += fmt::format(" {:<9}", group.name);
  out += " modes\n";
  for (const Row& row : report.rows) {
    out += fmt::format("{:<26}", row.name());
    if (!row.available()) {
      out += wrapped(fmt::format("unavailable: {} [{}]", row.refusal().reason, row.refusal().code),
                     " ", std::string(29, ' '));
      continue;
    }
    for (const auto& group : operation_groups()) {
      out += fmt::format(" {:<9}", support_text(support_of(row, group.kinds)));
    }
    out += fmt::format(" {}\n", modes_text(row));
    for (const std::string& note : row.notes) out += item(note);
  }
  out += "interrupts:";
  for (const InterruptRow& row : report.interrupts) {
    out += fmt::format(" {}{}", row.name,
                       row.answer.works ? "" : fmt::format(" (unavailable [{}])", row.answer.code));
  }
  return out + "\n";
}

// The width of names that have numbers; other names may be longer.
std::size_t name_width(const Measurement& measurement) {
  std::size_t widest = 0;
  for (const Series& one : measurement.series) {
    if (!one.rounds.empty()) widest = std::max(widest, one.name.size());
  }
  return widest;
}

// The headings in three lines: the quantity, the load, the unit.
std::string headings(const Measurement& measurement) {
  std::string lines[3];
  for (std::string& line : lines) line = std::string(name_width(measurement), ' ');
  for (const Measure& one : measurement.measures) {
    const auto comma = std::min(one.name.find(", "), one.name.size());
    const std::string load = one.name.substr(std::min(comma + 2, one.name.size()));
    lines[0] += fmt::format(" {:>13}", one.name.substr(0, comma));
    lines[1] += fmt::format(" {:>13}", load);
    lines[2] += fmt::format(" {:>13}", one.unit);
  }
  return lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n";
}

std::string measurement_text(const char* title, const Measurement& measurement) {
  if (measurement.series.empty()) return {};
  std::string out = fmt::format("\n{}: {} round{} in {:.1f} s\n", title, measurement.rounds(),
                                measurement.rounds() == 1 ? "" : "s", measurement.seconds);
  out += headings(measurement);
  for (const Series& series : measurement.series) {
    out += fmt::format("{:<{}}", series.name, name_width(measurement));
    if (series.rounds.empty()) {
      out += fmt::format(" out: {}\n", series.dropped);
      continue;
    }
    for (std::size_t i = 0; i < measurement.measures.size(); ++i) {
      const double value = median_of(series, i);
      out += value >= 1000 ? fmt::format(" {:>13.0f}", value) : fmt::format(" {:>13.2f}", value);
    }
    out += "\n";
  }
  for (const std::string& finding : measurement.findings) out += item(finding);
  return out;
}

std::string recommendation_text(const Report& report) {
  std::string out = "\nrecommendation\n";
  for (const std::string& sentence : report.recommendation.sentences) out += item(sentence);
  if (report.recommendation.complete) out += "\n" + report.recommendation.config.to_xml();
  return out;
}

}  // namespace

std::string text_of(const Report& report) {
  return machine_text(report) + calls_text(report) + file_system_text(report) +
         troubles_text(report) + table_text(report) +
         measurement_text("sockets (echo of 512 bytes)", report.sockets) +
         measurement_text("files (reads of 4 KiB, 16 in flight)", report.files) +
         recommendation_text(report);
}

}  // namespace baton::doctor
