/* The header is plain C99 and needs nothing else. */
#include <baton.h>

baton_config a_config = BATON_CONFIG_INIT;
baton_operation an_operation = BATON_OPERATION_INIT;
baton_state a_state = BATON_STATE_INIT;

/* Layouts are part of the interface. */
typedef char config_size[sizeof(baton_config) == 16 + sizeof(char*) ? 1 : -1];
typedef char endpoint_size[sizeof(baton_endpoint) == 120 ? 1 : -1];
typedef char completion_size[sizeof(baton_completion) == 32 ? 1 : -1];
typedef char state_size[sizeof(baton_state) == 24 ? 1 : -1];

int main(void) {
  return a_config.size == sizeof(baton_config) && an_operation.size == sizeof(baton_operation) &&
                 a_state.size == sizeof(baton_state) && baton_version()[0] != '\0'
             ? 0
             : 1;
}
