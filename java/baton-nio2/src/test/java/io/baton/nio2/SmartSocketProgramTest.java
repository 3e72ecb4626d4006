package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import io.baton.test.Patience;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.smartboot.socket.MessageProcessor;
import org.smartboot.socket.Protocol;
import org.smartboot.socket.StateMachineEnum;
import org.smartboot.socket.transport.AioQuickClient;
import org.smartboot.socket.transport.AioQuickServer;
import org.smartboot.socket.transport.AioSession;

/** smart-socket: messages with their length in front are returned unchanged. */
class SmartSocketProgramTest extends ProgramTest {
  private static final int MESSAGES = 40;
  private static final int LARGEST = 50_000;

  /** Length, then bytes. */
  private static final Protocol<byte[]> PROTOCOL =
      (ByteBuffer buffer, AioSession session) -> {
        if (buffer.remaining() < Integer.BYTES
            || buffer.remaining() < Integer.BYTES + buffer.getInt(buffer.position())) {
          return null;
        }
        byte[] message = new byte[buffer.getInt()];
        buffer.get(message);
        return message;
      };

  private static void send(AioSession session, byte[] message) {
    try {
      session.writeBuffer().writeInt(message.length);
      session.writeBuffer().write(message);
      session.writeBuffer().flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static byte[] message(int number) {
    byte[] message = Nio2Contract.pattern(1 + number * 7_919 % LARGEST);
    message[0] = (byte) number;
    return message;
  }

  @Test
  void messagesComeBackToTheByte() throws IOException {
    AsynchronousChannelGroup group =
        AsynchronousChannelGroup.withFixedThreadPool(3, Executors.defaultThreadFactory());
    int port = freePort();
    AioQuickServer server =
        new AioQuickServer("127.0.0.1", port, PROTOCOL, SmartSocketProgramTest::send);
    server.setBannerEnabled(false).setReadBufferSize(2 * LARGEST).disableLowMemory();
    server.start(group);
    Receiver receiver = new Receiver();
    AioQuickClient client = new AioQuickClient("127.0.0.1", port, PROTOCOL, receiver);
    client.setReadBufferSize(2 * LARGEST).disableLowMemory();
    try {
      AioSession session = client.start(group);
      for (int i = 0; i < MESSAGES; i++) {
        send(session, message(i));
      }
      Patience.await(receiver.done, "the last message");
    } finally {
      client.shutdownNow();
      server.shutdown();
      group.shutdown();
    }
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private static final class Receiver implements MessageProcessor<byte[]> {
    final CompletableFuture<Void> done = new CompletableFuture<>();
    private int received;

    @Override
    public void process(AioSession session, byte[] message) {
      try {
        assertArrayEquals(message(received), message);
        if (++received == MESSAGES) {
          done.complete(null);
        }
      } catch (AssertionError e) {
        done.completeExceptionally(e);
      }
    }

    @Override
    public void stateEvent(AioSession session, StateMachineEnum state, Throwable error) {
      if (error != null) {
        done.completeExceptionally(error);
      }
    }
  }
}
