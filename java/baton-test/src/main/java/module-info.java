/** The written contract as a test suite: extend it to test an engine. */
module io.baton.test {
  requires transitive io.baton.core;
  requires java.management;
  requires jdk.management;
  requires transitive org.junit.jupiter.api;

  exports io.baton.test;
}
