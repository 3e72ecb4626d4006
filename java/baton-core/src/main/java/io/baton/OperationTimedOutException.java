package io.baton;

import java.io.IOException;

/**
 * The deadline of an operation passed before it was done; {@link Operation#getBytesCompleted} bytes
 * had been moved.
 */
public final class OperationTimedOutException extends IOException {
  private static final long serialVersionUID = 1;

  OperationTimedOutException(String message) {
    super(message);
  }
}
