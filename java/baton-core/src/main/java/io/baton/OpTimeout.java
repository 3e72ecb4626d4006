package io.baton;

/**
 * A timer or an idle time-out.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}.
 */
public final class OpTimeout extends Operation {
  /** The time-out that has passed. */
  public enum Kind {
    /** The time of {@link AsynchChannel#startTimer}. */
    TIMER,
    /** Nothing was read for the time of {@link AsynchChannel#setReadIdleTimeout}. */
    READ_IDLE,
    /** Nothing was written for the time of {@link AsynchChannel#setWriteIdleTimeout}. */
    WRITE_IDLE
  }

  private final Kind kind;

  OpTimeout(AsynchChannel channel, Kind kind) {
    super(channel);
    this.kind = kind;
  }

  /**
   * The time-out that has passed.
   *
   * @return never null
   */
  public Kind getKind() {
    return kind;
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onTimeout(this);
  }

  @Override
  void expired() {
    channel.core.timerExpired(this);
  }
}
