/** Examples: each teaches one thing. */
module io.baton.examples {
  requires transitive io.baton.core;

  exports io.baton.examples;

  uses io.baton.spi.EngineProvider;
}
