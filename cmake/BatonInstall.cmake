# Placeholder until the package files follow.
install(TARGETS baton baton_static)
