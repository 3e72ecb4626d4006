/** NIO.2 programs on Baton, unchanged. */
@SuppressWarnings("module") // The digit belongs to the name: NIO.2.
module io.baton.nio2 {
  requires io.baton.core;

  exports io.baton.nio2;
}
