package io.baton.nio2;

import java.io.IOException;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.IllegalChannelGroupException;
import java.nio.channels.spi.AsynchronousChannelProvider;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ThreadFactory;

/**
 * Runs NIO.2 programs on Baton (J-05): start them with {@code
 * -Djava.nio.channels.spi.AsynchronousChannelProvider=io.baton.nio2.BatonProvider}.
 *
 * <p>The property {@code baton} or the variable {@code BATON} chooses the engine and its settings,
 * as for {@link io.baton.Demultiplexor}.
 *
 * <p><b>Threads:</b> any thread may call every method. A group of one thread runs handlers on the
 * thread that waits for the engine. All other groups have lanes of their own, and run handlers on
 * the threads of the group, so handlers may block there.
 */
public final class BatonProvider extends AsynchronousChannelProvider {
  private Group defaultGroup;

  /** For the JDK, which makes one when the program first uses an asynchronous channel. */
  public BatonProvider() {}

  @Override
  public AsynchronousChannelGroup openAsynchronousChannelGroup(int nThreads, ThreadFactory factory)
      throws IOException {
    Check.atLeastOne(nThreads, "nThreads");
    Check.notNull(factory, "factory");
    return Group.fixed(this, nThreads, factory);
  }

  /**
   * Opens a group that runs handlers in an executor.
   *
   * @param executor shut down when the group terminates
   * @param initialSize a hint that Baton does not need
   * @return a new group
   * @throws IOException if the engine cannot be opened
   */
  @Override
  public AsynchronousChannelGroup openAsynchronousChannelGroup(
      ExecutorService executor, int initialSize) throws IOException {
    Check.notNull(executor, "executor");
    return Group.pooled(this, executor);
  }

  @Override
  public AsynchronousServerSocketChannel openAsynchronousServerSocketChannel(
      AsynchronousChannelGroup group) throws IOException {
    return BatonServerSocketChannel.open(own(group));
  }

  @Override
  public AsynchronousSocketChannel openAsynchronousSocketChannel(AsynchronousChannelGroup group)
      throws IOException {
    return BatonSocketChannel.open(own(group));
  }

  private Group own(AsynchronousChannelGroup group) throws IOException {
    if (group == null) {
      return defaultGroup();
    }
    if (group instanceof Group own) {
      return own;
    }
    throw new IllegalChannelGroupException();
  }

  private synchronized Group defaultGroup() throws IOException {
    if (defaultGroup == null) {
      defaultGroup = Group.forAll(this);
    }
    return defaultGroup;
  }
}
