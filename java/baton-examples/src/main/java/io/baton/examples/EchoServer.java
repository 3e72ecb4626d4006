package io.baton.examples;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpAccept;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;

/**
 * The echo server of the article, completed: one handler object for each connection.
 *
 * <p>Usage: {@code EchoServer [port]}
 */
public final class EchoServer implements AsynchHandler {
  private EchoServer() {}

  /** One connection. */
  static final class EchoServerProtocol implements AsynchHandler {
    private final AsynchChannel achannel;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(8192);

    EchoServerProtocol(Demultiplexor demultiplexor, SelectableChannel channel) throws Exception {
      achannel = new AsynchChannel(demultiplexor, this, channel);
    }

    void start() {
      achannel.read(buffer);
    }

    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() != null || opRead.getBytesCompleted() <= 0) {
        achannel.close();
        return;
      }
      achannel.write(opRead.getBuffer());
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      if (opWrite.getError() != null) {
        achannel.close();
        return;
      }
      achannel.read(buffer.clear());
    }
  }

  @Override
  public void onAcceptCompleted(OpAccept opAccept) throws Exception {
    if (opAccept.getError() != null) {
      return;
    }
    AsynchChannel listener = opAccept.getAsynchChannel();
    new EchoServerProtocol(listener.getDemultiplexor(), opAccept.getChannel()).start();
    listener.accept();
  }

  /**
   * A running server.
   *
   * @param demultiplexor whose threads serve it
   * @param address where to listen
   * @return its listener
   * @throws Exception if the system refuses
   */
  public static AsynchChannel start(Demultiplexor demultiplexor, InetSocketAddress address)
      throws Exception {
    AsynchChannel listener = demultiplexor.listen(address, new EchoServer());
    listener.accept();
    return listener;
  }

  /**
   * Runs until it is killed.
   *
   * @param arguments the port, 7007 by default
   * @throws Exception if the system refuses
   */
  public static void main(String[] arguments) throws Exception {
    int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 7007;
    AsynchChannel listener = start(Demultiplexor.open(), new InetSocketAddress(port));
    System.out.println("echo on " + listener.getLocalAddress());
  }
}
