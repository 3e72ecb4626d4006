package io.baton.spi;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.Pipe;

/**
 * Tells EPIPE from other errors of a write: the peer had ended its stream before, so reads get the
 * rest of it and its end. java.nio tells an error by the system's words for it alone, and these may
 * be of any language, so a pipe is asked for them.
 */
final class BrokenPipe {
  private static final String IN_ENGLISH = "Broken pipe";
  private static volatile String message; // null until the system has told it

  private BrokenPipe() {}

  static boolean isMessageOf(Throwable error) {
    learn();
    String told = message;
    return (told == null ? IN_ENGLISH : told).equals(error.getMessage());
  }

  /**
   * Asks the system, once it has a descriptor for that; best before a write fails for the first
   * time.
   */
  static void learn() {
    if (message != null) {
      return;
    }
    boolean interrupted = Thread.interrupted(); // would close the pipe
    try {
      Pipe pipe = Pipe.open();
      try (Pipe.SinkChannel sink = pipe.sink()) {
        pipe.source().close();
        message = messageOfWrite(sink);
      }
    } catch (IOException | OutOfMemoryError e) {
      // No descriptor, or no memory: asked again when an endpoint is made or a write fails.
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static String messageOfWrite(Pipe.SinkChannel sink) throws IOException {
    try {
      sink.write(ByteBuffer.allocate(1));
      return null;
    } catch (ClosedChannelException e) {
      throw e; // this thread was interrupted meanwhile
    } catch (IOException e) {
      return e.getMessage();
    }
  }
}
