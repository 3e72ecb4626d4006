package io.baton.nativeengine;

import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.spi.AbstractSelectableChannel;
import java.nio.channels.spi.AbstractSelector;
import java.util.Set;

/**
 * Has a wake-up follow an interrupt of the lane's thread while it waits. The JDK tells of
 * interrupts only selectors and channels, so this is a selector that selects nothing.
 */
final class Interruption extends AbstractSelector {
  private final Runnable wake;

  Interruption(Runnable wake) {
    super(null);
    this.wake = wake;
    // The JDK needs memory for the first one, and later there may be none.
    beginWait();
    endWait();
  }

  /** An interrupt wakes from now on; one that came before does at once. */
  void beginWait() {
    begin();
  }

  void endWait() {
    end();
  }

  @Override
  public Selector wakeup() {
    wake.run();
    return this;
  }

  @Override
  protected void implCloseSelector() {}

  @Override
  protected SelectionKey register(AbstractSelectableChannel channel, int operations, Object with) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Set<SelectionKey> keys() {
    return Set.of();
  }

  @Override
  public Set<SelectionKey> selectedKeys() {
    return Set.of();
  }

  @Override
  public int selectNow() {
    throw new UnsupportedOperationException();
  }

  @Override
  public int select(long timeout) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int select() {
    throw new UnsupportedOperationException();
  }
}
