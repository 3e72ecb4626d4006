package io.baton;

/**
 * The part that all operations have in common.
 *
 * <p><b>Threads and ownership:</b> an operation object is the library's. It is valid inside the
 * handler that it is given to, and used again as soon as that handler has returned: keep its
 * values, not the object.
 */
public abstract sealed class Operation extends Timed
    permits OpRead, OpWrite, OpAccept, OpConnect, OpTimeout, OpClose {

  final AsynchChannel channel;
  OperationFuture<?> future;

  long activation;
  Throwable error;
  // Why it shall end early: the error that it will have, unless it is done before.
  Throwable endEarly;
  long bytes;
  // The side of the channel that keeps it in order, or null, and then its own transfer.
  Side<?> side;
  ChannelTransfer own;
  boolean hasDeadline;
  boolean begun;
  boolean settled;
  boolean startedOutside;
  // The stack ended inside its start; and the next one of the lane's list of these.
  StackOverflowError broken;
  Operation nextBroken;

  Operation(AsynchChannel channel) {
    this.channel = channel;
  }

  /**
   * Whether and how the operation failed.
   *
   * @return null if it succeeded
   */
  public final Throwable getError() {
    return error;
  }

  /**
   * How many bytes were moved, also by an operation that failed later.
   *
   * @return 0 or more; 0 without an error is the end of the stream for {@link OpRead} on a stream
   */
  public final long getBytesCompleted() {
    return bytes;
  }

  /**
   * The channel that it was started on.
   *
   * @return never null
   */
  public final AsynchChannel getAsynchChannel() {
    return channel;
  }

  /**
   * The number that the start returned, and that {@link AsynchChannel#cancel} takes.
   *
   * @return unique for the channel
   */
  public final long getActivation() {
    return activation;
  }

  /** Calls the handler's method for this kind. */
  abstract void call(AsynchHandler handler) throws Exception;

  /** Makes the buffers ready for the handler. */
  void settle() {}

  /** Clears the last use and returns to its pool. */
  void recycle() {
    future = null;
    error = null;
    endEarly = null;
    bytes = 0;
    side = null;
    begun = false;
    settled = false;
  }

  @Override
  final void run() {
    if (begun) {
      channel.core.deliver(this);
    } else {
      channel.core.begin(this);
    }
  }

  @Override
  void expired() {
    // Without the number of bytes: the engine may have moved more of them.
    channel.core.endEarly(
        this, new OperationTimedOutException("the deadline of this operation has passed"));
  }
}
