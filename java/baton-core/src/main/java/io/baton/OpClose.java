package io.baton;

/**
 * The end of a channel, and its last operation.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}.
 */
public final class OpClose extends Operation {
  // Names one, so that the JVM knows the class before a close finds no memory for it.
  CloseReason reason = CloseReason.REQUESTED;

  OpClose(AsynchChannel channel) {
    super(channel);
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
