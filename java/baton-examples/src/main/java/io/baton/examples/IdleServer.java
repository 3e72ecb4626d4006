package io.baton.examples;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.CloseReason;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpClose;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.net.InetSocketAddress;
import java.time.Duration;

/**
 * Idle time-outs and pooled reads: an echo server whose connections hold no memory while they are
 * silent, and are closed when they are silent for too long.
 *
 * <p>Usage: {@code IdleServer [port [seconds]]}
 */
public final class IdleServer implements AsynchHandler {
  private final Duration idle;

  private IdleServer(Duration idle) {
    this.idle = idle;
  }

  /** All connections; their state is in their operations. */
  private static final class Connections implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead opRead) {
      AsynchChannel channel = opRead.getAsynchChannel();
      // Closed: data came at the moment when the connection was idle for long enough. A block that
      // was taken for a write that is refused would be lost to the pool.
      if (opRead.getError() != null || opRead.getBytesCompleted() == 0 || !channel.isOpen()) {
        channel.close();
        return;
      }
      // The block goes back to its pool when it is written.
      channel.write(opRead.takePooled());
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      AsynchChannel channel = opWrite.getAsynchChannel();
      if (opWrite.getError() != null) {
        channel.close();
      } else if (channel.isOpen()) {
        channel.readPooled();
      }
    }

    // onTimeout is not overridden: an idle connection is closed, with this reason.
    @Override
    public void onClosed(OpClose opClose) {
      if (opClose.getReason() == CloseReason.IDLE) {
        System.out.println("closed a silent connection");
      }
    }
  }

  @Override
  public void onAcceptCompleted(OpAccept opAccept) throws Exception {
    if (opAccept.getError() != null) {
      return;
    }
    AsynchChannel channel = opAccept.open(new Connections());
    channel.setReadIdleTimeout(idle);
    channel.readPooled();
    opAccept.getAsynchChannel().accept();
  }

  /**
   * A running server.
   *
   * @param demultiplexor whose threads serve it
   * @param address where to listen
   * @param idle how long a connection may be silent
   * @return its listener
   * @throws Exception if the system refuses
   */
  public static AsynchChannel start(
      Demultiplexor demultiplexor, InetSocketAddress address, Duration idle) throws Exception {
    AsynchChannel listener = demultiplexor.listen(address, new IdleServer(idle));
    listener.accept();
    return listener;
  }

  /**
   * Runs until it is killed.
   *
   * @param arguments the port, 7009 by default, and the seconds, 30 by default
   * @throws Exception if the system refuses
   */
  public static void main(String[] arguments) throws Exception {
    int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 7009;
    int seconds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 30;
    AsynchChannel listener =
        start(Demultiplexor.open(), new InetSocketAddress(port), Duration.ofSeconds(seconds));
    System.out.println("echo on " + listener.getLocalAddress());
  }
}
