package io.baton.nio2;

import java.nio.ByteBuffer;
import java.nio.channels.CompletionHandler;
import java.util.function.LongFunction;

/**
 * A read or a write with the buffers of the program.
 *
 * <p>One buffer is lent to Baton unchanged. An operation of a future gets a view instead: a program
 * may go on with its buffer as soon as it has cancelled the future. Several buffers are read or
 * written through one block on the heap, which is garbage when the operation completes.
 */
final class Move<V, A> extends Pending<V, A> {
  /** The most bytes of an operation where Baton would move a whole buffer. */
  private static final int PIECE = 64 * 1024;

  /** Less, for a read may wait for long with its block. */
  private static final int READ_PIECE = 16 * 1024;

  static final LongFunction<Integer> ONE_BUFFER = bytes -> (int) bytes;
  static final LongFunction<Long> BUFFERS = Long::valueOf;

  private LongFunction<V> result;
  // The memory for Baton; null if there is nothing to move.
  private ByteBuffer lent;
  // The program's: either one buffer with its limit of before, or several.
  private ByteBuffer buffer;
  private int begin;
  private int limit;
  private ByteBuffer[] buffers;
  private boolean reads;
  // Bytes that were moved before Baton's operation.
  private long before;

  // Where it goes for the next operation, or null: it is garbage then.
  private Spare spare;

  /**
   * A place for one move that the next operation of its direction takes, so that a message makes no
   * garbage of it. For the lane's thread of a group whose handlers run there.
   */
  static final class Spare {
    private Move<?, ?> move;

    /** For an operation that this thread starts now. */
    @SuppressWarnings("unchecked") // it is prepared with values of these types
    <V, A> Move<V, A> take(
        Group group,
        A attachment,
        CompletionHandler<V, ? super A> handler,
        LongFunction<V> result) {
      Move<V, A> taken = (Move<V, A>) move;
      if (taken == null) {
        taken = new Move<>(group, attachment, handler, result);
        taken.spare = this;
        return taken;
      }
      taken.prepare(attachment, handler);
      taken.result = result;
      move = null;
      return taken;
    }
  }

  Move(Group group, A attachment, CompletionHandler<V, ? super A> handler, LongFunction<V> result) {
    super(group, attachment, handler);
    this.result = result;
  }

  Move(Group group, Cancellation cancellation, LongFunction<V> result) {
    super(group, cancellation);
    this.result = result;
  }

  // -- which buffers -----------------------------------------------------------------------------

  Move<V, A> into(ByteBuffer dst) {
    return use(dst, dst.limit());
  }

  /** timed: a short piece, so that the time-out ends writes without progress, not long ones. */
  Move<V, A> from(ByteBuffer src, boolean timed) {
    return use(src, timed ? Math.min(src.limit(), src.position() + PIECE) : src.limit());
  }

  private Move<V, A> use(ByteBuffer one, int end) {
    buffer = one;
    begin = one.position();
    limit = one.limit();
    if (one.hasRemaining()) {
      lent = future() == null && end == limit ? one : one.duplicate().limit(end);
    }
    return this;
  }

  Move<V, A> into(ByteBuffer[] dsts) {
    buffers = dsts;
    reads = true;
    int room = room(dsts, READ_PIECE);
    lent = room == 0 ? null : ByteBuffer.allocate(room);
    return this;
  }

  Move<V, A> from(ByteBuffer[] srcs) {
    buffers = srcs;
    int room = room(srcs, PIECE);
    if (room > 0) {
      lent = ByteBuffer.allocate(room);
      for (ByteBuffer src : srcs) {
        put(lent, src.duplicate());
      }
      lent.flip();
    }
    return this;
  }

  private static int room(ByteBuffer[] buffers, int most) {
    long room = 0;
    for (ByteBuffer one : buffers) {
      room += one.remaining();
    }
    return (int) Math.min(room, most);
  }

  /** Moves as much as fits. */
  private static void put(ByteBuffer to, ByteBuffer from) {
    int end = from.limit();
    from.limit(from.position() + Math.min(to.remaining(), from.remaining()));
    to.put(from);
    from.limit(end);
  }

  // -- from start to end -------------------------------------------------------------------------

  ByteBuffer lent() {
    return lent;
  }

  /** Nothing was to be moved, or the stream has ended: bytes is 0 or -1. */
  void doneAtOnce(int bytes) {
    succeed(result.apply(bytes));
  }

  /** Whether a read of so many bytes had room for no more. */
  boolean isFilledBy(long bytes) {
    return bytes == (buffer != null ? limit - begin : lent.capacity());
  }

  /** Baton's operation is for the rest. */
  void begun(int bytes) {
    before = bytes;
  }

  boolean isBegun() {
    return before > 0;
  }

  /** moved: by Baton's operation, also if it failed; error: null if it did not. */
  void done(long moved, Throwable error, boolean atEnd) {
    long bytes = before + moved;
    before = 0;
    if (!isCancelled()) {
      takeOver((int) bytes);
    }
    if (error != null) {
      fail(error);
    } else {
      V value;
      try {
        value = result.apply(atEnd ? -1 : bytes);
      } catch (OutOfMemoryError e) {
        fail(e);
        return;
      }
      succeed(value);
    }
  }

  @Override
  void told() {
    before = 0;
    if (spare != null) {
      lent = null;
      buffer = null;
      buffers = null;
      reads = false;
      spare.move = this;
    }
  }

  /** Leaves the program's buffers as NIO.2 says. */
  private void takeOver(int bytes) {
    if (buffer != null) {
      buffer.limit(limit).position(begin + bytes);
    } else if (reads) {
      lent.position(0).limit(bytes);
      for (ByteBuffer dst : buffers) {
        put(dst, lent);
      }
    } else {
      skip(bytes);
    }
  }

  private void skip(int bytes) {
    int left = bytes;
    for (ByteBuffer src : buffers) {
      int part = Math.min(left, src.remaining());
      src.position(src.position() + part);
      left -= part;
    }
  }
}
