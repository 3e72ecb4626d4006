package io.baton;

/** The {@link Demultiplexor} has stopped, or is stopping and does not take this any more. */
public final class StoppedException extends IllegalStateException {
  private static final long serialVersionUID = 1;

  StoppedException(String message) {
    super(message);
  }
}
