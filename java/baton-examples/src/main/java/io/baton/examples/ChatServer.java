package io.baton.examples;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.LimitReachedException;
import io.baton.OpAccept;
import io.baton.OpClose;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A chat: each line goes to all members. Lines are read whole, other connections are written to
 * from any lane, and a member that reads too slowly is dropped because its queue is full.
 *
 * <p>Usage: {@code ChatServer [port]}
 */
public final class ChatServer implements AsynchHandler {
  private static final byte[] NEW_LINE = {'\n'};

  private final Set<AsynchChannel> members = ConcurrentHashMap.newKeySet();

  private ChatServer() {}

  /** One member. */
  private final class Member implements AsynchHandler {
    private final ByteBuffer buffer = ByteBuffer.allocate(1024);

    void readLine(AsynchChannel channel) {
      try {
        channel.readUntil(buffer, NEW_LINE);
      } catch (IllegalStateException e) {
        // Messages to it failed, or were too many, a moment ago. An exception would close the
        // channel whose handler this is, and that may be the listener.
        channel.close();
      }
    }

    @Override
    public void onReadCompleted(OpRead opRead) {
      AsynchChannel channel = opRead.getAsynchChannel();
      if (opRead.getError() != null) {
        channel.close();
        return;
      }
      byte[] line = new byte[opRead.getDelimiterEnd()];
      opRead.getBuffer().get(line);
      say(line);
      // The bytes after the line begin the next one.
      buffer.compact();
      readLine(channel);
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      if (opWrite.getError() != null) {
        opWrite.getAsynchChannel().close();
      }
    }

    @Override
    public void onClosed(OpClose opClose) {
      members.remove(opClose.getAsynchChannel());
    }
  }

  private void say(byte[] line) {
    for (AsynchChannel member : members) {
      try {
        member.write(ByteBuffer.wrap(line));
      } catch (LimitReachedException e) {
        member.close();
      } catch (IllegalStateException e) {
        // Closed a moment ago.
        members.remove(member);
      }
    }
  }

  @Override
  public void onAcceptCompleted(OpAccept opAccept) throws Exception {
    if (opAccept.getError() != null) {
      return;
    }
    Member member = new Member();
    AsynchChannel channel = opAccept.open(member);
    members.add(channel);
    member.readLine(channel);
    opAccept.getAsynchChannel().accept();
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
    AsynchChannel listener = demultiplexor.listen(address, new ChatServer());
    listener.accept();
    return listener;
  }

  /**
   * Runs until it is killed.
   *
   * @param arguments the port, 7008 by default
   * @throws Exception if the system refuses
   */
  public static void main(String[] arguments) throws Exception {
    int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 7008;
    AsynchChannel listener = start(Demultiplexor.open(), new InetSocketAddress(port));
    System.out.println("chat on " + listener.getLocalAddress());
  }
}
