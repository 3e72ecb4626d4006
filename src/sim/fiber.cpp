// The switch. On x86-64 it is written in assembly: it exchanges the stack pointer and the registers
// that a function must preserve. Elsewhere it is the C library's swapcontext, which also sets the
// signal mask by a system call and is about ten times slower.
//
// A shadow stack (CET) would need a switch as well. The kernel gives one only to a program that
// asks for it, and the simulation does not.
#include "sim/fiber.hpp"

#include <cxxabi.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "base/asan.hpp"
#include "base/assert.hpp"
#include "base/tsan.hpp"

#ifdef BATON_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom_old,
                                     std::size_t* size_old);
void __lsan_register_root_region(const void* begin, std::size_t size);
void __lsan_unregister_root_region(const void* begin, std::size_t size);
}
#endif
#ifdef BATON_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

#ifdef _LIBCPP_VERSION
// libc++abi defines it, but its header does not declare it.
namespace __cxxabiv1 {
extern "C" void* __cxa_get_globals() noexcept;
}
#endif

#if defined(__x86_64__)
// void baton_sim_switch(void** stack_pointer_of_this, void* stack_pointer_of_that)
asm(R"(
  .text
  .p2align 4
  .globl baton_sim_switch
  .hidden baton_sim_switch
  .type baton_sim_switch, @function
baton_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size baton_sim_switch, . - baton_sim_switch

  .p2align 4
  .globl baton_sim_enter
  .hidden baton_sim_enter
  .type baton_sim_enter, @function
baton_sim_enter:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
  .size baton_sim_enter, . - baton_sim_enter
)");
extern "C" void baton_sim_switch(void** from, void* to);
extern "C" void baton_sim_enter();
#else
#include <ucontext.h>
#endif

namespace baton::sim {
namespace {

/// A thread's record of exceptions, as the C++ ABI specifies it.
struct Exceptions {
  void* caught;
  unsigned uncaught;
};
Exceptions& exceptions() noexcept {
  return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
}

}  // namespace

#if defined(__x86_64__)
struct Fiber::Context {};
#else
struct Fiber::Context {
  ucontext_t registers;
};
#endif

Fiber::Fiber() {
#ifdef BATON_TSAN
  tsan_ = __tsan_get_current_fiber();
#endif
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    void* bottom = nullptr;
    ::pthread_attr_getstack(&attributes, &bottom, &size_);
    bottom_ = bottom;
    ::pthread_attr_destroy(&attributes);
  }
#if !defined(__x86_64__)
  context_ = std::make_unique<Context>();
#endif
}

Fiber::Fiber(Entry entry, void* argument) : entry_(entry), argument_(argument) {
  void* const memory = ::mmap(nullptr, guard_size + stack_size, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
  std::byte* const usable = stack_ + guard_size;
  if (::mprotect(usable, stack_size, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(memory, guard_size + stack_size);
    throw std::bad_alloc();
  }
  bottom_ = usable;
  size_ = stack_size;
#ifdef BATON_ASAN
  // Memory that only a fiber's stack refers to is no leak, even if the fiber never continues.
  __lsan_register_root_region(usable, stack_size);
#endif
#ifdef BATON_TSAN
  tsan_ = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
  // The stack as baton_sim_switch leaves it: six registers and the return address. r12 is the
  // argument of baton_sim_enter, r13 its function. The stack is aligned at the call.
  auto* top = reinterpret_cast<void**>(usable + stack_size);
  *--top = nullptr;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&baton_sim_enter);
  *--top = nullptr;                                 // rbp
  *--top = nullptr;                                 // rbx
  *--top = this;                                    // r12
  *--top = reinterpret_cast<void*>(&Fiber::begin);  // r13
  *--top = nullptr;                                 // r14
  *--top = nullptr;                                 // r15
  stack_pointer_ = static_cast<void*>(top);
#else
  context_ = std::make_unique<Context>();
  ::getcontext(&context_->registers);
  context_->registers.uc_stack.ss_sp = usable;
  context_->registers.uc_stack.ss_size = stack_size;
  context_->registers.uc_link = nullptr;
  const auto word = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&context_->registers,
                reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
                  begin(reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low));
                }),
                2, static_cast<unsigned>(word >> 32), static_cast<unsigned>(word));
#endif
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#ifdef BATON_ASAN
  __lsan_unregister_root_region(stack_ + guard_size, stack_size);
#endif
#ifdef BATON_TSAN
  __tsan_destroy_fiber(tsan_);
#endif
  ::munmap(stack_, guard_size + stack_size);
}

bool Fiber::overflowed(const void* address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto guard = reinterpret_cast<std::uintptr_t>(stack_);
  return stack_ != nullptr && at - guard < guard_size;
}

void Fiber::begin(Fiber* self) noexcept {
  self->arrived();
  self->entry_(self->argument_);
  BATON_UNREACHABLE("a fiber has nowhere to return to");
}

// Restores what was saved when this fiber stopped.
void Fiber::arrived() noexcept {
#ifdef BATON_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
#endif
  os::thread_locals = locals_;
  Exceptions& now = exceptions();
  now.caught = caught_exceptions_;
  now.uncaught = uncaught_exceptions_;
  errno = errno_;
}

void Fiber::run(Fiber& from, Fiber& to) noexcept {
  from.errno_ = errno;
  from.locals_ = os::thread_locals;
  const Exceptions& now = exceptions();
  from.caught_exceptions_ = now.caught;
  from.uncaught_exceptions_ = now.uncaught;
#ifdef BATON_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
#ifdef BATON_TSAN
  __tsan_switch_to_fiber(to.tsan_, 0);
#endif
#if defined(__x86_64__)
  baton_sim_switch(&from.stack_pointer_, to.stack_pointer_);
#else
  ::swapcontext(&from.context_->registers, &to.context_->registers);
#endif
  from.arrived();
}

}  // namespace baton::sim
