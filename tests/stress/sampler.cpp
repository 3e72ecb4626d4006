#include "sampler.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>

namespace baton::soak {

std::uint64_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int found = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return found == 2 ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::size_t count_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

Growth growth_of(const std::vector<Sample>& samples) {
  Growth growth;
  if (samples.empty()) return growth;
  const double end = samples.back().seconds;
  const double begin = end * Growth::warm_up_share;
  double count = 0;
  double sum_x = 0;
  double sum_y = 0;
  double sum_xx = 0;
  double sum_xy = 0;
  for (const Sample& sample : samples) {
    if (sample.seconds < begin) continue;
    const double x = sample.seconds - begin;
    const double y = static_cast<double>(sample.resident_bytes) / 1e6;
    count += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  const double spread = count * sum_xx - sum_x * sum_x;
  if (spread <= 0) return growth;
  growth.mb_per_hour = 3'600 * (count * sum_xy - sum_x * sum_y) / spread;
  growth.hours = (end - begin) / 3'600;
  growth.judged = end >= Growth::judged_from_s;
  return growth;
}

}  // namespace baton::soak
