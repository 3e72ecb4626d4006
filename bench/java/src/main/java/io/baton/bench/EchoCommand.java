package io.baton.bench;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;

/** The options of every server, in the words of {@code baton echo}. */
final class EchoCommand {
  /** So long is the queue of a listener. */
  static final int BACKLOG = 4096;

  int port;
  int threads = 1;
  int block = 512;
  String transport = "nio";

  private EchoCommand() {}

  static EchoCommand of(String[] words) {
    EchoCommand command = new EchoCommand();
    for (int i = 0; i + 1 < words.length; i += 2) {
      String value = words[i + 1];
      switch (words[i]) {
        case "--port" -> command.port = Integer.parseInt(value);
        case "--threads" -> command.threads = Integer.parseInt(value);
        case "--block" -> command.block = Integer.parseInt(value);
        case "--transport" -> command.transport = value;
        default -> throw new IllegalArgumentException("unknown option " + words[i]);
      }
    }
    return command;
  }

  InetSocketAddress address() {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
  }

  /** Says where the server listens. SIGTERM ends it with the status 0 from now on. */
  static void listening(SocketAddress address) {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    System.out.println("listening " + ((InetSocketAddress) address).getPort());
    System.out.flush();
  }
}
