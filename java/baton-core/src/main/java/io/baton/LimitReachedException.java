package io.baton;

/**
 * A limit of the channel is reached; nothing was started. Start again after a completion, or raise
 * the limit.
 */
public final class LimitReachedException extends IllegalStateException {
  private static final long serialVersionUID = 1;

  LimitReachedException(String message) {
    super(message);
  }
}
