package io.baton.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** A bare loop over a Selector: nothing between java.nio and the echo. */
final class SelectorEcho {
  private final Selector selector;
  private final ServerSocketChannel listener;
  private final int block;

  private SelectorEcho(EchoCommand command) throws IOException {
    block = command.block;
    selector = Selector.open();
    listener = ServerSocketChannel.open().bind(command.address(), EchoCommand.BACKLOG);
    listener.configureBlocking(false);
    listener.register(selector, SelectionKey.OP_ACCEPT);
  }

  public static void main(String[] words) throws IOException {
    SelectorEcho echo = new SelectorEcho(EchoCommand.of(words));
    EchoCommand.listening(echo.listener.getLocalAddress());
    while (true) {
      echo.selector.select(echo::serve);
    }
  }

  private void serve(SelectionKey key) {
    try {
      if (key.isAcceptable()) {
        accept();
      } else {
        echo(key);
      }
    } catch (IOException e) {
      key.cancel();
      close(key);
    }
  }

  /** Takes all that wait: one in each selection would leave a thousand out for a second. */
  private void accept() throws IOException {
    for (SocketChannel one = listener.accept(); one != null; one = listener.accept()) {
      one.configureBlocking(false);
      one.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(block));
    }
  }

  private static void echo(SelectionKey key) throws IOException {
    SocketChannel connection = (SocketChannel) key.channel();
    ByteBuffer buffer = (ByteBuffer) key.attachment();
    if (key.isReadable()) {
      if (connection.read(buffer.clear()) < 0) {
        connection.close();
        return;
      }
      buffer.flip();
    }
    connection.write(buffer);
    int wanted = buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ;
    if (key.interestOps() != wanted) {
      key.interestOps(wanted);
    }
  }

  private static void close(SelectionKey key) {
    try {
      key.channel().close();
    } catch (IOException e) {
      System.err.println(e);
    }
  }
}
