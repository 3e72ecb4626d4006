// What is going on, as text.
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::copy_out_of;
using baton::capi::Inside;

std::size_t baton_explain(baton_proactor* proactor, char* text, std::size_t size) {
  const Inside inside;
  return copy_out_of([proactor] { return proactor->proactor.explain(); }, text, size);
}

std::size_t baton_statistics(baton_proactor* proactor, char* text, std::size_t size) {
  const Inside inside;
  return copy_out_of([proactor] { return proactor->proactor.statistics().to_string(); }, text,
                     size);
}

std::size_t baton_pending(baton_proactor* proactor, std::int64_t age_ns, char* text,
                          std::size_t size) {
  const Inside inside;
  const baton::Duration age{age_ns};
  return copy_out_of([&] { return proactor->proactor.pending(age).to_string(); }, text, size);
}
