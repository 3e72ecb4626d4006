package io.baton.nativeengine;

/** Why the engine cannot be had, and what helps. */
final class UnavailableException extends RuntimeException {
  private static final long serialVersionUID = 1;

  UnavailableException(String message) {
    super(message);
  }

  UnavailableException(String message, Throwable cause) {
    super(message, cause);
  }
}
