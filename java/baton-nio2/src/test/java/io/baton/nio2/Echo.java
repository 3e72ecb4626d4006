package io.baton.nio2;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;

/** The usual echo server of NIO.2 books: read, write until all is written, read again. */
final class Echo implements CompletionHandler<Integer, Boolean> {
  private final AsynchronousSocketChannel channel;
  private final ByteBuffer buffer = ByteBuffer.allocate(4_096);

  Echo(AsynchronousSocketChannel channel) {
    this.channel = channel;
  }

  void read() {
    channel.read(buffer.clear(), true, this);
  }

  @Override
  public void completed(Integer bytes, Boolean wasRead) {
    if (bytes < 0) {
      end();
      return;
    }
    if (wasRead) {
      buffer.flip();
    }
    if (buffer.hasRemaining()) {
      channel.write(buffer, false, this);
    } else {
      read();
    }
  }

  @Override
  public void failed(Throwable error, Boolean wasRead) {
    end();
  }

  private void end() {
    try {
      channel.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
