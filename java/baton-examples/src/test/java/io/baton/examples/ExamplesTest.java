package io.baton.examples;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.AsynchChannel;
import io.baton.Demultiplexor;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The examples work as documented. */
class ExamplesTest {
  private static final int PATIENCE_SECONDS = 60;

  private Demultiplexor demultiplexor;

  @BeforeEach
  void open() throws IOException {
    demultiplexor = Demultiplexor.open();
  }

  @AfterEach
  void close() {
    demultiplexor.close();
  }

  private static InetSocketAddress loopback() {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
  }

  private static Socket client(AsynchChannel server) throws IOException {
    InetSocketAddress address = (InetSocketAddress) server.getLocalAddress();
    Socket client = new Socket(address.getAddress(), address.getPort());
    client.setSoTimeout(PATIENCE_SECONDS * 1000);
    return client;
  }

  @Test
  void echo() throws Exception {
    AsynchChannel server = EchoServer.start(demultiplexor, loopback());
    byte[] message = new byte[100_000];
    new Random(1).nextBytes(message);
    try (Socket client = client(server)) {
      Thread writer =
          new Thread(
              () -> {
                try {
                  client.getOutputStream().write(message);
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              });
      writer.start();
      assertArrayEquals(message, client.getInputStream().readNBytes(message.length));
      writer.join();
    }
  }

  @Test
  void chat() throws Exception {
    AsynchChannel server = ChatServer.start(demultiplexor, loopback());
    try (Socket one = client(server);
        Socket two = client(server)) {
      BufferedReader first = new BufferedReader(new InputStreamReader(one.getInputStream()));
      BufferedReader second = new BufferedReader(new InputStreamReader(two.getInputStream()));
      // Both are members once they hear themselves.
      one.getOutputStream().write("I am one\n".getBytes());
      assertEquals("I am one", first.readLine());
      two.getOutputStream().write("I am two\nhello\n".getBytes());
      assertEquals("I am two", first.readLine());
      assertEquals("hello", first.readLine());
      String heard = second.readLine();
      assertEquals("I am two", heard.equals("I am one") ? second.readLine() : heard);
    }
  }

  @Test
  void aMemberThatCannotReadAnyMoreFailsNoHandler() throws Exception {
    // As when messages of others have closed it, or filled its queue, at the moment of its accept:
    // an exception would close the listener then.
    Queue<Throwable> reported = new ConcurrentLinkedQueue<>();
    try (Demultiplexor small =
        Demultiplexor.builder()
            .threads(1)
            .operationsMax(1)
            .exceptionHandler(reported::add)
            .open()) {
      AsynchChannel server = ChatServer.start(small, loopback());
      try (Socket client = client(server)) {
        client.getOutputStream().write("hello\n".getBytes());
        assertEquals("hello\n", new String(client.getInputStream().readAllBytes()));
      }
      assertTrue(server.isOpen());
    }
    assertEquals(List.of(), List.copyOf(reported));
  }

  @Test
  void copy(@TempDir Path folder) throws Exception {
    byte[] content = new byte[3_000_001];
    new Random(2).nextBytes(content);
    Path source = Files.write(folder.resolve("from"), content);
    Path target = folder.resolve("to");
    assertEquals(
        content.length,
        CopyFile.start(demultiplexor, source, target).get(PATIENCE_SECONDS, TimeUnit.SECONDS));
    assertArrayEquals(content, Files.readAllBytes(target));
  }

  @Test
  void aCopyThatCannotBeWrittenLeavesNothingOpen(@TempDir Path folder) throws Exception {
    Path source = Files.write(folder.resolve("from"), new byte[1]);
    Path nowhere = folder.resolve("missing").resolve("to");
    assertThrows(NoSuchFileException.class, () -> CopyFile.start(demultiplexor, source, nowhere));
    // The close does not wait.
    while (demultiplexor.getOpenChannels() > 0) {
      Thread.onSpinWait();
    }
  }

  @Test
  void dataAtTheMomentOfAnIdleTimeoutCostsNoBlock() throws Exception {
    Duration idle = Duration.ofMillis(50);
    try (Demultiplexor one = Demultiplexor.builder().threads(1).pooledBuffersMax(1).open()) {
      AsynchChannel server = IdleServer.start(one, loopback(), idle);
      try (Socket client = client(server)) {
        client.getOutputStream().write(1);
        client.getInputStream().read();
        // Both are there when the lane has its next turn.
        CountDownLatch held = new CountDownLatch(1);
        one.post(
            () -> {
              held.countDown();
              LockSupport.parkNanos(2 * idle.toNanos());
            });
        held.await();
        client.getOutputStream().write(2);
        client.getInputStream().read();
      }
      AsynchChannel patient = IdleServer.start(one, loopback(), Duration.ofDays(1));
      try (Socket client = client(patient)) {
        client.getOutputStream().write(3);
        assertEquals(3, client.getInputStream().read());
      }
    }
  }

  @Test
  void idle() throws Exception {
    AsynchChannel server = IdleServer.start(demultiplexor, loopback(), Duration.ofMillis(100));
    try (Socket client = client(server)) {
      assertEquals(-1, client.getInputStream().read());
    }
  }

  @Test
  void demo() throws Exception {
    Demo.main(new String[0]);
  }
}
