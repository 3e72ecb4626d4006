package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.nio.NioEngineProvider;
import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.EngineSettings;
import io.baton.spi.Transfer;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** When the engine {@code nio} watches for input, on which threads that wake no lane rely. */
class NioWatchTest {
  private static final long UNTIL_WOKEN = -1;

  private final AtomicInteger completed = new AtomicInteger();
  private Engine engine;
  private Endpoint endpoint;
  private Socket peer;

  @BeforeEach
  void connect() throws Exception {
    engine = new NioEngineProvider().open(new EngineSettings(0, 1, Map.of()));
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      InetSocketAddress address = (InetSocketAddress) server.getLocalSocketAddress();
      endpoint = engine.adopt(SocketChannel.open(address));
      peer = server.accept();
    }
  }

  @AfterEach
  void close() throws Exception {
    endpoint.close();
    engine.close();
    peer.close();
  }

  private Transfer read() {
    ByteBuffer buffer = ByteBuffer.allocate(10);
    return (Transfer)
        Proxy.newProxyInstance(
            getClass().getClassLoader(),
            new Class<?>[] {Transfer.class},
            (self, method, arguments) ->
                switch (method.getName()) {
                  case "kind" -> Transfer.Kind.READ;
                  case "endpoint" -> endpoint;
                  case "buffer" -> buffer;
                  case "completed" -> {
                    completed.incrementAndGet();
                    yield null;
                  }
                  case "returnBuffer" -> null;
                  default -> throw new AssertionError(method);
                });
  }

  private void await() {
    assertTimeoutPreemptively(Patience.PATIENCE, () -> engine.await(UNTIL_WOKEN));
  }

  private void send() throws Exception {
    peer.getOutputStream().write(1);
  }

  @Test
  void itWatchesAfterARead() throws Exception {
    assertFalse(endpoint.wakesOnInput());
    engine.start(read());
    assertTrue(endpoint.wakesOnInput());
    send();
    await();
    assertEquals(1, completed.get());
    assertTrue(endpoint.wakesOnInput());
  }

  @Test
  void itReturnsOnceAfterItWatchesNoMore() throws Exception {
    engine.start(read());
    send();
    await();
    send();
    await();
    // The lane looks for a read, and waits again: a read may have come in between.
    assertTrue(endpoint.wakesOnInput());
    await();
    assertFalse(endpoint.wakesOnInput());
    engine.start(read());
    assertEquals(2, completed.get());
  }

  @Test
  void aReadThatTheLaneBringsKeepsItWatching() throws Exception {
    engine.start(read());
    send();
    await();
    send();
    await();
    engine.start(read());
    assertEquals(2, completed.get());
    engine.start(read());
    send();
    await();
    assertEquals(3, completed.get());
    assertTrue(endpoint.wakesOnInput());
  }
}
