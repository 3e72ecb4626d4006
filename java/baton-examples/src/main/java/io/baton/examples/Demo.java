package io.baton.examples;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.OpAccept;
import io.baton.OpRead;
import io.baton.OpWrite;
import io.baton.spi.EngineProvider;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.ServiceLoader;

/** An echo on every engine, in one table: {@code scripts/java --demo}. */
public final class Demo {
  private static final int MESSAGES = 20_000;
  private static final int SIZE = 512;

  private static final String NATIVE_ENGINE = "native.engine";

  private Demo() {}

  /** Every engine has connections of its own kind: {@code open}, not {@code getChannel}. */
  private static final class Listener implements AsynchHandler {
    @Override
    public void onAcceptCompleted(OpAccept opAccept) throws IOException {
      if (opAccept.getError() == null) {
        opAccept.open(new Echo()).read(ByteBuffer.allocateDirect(SIZE));
        opAccept.getAsynchChannel().accept();
      }
    }
  }

  private static final class Echo implements AsynchHandler {
    @Override
    public void onReadCompleted(OpRead opRead) {
      if (opRead.getError() != null || opRead.getBytesCompleted() == 0) {
        opRead.getAsynchChannel().close();
      } else {
        opRead.getAsynchChannel().write(opRead.getBuffer());
      }
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      opWrite.getAsynchChannel().read(opWrite.getBuffer().clear());
    }
  }

  /**
   * Prints the table.
   *
   * @param arguments none
   * @throws Exception if an echo fails
   */
  public static void main(String[] arguments) throws Exception {
    System.out.println("JDK " + Runtime.version() + ", one connection, " + SIZE + " bytes");
    System.out.printf("%-16s %8s %14s  %s%n", "engine", "priority", "messages/s", "");
    for (EngineProvider engine : ServiceLoader.load(EngineProvider.class)) {
      Throwable cause = engine.unavailabilityCause();
      if (cause != null) {
        row(engine, "", " ", "not available: " + cause.getMessage());
      } else if (engine.settingNames().contains(NATIVE_ENGINE)) {
        for (String inner : List.of("io_uring", "emulated")) {
          show(engine, inner);
        }
      } else {
        show(engine, "");
      }
    }
  }

  private static void show(EngineProvider engine, String inner) throws Exception {
    try {
      row(engine, inner, String.format("%.0f", rate(engine, inner)), "");
    } catch (IOException e) {
      row(engine, inner, " ", e.getMessage());
    }
  }

  private static void row(EngineProvider engine, String inner, String rate, String remark) {
    String name = (engine.name() + " " + inner).strip();
    System.out.printf("%-16s %8d %14s  %s%n", name, engine.priority(), rate, remark);
  }

  private static double rate(EngineProvider engine, String inner) throws Exception {
    DemultiplexorBuilder builder = Demultiplexor.builder().engine(engine).threads(1);
    if (!inner.isEmpty()) {
      builder.set(NATIVE_ENGINE, inner);
    }
    try (Demultiplexor demultiplexor = builder.open()) {
      AsynchChannel listener =
          demultiplexor.listen(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), new Listener());
      listener.accept();
      InetSocketAddress address = (InetSocketAddress) listener.getLocalAddress();
      try (Socket client = new Socket(address.getAddress(), address.getPort())) {
        client.setTcpNoDelay(true);
        echo(client, MESSAGES / 4);
        long begin = System.nanoTime();
        echo(client, MESSAGES);
        return MESSAGES / ((System.nanoTime() - begin) / 1e9);
      } finally {
        // When the connection has seen that its client is gone.
        demultiplexor.stop(Duration.ofSeconds(10)).join();
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
