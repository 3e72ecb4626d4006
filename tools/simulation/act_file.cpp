// A program's operations on files, and the entries in their books.
#include <cstring>

#include "simulation/program.hpp"

namespace baton::tools::simulation {

namespace {
/// Small enough that writes overlap.
constexpr std::uint32_t offset_bound = 8'192;
}  // namespace

const sim::FileBody& Program::body_of(const Disk& disk) const {
  const sim::FileBody* body = world_->kernel().file(disk.path);
  if (body == nullptr) world_->violated("a file that was opened is not there");
  return *body;
}

bool Program::act_file() {
  if (disks_.empty()) return false;
  sim::Random& random = world_->random;
  Disk& disk = *disks_[random.below(static_cast<std::uint32_t>(disks_.size()))];
  if (!disk.open) return false;
  const std::uint32_t choice = random.below(8);
  What what = choice < 4 ? What::read_at : What::write_at;
  if (choice == 7) what = What::sync;
  if (disk.appends && what == What::write_at) what = What::append;
  Slot* slot = take_slot(what, &disk);
  if (slot == nullptr) return false;
  slot->size = what == What::sync ? 0 : draw_size();
  slot->offset = random.below(offset_bound);
  slot->exactly = what == What::append || (what != What::sync && random.below(4) == 0);
  draw_deadline(*slot);
  note_start(*slot);
  return start_file(*slot, disk);
}

bool Program::start_file(Slot& slot, Disk& disk) {
  slot.size_before = body_of(disk).bytes.size();
  const MutableBuffer buffer{slot.buffer, slot.size};
  const ConstBuffer bytes{slot.buffer, slot.size};
  std::error_code error;
  switch (slot.what) {
    case What::read_at:
      slot.moment = disk.book.begin_read();
      error = slot.exactly ? disk.file.read_exactly_at(slot.operation, slot.offset, buffer)
                           : disk.file.read_at(slot.operation, slot.offset, buffer);
      break;
    case What::write_at:
      slot.entry = disk.book.begin_write(slot.offset, slot.size);
      std::memcpy(slot.buffer, disk.book.bytes_of(slot.entry), slot.size);
      error = slot.exactly ? disk.file.write_all_at(slot.operation, slot.offset, bytes)
                           : disk.file.write_at(slot.operation, slot.offset, bytes);
      break;
    case What::append:
      slot.entry = disk.appended.begin_append();
      std::memcpy(slot.buffer, AppendBook::bytes_of(slot.entry), slot.size);
      error = disk.file.append_all(slot.operation, bytes);
      break;
    default:
      slot.moment = disk.book.begin_read();
      error = world_->random.coin() ? disk.file.sync(slot.operation)
                                    : disk.file.data_sync(slot.operation);
  }
  // Once started, it may be complete, and the slot in use again.
  if (error) file_over(slot, 0);
  --disk.users;
  return settle_start(slot, error);
}

// The entry of an operation that is complete, or was refused and has moved nothing.
void Program::file_over(Slot& slot, std::size_t moved) {
  Disk& disk = *static_cast<Disk*>(slot.object);
  switch (slot.what) {
    case What::write_at:
      return disk.book.end_write(slot.entry, moved);
    case What::append:
      return disk.appended.end_append(slot.entry, moved);
    default:
      return disk.book.end_read(slot.moment);
  }
}

}  // namespace baton::tools::simulation
