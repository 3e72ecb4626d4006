// The owner of a precompiled header has to have a source.
int main() {}
