/** Completion-based I/O: the interface, and the engine {@code nio} on selectors. */
module io.baton.core {
  exports io.baton;
  exports io.baton.spi;

  uses io.baton.spi.EngineProvider;

  provides io.baton.spi.EngineProvider with
      io.baton.nio.NioEngineProvider;
}
