package io.baton;

import java.io.IOException;

/**
 * An operation was cancelled before it was done; {@link Operation#getBytesCompleted} bytes had been
 * moved.
 */
public final class OperationCancelledException extends IOException {
  private static final long serialVersionUID = 1;

  OperationCancelledException(String message) {
    super(message);
  }
}
