package io.baton;

/**
 * The program's handlers of completed operations.
 *
 * <p><b>Threads:</b> all methods are called by the lane of the channel, one of the library's
 * threads, and never two at a time for one channel (J-02). The same handler object may serve
 * several channels; then it may be in use by several lanes. A method that blocks holds up the other
 * channels of its lane.
 *
 * <p><b>Exceptions:</b> an exception of a method closes the channel with the reason {@link
 * CloseReason#HANDLER_FAILED} and goes to the Demultiplexor's exception handler. The lane
 * continues.
 *
 * <p>The names are those of the article "Comparing Two High-Performance I/O Design Patterns"
 * (J-01).
 */
public interface AsynchHandler {

  /**
   * A read is complete.
   *
   * @param opRead valid until this method returns
   * @throws Exception closes the channel
   */
  default void onReadCompleted(OpRead opRead) throws Exception {
    throw missing("onReadCompleted", "a read");
  }

  /**
   * A write, a {@link AsynchChannel#shutdownOutput} or a {@link AsynchChannel#sync} is complete.
   *
   * @param opWrite valid until this method returns
   * @throws Exception closes the channel
   */
  default void onWriteCompleted(OpWrite opWrite) throws Exception {
    throw missing("onWriteCompleted", "a write");
  }

  /**
   * An accept is complete.
   *
   * @param opAccept valid until this method returns
   * @throws Exception closes the listening channel
   */
  default void onAcceptCompleted(OpAccept opAccept) throws Exception {
    throw missing("onAcceptCompleted", "an accept");
  }

  /**
   * A connect is complete.
   *
   * @param opConnect valid until this method returns
   * @throws Exception closes the channel
   */
  default void onConnectCompleted(OpConnect opConnect) throws Exception {
    throw missing("onConnectCompleted", "a connect");
  }

  /**
   * A timer is over, or the channel was idle. An idle channel is closed unless this method is
   * overridden.
   *
   * @param opTimeout valid until this method returns
   * @throws Exception closes the channel
   */
  default void onTimeout(OpTimeout opTimeout) throws Exception {
    if (opTimeout.getKind() == OpTimeout.Kind.TIMER) {
      throw missing("onTimeout", "a timer");
    }
    opTimeout.channel.core.close(CloseReason.IDLE, null);
  }

  /**
   * The Demultiplexor has begun a graceful stop, which waits for this channel to be closed. Does
   * nothing unless overridden.
   *
   * @param channel still open
   * @throws Exception closes the channel
   */
  default void onStopping(AsynchChannel channel) throws Exception {}

  /**
   * The channel is closed, and nothing of it comes after this. Does nothing unless overridden.
   *
   * @param opClose says why
   * @throws Exception goes to the Demultiplexor's exception handler
   */
  default void onClosed(OpClose opClose) throws Exception {}

  private UnsupportedOperationException missing(String method, String what) {
    return new UnsupportedOperationException(
        getClass().getName()
            + " was called for "
            + what
            + ", but does not override "
            + method
            + "; do so");
  }
}
