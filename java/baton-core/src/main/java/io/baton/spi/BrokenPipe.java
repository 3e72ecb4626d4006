package io.baton.spi;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;

/**
 * Tells EPIPE from other errors of a write: the peer had ended its stream before, so reads get the
 * rest of it and its end. java.nio tells an error by the system's words for it alone, and these may
 * be of any language, so a pipe is asked for them.
 */
final class BrokenPipe {
  private static final String MESSAGE = ask();

  private BrokenPipe() {}

  static boolean isMessageOf(Throwable error) {
    return MESSAGE.equals(error.getMessage());
  }

  private static String ask() {
    try {
      Pipe pipe = Pipe.open();
      pipe.source().close();
      try (Pipe.SinkChannel sink = pipe.sink()) {
        sink.write(ByteBuffer.allocate(1));
      }
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
    return "Broken pipe";
  }
}
