package io.baton;

import java.net.SocketAddress;
import java.nio.ByteBuffer;

/**
 * A completed write. A write is complete when everything is written, or by an error.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}. The buffer is the program's again.
 */
public final class OpWrite extends Operation {
  /** The kind of write. */
  enum What {
    BYTES,
    END_OF_OUTPUT,
    SYNC
  }

  What what = What.BYTES;
  ByteBuffer buffer;
  PooledBuffer block;
  SocketAddress address;
  // For a file; negative: at the file's own position.
  long position = -1;
  long charge;

  OpWrite(AsynchChannel channel) {
    super(channel);
  }

  /**
   * The buffer of the start; its position is behind the last byte that was written.
   *
   * @return null if there was none: {@link AsynchChannel#shutdownOutput}, {@link
   *     AsynchChannel#sync}, and a pooled block, which is back in its pool
   */
  public ByteBuffer getBuffer() {
    return buffer;
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onWriteCompleted(this);
  }

  void settle() {
    channel.core.admission.finishedBytes(charge);
    if (block != null) {
      block.written();
      block = null;
      buffer = null;
    }
  }

  @Override
  void recycle() {
    super.recycle();
    what = What.BYTES;
    buffer = null;
    address = null;
    position = -1;
    charge = 0;
    channel.core.writes.cache.put(this);
  }
}
