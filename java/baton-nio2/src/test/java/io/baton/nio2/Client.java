package io.baton.nio2;

import java.io.EOFException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.CompletableFuture;

/** Writes data and reads as many bytes back, at the same time. */
final class Client {
  private final AsynchronousSocketChannel channel;
  private final ByteBuffer out;
  private final ByteBuffer back;
  private final CompletableFuture<byte[]> done;

  Client(AsynchronousSocketChannel channel, byte[] data, CompletableFuture<byte[]> done) {
    this.channel = channel;
    out = ByteBuffer.wrap(data);
    back = ByteBuffer.allocate(data.length);
    this.done = done;
  }

  void begin() {
    channel.write(out, null, new Step(out));
    channel.read(back, null, new Step(back));
  }

  private final class Step implements CompletionHandler<Integer, Void> {
    private final ByteBuffer buffer;

    Step(ByteBuffer buffer) {
      this.buffer = buffer;
    }

    @Override
    public void completed(Integer bytes, Void nothing) {
      if (bytes < 0) {
        done.completeExceptionally(new EOFException("after " + back.position() + " bytes"));
      } else if (!buffer.hasRemaining()) {
        if (buffer == back) {
          done.complete(back.array());
        }
      } else if (buffer == back) {
        channel.read(buffer, null, this);
      } else {
        channel.write(buffer, null, this);
      }
    }

    @Override
    public void failed(Throwable error, Void nothing) {
      done.completeExceptionally(error);
    }
  }
}
