package io.baton.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;

/** NIO.2, on whichever provider the property of the JDK names. */
final class Nio2Echo {
  private Nio2Echo() {}

  /** One connection; the attachment names the completed operation. */
  private static final class Session implements CompletionHandler<Integer, Boolean> {
    private final AsynchronousSocketChannel connection;
    private final ByteBuffer buffer;

    Session(AsynchronousSocketChannel connection, int block) {
      this.connection = connection;
      buffer = ByteBuffer.allocateDirect(block);
    }

    void read() {
      connection.read(buffer.clear(), true, this);
    }

    @Override
    public void completed(Integer count, Boolean reading) {
      if (count < 0) {
        failed(null, reading);
      } else if (reading) {
        connection.write(buffer.flip(), false, this);
      } else if (buffer.hasRemaining()) {
        connection.write(buffer, false, this);
      } else {
        read();
      }
    }

    @Override
    public void failed(Throwable error, Boolean reading) {
      try {
        connection.close();
      } catch (IOException e) {
        System.err.println(e);
      }
    }
  }

  public static void main(String[] words) throws Exception {
    EchoCommand command = EchoCommand.of(words);
    AsynchronousChannelGroup group =
        AsynchronousChannelGroup.withFixedThreadPool(command.threads, Thread::new);
    AsynchronousServerSocketChannel listener =
        AsynchronousServerSocketChannel.open(group).bind(command.address(), EchoCommand.BACKLOG);
    listener.accept(
        null,
        new CompletionHandler<AsynchronousSocketChannel, Void>() {
          @Override
          public void completed(AsynchronousSocketChannel connection, Void none) {
            listener.accept(null, this);
            new Session(connection, command.block).read();
          }

          @Override
          public void failed(Throwable error, Void none) {
            System.err.println(error);
          }
        });
    EchoCommand.listening(listener.getLocalAddress());
    Thread.currentThread().join();
  }
}
