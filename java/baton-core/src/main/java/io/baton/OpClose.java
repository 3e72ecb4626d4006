package io.baton;

/**
 * The end of a channel, and its last operation.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}.
 */
public final class OpClose extends Operation {
  private CloseReason reason;

  OpClose(AsynchChannel channel) {
    super(channel);
  }

  /** The reason for the close that begins. */
  OpClose because(CloseReason why, Throwable cause) {
    reason = why;
    error = cause;
    return this;
  }

  /**
   * Why the channel was closed. The first reason counts if there were several.
   *
   * @return never null
   */
  public CloseReason getReason() {
    return reason;
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onClosed(this);
  }
}
