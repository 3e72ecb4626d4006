package io.baton.test;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.ChannelClosedException;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.nio.ByteBuffer;

/** Echoes messages of one connection through one direct buffer. */
public final class DirectEcho implements AsynchHandler {
  /** Bytes of a message, and of the buffer. */
  public static final int SIZE = 512;

  private final ByteBuffer buffer = ByteBuffer.allocateDirect(SIZE);

  /** For one connection. */
  public DirectEcho() {}

  /**
   * Waits for the first message.
   *
   * @param channel of the connection, with this handler
   */
  public void start(AsynchChannel channel) {
    channel.read(buffer.clear());
  }

  @Override
  public void onReadCompleted(OpRead opRead) {
    if (opRead.getError() != null || opRead.getBytesCompleted() == 0) {
      opRead.getAsynchChannel().close();
    } else {
      opRead.getAsynchChannel().write(opRead.getBuffer());
    }
  }

  @Override
  public void onWriteCompleted(OpWrite opWrite) {
    try {
      start(opWrite.getAsynchChannel());
    } catch (ChannelClosedException e) {
      // The test has its bytes, and closes the demultiplexor.
    }
  }
}
