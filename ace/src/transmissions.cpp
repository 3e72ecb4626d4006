#include "transmissions.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include "bridge.hpp"
#include "results.hpp"

namespace baton::ace {
namespace {

std::size_t header_of(const Transmission::Plan& plan) noexcept {
  const auto* const ends = plan.ends;
  if (ends == nullptr || ends->header() == nullptr) return 0;
  return std::min(ends->header_bytes(), length_of(*ends->header()));
}

std::size_t trailer_of(const Transmission::Plan& plan) noexcept {
  const auto* const ends = plan.ends;
  if (ends == nullptr || ends->trailer() == nullptr) return 0;
  return std::min(ends->trailer_bytes(), length_of(*ends->trailer()));
}

}  // namespace

bool Transmissions::cancel(int socket) noexcept {
  const std::lock_guard guard{mutex_};
  bool found = false;
  for (Transmission* each = first_; each != nullptr; each = each->next_) {
    if (each->plan_.socket != socket) continue;
    each->cancelled_ = true;
    found = true;
  }
  return found;
}

int Transmission::begin(const std::shared_ptr<Bridge>& bridge, const Plan& plan,
                        ACE_POSIX_Asynch_Result& result) noexcept {
  const Bridge::Entry entry{*bridge};
  if (!entry) return ESHUTDOWN;
  if (plan.bytes == 0 && header_of(plan) == 0 && trailer_of(plan) == 0) return bridge->post(result);
  auto* const made = new (std::nothrow) Transmission(*bridge, plan, result);
  if (made == nullptr) return ENOMEM;
  made->enlist();
  int error = native::look_at(plan.socket, made->socket_);
  if (error == 0) error = native::look_at(plan.file, made->file_);
  if (error == 0 && plan.bytes > 0) {
    made->piece_.reset(new (std::nothrow) char[std::min(plan.bytes, plan.per_send)]);
    if (!made->piece_) error = ENOMEM;
  }
  if (error == 0) {
    const std::lock_guard guard{bridge->transmissions().mutex_};  // see step_ended
    error = made->go_on(0);
  }
  // Without an error it may have ended and deleted itself by now.
  if (error != 0) delete made;
  return error;
}

void Transmission::enlist() noexcept {
  const std::lock_guard guard{bridge_.transmissions().mutex_};
  next_ = bridge_.transmissions().first_;
  if (next_ != nullptr) next_->previous_ = this;
  bridge_.transmissions().first_ = this;
}

Transmission::~Transmission() {
  const std::lock_guard guard{bridge_.transmissions().mutex_};
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : bridge_.transmissions().first_) = next_;
}

// -- steps ----------------------------------------------------------------------------------------

/// Starts the step that follows, if there is one. 0 or an errno.
int Transmission::go_on(std::size_t just_read) noexcept {
  switch (step_) {
    case Step::none:
      if (const std::size_t bytes = header_of(plan_)) {
        step_ = Step::header;
        return write(*plan_.ends->header(), bytes);
      }
      [[fallthrough]];
    case Step::header:
    case Step::data:
      if (plan_.bytes > 0) return read();
      if (const std::size_t bytes = trailer_of(plan_)) {
        step_ = Step::trailer;
        return write(*plan_.ends->trailer(), bytes);
      }
      break;
    case Step::read:
      step_ = Step::data;
      return start_step(plan_.socket, Action::write, piece_.get(), just_read);
    default:
      break;
  }
  return 0;
}

int Transmission::read() noexcept {
  step_ = Step::read;
  return start_step(plan_.file, Action::read, piece_.get(), std::min(plan_.bytes, plan_.per_send));
}

int Transmission::write(const ACE_Message_Block& block, std::size_t bytes) noexcept {
  return start_step(plan_.socket, Action::write, block.rd_ptr(), bytes);
}

int Transmission::start_step(int fildes, Action action, char* data, std::size_t size) noexcept {
  native::OpenFile now;
  if (const int error = native::look_at(fildes, now)) return error;
  if (!(now == (action == Action::write ? socket_ : file_))) return ECANCELED;
  Start start;
  start.fildes = fildes;
  start.action = action;
  start.data = data;
  start.size = size;
  start.offset = plan_.offset;  // a socket has no offset and ignores it
  start.told = tell<step_ended>(this);
  return bridge_.descriptors().start(start);
}

/// No step follows the one that has ended.
bool Transmission::is_last() const noexcept {
  const bool file_sent = plan_.bytes == 0 && step_ != Step::read;
  return step_ == Step::trailer || (file_sent && trailer_of(plan_) == 0);
}

void Transmission::step_ended(Bridge& /*bridge*/, void* what, Outcome outcome) {
  static_cast<Transmission*>(what)->step_ended(outcome);
}

void Transmission::step_ended(Outcome outcome) {
  int error = take_in(outcome);
  if (error == 0) {
    // A cancel first sets the mark and then cancels the step. Either the mark is seen here, or the
    // cancel finds the next step.
    const std::lock_guard guard{bridge_.transmissions().mutex_};
    const bool ends = cancelled_ && step_ != Step::trailer;
    const bool last = is_last();
    error = ends ? ECANCELED : go_on(outcome.bytes);
    // The next step has begun, and another thread may be ending it already.
    if (error == 0 && !last) return;
  }
  Bridge& bridge = bridge_;
  ACE_POSIX_Asynch_Result& result = result_;
  const Outcome whole{sent_, error};
  delete this;
  bridge.dispatch(result, whole);
}

/// Accounts for the bytes of a step. 0 or an errno.
int Transmission::take_in(Outcome outcome) noexcept {
  if (step_ != Step::read) sent_ += outcome.bytes;
  if (outcome.error != 0) return outcome.error;
  if (step_ != Step::read) return 0;
  if (outcome.bytes == 0) return ENODATA;  // the file is shorter than it was
  plan_.offset += outcome.bytes;
  plan_.bytes -= outcome.bytes;
  return 0;
}

}  // namespace baton::ace
