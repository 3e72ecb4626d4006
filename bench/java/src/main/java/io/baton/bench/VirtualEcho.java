package io.baton.bench;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;

/** A virtual thread for each connection, which blocks. */
final class VirtualEcho {
  private VirtualEcho() {}

  public static void main(String[] words) throws Exception {
    EchoCommand command = EchoCommand.of(words);
    try (ServerSocket listener = new ServerSocket()) {
      listener.bind(command.address(), EchoCommand.BACKLOG);
      EchoCommand.listening(listener.getLocalSocketAddress());
      // Among the others: with one carrier, a thread of the system would take its core away.
      Thread.ofVirtual().start(() -> accept(listener, command.block)).join();
    }
  }

  private static void accept(ServerSocket listener, int block) {
    try {
      while (true) {
        Socket connection = listener.accept();
        Thread.ofVirtual().start(() -> echo(connection, block));
      }
    } catch (IOException e) {
      System.err.println(e);
    }
  }

  private static void echo(Socket connection, int block) {
    byte[] buffer = new byte[block];
    try (connection) {
      var input = connection.getInputStream();
      var output = connection.getOutputStream();
      for (int count = input.read(buffer); count >= 0; count = input.read(buffer)) {
        output.write(buffer, 0, count);
      }
    } catch (IOException e) {
      // The client is gone.
    }
  }
}
