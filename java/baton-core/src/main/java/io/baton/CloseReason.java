package io.baton;

/** Why a channel was closed. */
public enum CloseReason {
  /** The program called {@link AsynchChannel#close}. */
  REQUESTED,
  /** An idle time-out passed, and the handler does not override {@code onTimeout}. */
  IDLE,
  /** A method of the handler threw; {@link OpClose#getError} is the exception. */
  HANDLER_FAILED,
  /** The Demultiplexor stopped. */
  STOPPED,
  /** The engine of the lane failed; {@link OpClose#getError} is its error. */
  ENGINE_FAILED
}
