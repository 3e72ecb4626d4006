package io.baton;

/** An operation was started on a channel that is closing or closed. */
public final class ChannelClosedException extends IllegalStateException {
  private static final long serialVersionUID = 1;

  ChannelClosedException(String message) {
    super(message);
  }
}
