package io.baton.examples;

import io.baton.AsynchChannel;
import io.baton.Demultiplexor;
import io.baton.spi.EngineProvider;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Arrays;
import java.util.ServiceLoader;

/** An echo on every engine, in one table: {@code scripts/java --demo}. */
public final class Demo {
  private static final int MESSAGES = 20_000;
  private static final int SIZE = 512;

  private Demo() {}

  /**
   * Prints the table.
   *
   * @param arguments none
   * @throws Exception if an echo fails
   */
  public static void main(String[] arguments) throws Exception {
    System.out.println("JDK " + Runtime.version() + ", one connection, " + SIZE + " bytes");
    System.out.printf("%-10s %8s %14s  %s%n", "engine", "priority", "messages/s", "");
    for (EngineProvider engine : ServiceLoader.load(EngineProvider.class)) {
      Throwable cause = engine.unavailabilityCause();
      String result = cause == null ? String.format("%14.0f", rate(engine)) : " ".repeat(14);
      System.out.printf(
          "%-10s %8d %s  %s%n",
          engine.name(),
          engine.priority(),
          result,
          cause == null ? "" : "not available: " + cause.getMessage());
    }
  }

  private static double rate(EngineProvider engine) throws Exception {
    try (Demultiplexor demultiplexor = Demultiplexor.builder().engine(engine).threads(1).open()) {
      AsynchChannel listener =
          EchoServer.start(
              demultiplexor, new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
      try (Socket client = new Socket(address.getAddress(), address.getPort())) {
        client.setTcpNoDelay(true);
        echo(client, MESSAGES / 4);
        long begin = System.nanoTime();
        echo(client, MESSAGES);
        return MESSAGES / ((System.nanoTime() - begin) / 1e9);
      }
    }
  }

  private static void echo(Socket client, int messages) throws Exception {
    byte[] message = new byte[SIZE];
    for (int i = 0; i < messages; i++) {
      Arrays.fill(message, (byte) i);
      client.getOutputStream().write(message);
      if (!Arrays.equals(message, client.getInputStream().readNBytes(SIZE))) {
        throw new AssertionError("message " + i + " did not come back as it was sent");
      }
    }
  }
}
