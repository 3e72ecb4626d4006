package io.baton;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * How many operations and bytes a channel has pending, against its limits, and whether it takes
 * more. Any thread claims; only the lane's thread finishes.
 */
final class Admission {
  private static final long CLOSED = 1L << 63;
  private static final VarHandle STATE;
  private static final VarHandle FINISHED;
  private static final VarHandle CLAIMED_BYTES;
  private static final VarHandle FINISHED_BYTES;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      STATE = lookup.findVarHandle(Admission.class, "state", long.class);
      FINISHED = lookup.findVarHandle(Admission.class, "finished", long.class);
      CLAIMED_BYTES = lookup.findVarHandle(Admission.class, "claimedBytes", long.class);
      FINISHED_BYTES = lookup.findVarHandle(Admission.class, "finishedBytes", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    // The JVM needs memory for the first call, and a close may come when there is none.
    new Admission(null).close();
  }

  private final Settings settings;

  // Number of operations ever claimed, and the bit CLOSED. One word, so that no operation slips in
  // after the close has counted them.
  private volatile long state;
  private volatile long finished;
  private volatile long claimedBytes;
  private volatile long finishedBytes;

  /** Bytes of writes that were not started after all. Guarded by this, but for reading. */
  volatile long unclaimedBytes;

  Admission(Settings settings) {
    this.settings = settings;
  }

  boolean isOpen() {
    return state >= 0;
  }

  /** Operations that are started and whose handlers were not entered yet. */
  long pending() {
    // In this order, so that the difference is never negative.
    long done = finished;
    return (state & ~CLOSED) - done;
  }

  /** Operations that were ever claimed. */
  long claimed() {
    return state & ~CLOSED;
  }

  long queuedBytes() {
    // In this order, as in pending().
    long done = finishedBytes + unclaimedBytes;
    return claimedBytes - done;
  }

  /** A number for one more operation. */
  long claim() {
    long most = settings.operationsMax();
    while (true) {
      // Read first, so that the difference is never negative.
      long done = finished;
      long seen = state;
      if (seen < 0) {
        throw new ChannelClosedException(
            "this channel is closed, so no operation can be started on it; open another one");
      }
      if (seen - done >= most) {
        throw new LimitReachedException(
            "operations_max of this channel is "
                + most
                + ", and as many are pending; start again after a completion, or raise it");
      }
      if (STATE.weakCompareAndSet(this, seen, seen + 1)) {
        return seen + 1;
      }
    }
  }

  /** Room in the queue of writes; a write alone may be larger than the bound. */
  void claimBytes(long bytes) {
    long most = settings.writeBytesMax();
    while (true) {
      long done = finishedBytes + unclaimedBytes;
      long seen = claimedBytes;
      long queued = seen - done;
      if (queued > 0 && queued + bytes > most) {
        throw new LimitReachedException(
            "write_bytes_max of this channel is "
                + most
                + ", "
                + queued
                + " bytes are queued, and "
                + bytes
                + " more do not fit; write again after a completion, or raise it");
      }
      if (CLAIMED_BYTES.weakCompareAndSet(this, seen, seen + bytes)) {
        return;
      }
    }
  }

  /** The lane's thread: a write is done. */
  void finishedBytes(long bytes) {
    // As in finished().
    FINISHED_BYTES.setRelease(this, finishedBytes + bytes);
  }

  /** The lane's thread: the handler of an operation is about to be entered. */
  void finished() {
    // One writer; a reader of an older value only counts one operation too many.
    FINISHED.setRelease(this, finished + 1);
  }

  /** The lane's thread: the handler could not be entered, and will be later. */
  void notFinished() {
    // A claim in between may be one too many.
    FINISHED.setRelease(this, finished - 1);
  }

  /** True for the first caller. */
  boolean close() {
    long before = (long) STATE.getAndBitwiseOr(this, CLOSED);
    return before >= 0;
  }
}
