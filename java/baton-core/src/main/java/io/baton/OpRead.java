package io.baton;

import io.baton.spi.Endpoint;
import java.io.EOFException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;

/**
 * A completed read.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}. The buffer is the program's again, except
 * a pooled one: that goes back to its pool when the handler returns, unless {@link #takePooled} was
 * called.
 */
public final class OpRead extends Operation {
  /** The condition that ends the read. */
  enum Until {
    SOMETHING,
    FULL,
    DELIMITER
  }

  ByteBuffer buffer;
  PooledBuffer block;
  boolean pooled;
  Until until = Until.SOMETHING;
  byte[] delimiter;
  int delimiterEnd = -1;
  int begin;
  // For a file; negative: at the file's own position.
  long position = -1;
  SocketAddress sender;

  OpRead(AsynchChannel channel) {
    super(channel);
  }

  /**
   * The buffer, ready to be taken from: its position is where the first byte of this read is, its
   * limit is behind the last. After a read-until the position is 0, so that what was in the buffer
   * before is included. {@link AsynchChannel#write} takes it unchanged.
   *
   * @return the buffer of the start; of a pooled read a block of the pool, or null if it moved
   *     nothing
   */
  public ByteBuffer getBuffer() {
    return buffer;
  }

  /**
   * Where the delimiter of a read-until ends.
   *
   * @return index into the buffer, or -1 if this is no read-until or the delimiter was not found
   */
  public int getDelimiterEnd() {
    return delimiterEnd;
  }

  /**
   * The sender of the datagram.
   *
   * @return null for streams, files and datagram channels with a fixed peer
   */
  public SocketAddress getSender() {
    return sender;
  }

  /**
   * Keeps the block of a pooled read beyond the handler.
   *
   * @return now the caller's, to be given back by {@link PooledBuffer#close} or {@link
   *     AsynchChannel#write(PooledBuffer)}
   * @throws IllegalStateException if there is no block: not pooled, nothing read, or taken before
   */
  public PooledBuffer takePooled() {
    if (block == null) {
      throw new IllegalStateException(
          "takePooled: there is no block: the read was not a pooled one, or it brought nothing, or"
              + " its block was taken before");
    }
    PooledBuffer taken = block;
    block = null;
    return taken;
  }

  /** For a future: the block of a pooled read, or null. */
  PooledBuffer takeIfAny() {
    return block == null ? null : takePooled();
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onReadCompleted(this);
  }

  /** Whether there is nothing to do for it before there is input. */
  boolean needsInput() {
    return until != Until.DELIMITER && !hasDeadline;
  }

  /** A read-until whose delimiter is in the buffer already, or that has no room to look further. */
  boolean isSatisfied() {
    return until == Until.DELIMITER && (find(0) || hasNoRoom());
  }

  /** Adds the bytes of a transfer (negative: the end). True if more is to be read. */
  boolean advance(int moved) {
    if (moved < 0) {
      if (channel.is(Endpoint.Kind.DATAGRAM)) {
        // The answer of java.nio for an empty one.
        return until == Until.FULL;
      }
      if (until != Until.SOMETHING) {
        error =
            new EOFException(
                (channel.core.file == null ? "the peer ended the stream" : "the file ended")
                    + " after "
                    + bytes
                    + " bytes, before the "
                    + (until == Until.FULL ? "buffer was full" : "delimiter came"));
      }
      return false;
    }
    bytes += moved;
    return switch (until) {
      case SOMETHING -> false;
      case FULL -> buffer.hasRemaining();
      case DELIMITER -> !find(buffer.position() - moved) && !hasNoRoom();
    };
  }

  private boolean hasNoRoom() {
    if (buffer.hasRemaining()) {
      return false;
    }
    error =
        new DelimiterNotFoundException(
            "the buffer of " + buffer.limit() + " bytes is full, and the delimiter is not in it");
    return true;
  }

  // Searches the bytes since `from` for the delimiter; it may begin before.
  private boolean find(int from) {
    int end = buffer.position();
    for (int at = Math.max(0, from - delimiter.length + 1); at + delimiter.length <= end; at++) {
      int same = 0;
      while (same < delimiter.length && buffer.get(at + same) == delimiter[same]) {
        same++;
      }
      if (same == delimiter.length) {
        delimiterEnd = at + same;
        return true;
      }
    }
    return false;
  }

  @Override
  void settle() {
    if (buffer != null) {
      buffer.limit(buffer.position()).position(until == Until.DELIMITER ? 0 : begin);
    }
    if (pooled && bytes == 0) {
      returnBlock();
    }
  }

  void returnBlock() {
    if (block != null) {
      block.close();
      block = null;
    }
    if (pooled) {
      buffer = null;
    }
  }

  @Override
  void recycle() {
    super.recycle();
    returnBlock();
    buffer = null;
    pooled = false;
    until = Until.SOMETHING;
    delimiter = null;
    delimiterEnd = -1;
    position = -1;
    sender = null;
    channel.core.reads.cache.put(this);
  }
}
