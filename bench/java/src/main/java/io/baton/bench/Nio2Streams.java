package io.baton.bench;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.CompletableFuture;

/**
 * Streams of NIO.2 in one direction: small writes, and then reads of 8 KiB, each started by the
 * handler of the one before. The peer is a blocking socket. Prints one line of JSON.
 */
final class Nio2Streams {
  private static final int WARM_UP_ROUNDS = 2;
  private static final int WRITES = 200_000;
  private static final int READS = 20_000;
  private static final int READ_BLOCK = 8192;

  private Nio2Streams() {}

  /** The same operation again and again, until so many bytes were moved. */
  private abstract static class Chain implements CompletionHandler<Integer, Void> {
    final AsynchronousSocketChannel channel;
    final ByteBuffer buffer;
    final CompletableFuture<Void> done = new CompletableFuture<>();
    private long left;

    Chain(AsynchronousSocketChannel channel, int block, long bytes) {
      this.channel = channel;
      buffer = ByteBuffer.allocateDirect(block);
      left = bytes;
    }

    abstract void next();

    @Override
    public void completed(Integer count, Void nothing) {
      left -= count;
      if (count < 0) {
        failed(new IOException("the stream ended, and " + left + " bytes are missing"), null);
      } else if (left > 0) {
        next();
      } else {
        done.complete(null);
      }
    }

    @Override
    public void failed(Throwable error, Void nothing) {
      done.completeExceptionally(error);
    }

    /** Operations of one block a second. */
    double measure() {
      double blocks = (double) left / buffer.capacity();
      long begin = System.nanoTime();
      next();
      done.join();
      return blocks / (System.nanoTime() - begin) * 1e9;
    }
  }

  private static double write(AsynchronousSocketChannel channel, int block) {
    return new Chain(channel, block, (long) WRITES * block) {
      @Override
      void next() {
        if (!buffer.hasRemaining()) {
          buffer.clear();
        }
        channel.write(buffer, null, this);
      }
    }.measure();
  }

  private static double read(AsynchronousSocketChannel channel) {
    return new Chain(channel, READ_BLOCK, (long) READS * READ_BLOCK) {
      @Override
      void next() {
        channel.read(buffer.clear(), null, this);
      }
    }.measure();
  }

  private static void serve(Socket peer, int block) {
    try {
      InputStream in = peer.getInputStream();
      in.skipNBytes((long) WRITES * block);
      OutputStream out = peer.getOutputStream();
      byte[] data = new byte[READ_BLOCK * 8];
      for (long left = (long) READS * READ_BLOCK; left > 0; left -= data.length) {
        out.write(data);
      }
    } catch (IOException e) {
      System.err.println(e);
    }
  }

  public static void main(String[] words) throws Exception {
    EchoCommand command = EchoCommand.of(words);
    AsynchronousChannelGroup group =
        AsynchronousChannelGroup.withFixedThreadPool(command.threads, Thread::new);
    AsynchronousServerSocketChannel listener =
        AsynchronousServerSocketChannel.open(group).bind(command.address());
    int port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
    double writes = 0;
    double reads = 0;
    for (int round = 0; round <= WARM_UP_ROUNDS; round++) {
      try (Socket peer = new Socket(InetAddress.getLoopbackAddress(), port);
          AsynchronousSocketChannel channel = listener.accept().get()) {
        Thread other = new Thread(() -> serve(peer, command.block));
        other.start();
        writes = write(channel, command.block);
        reads = read(channel);
        other.join();
      }
    }
    System.out.printf("{\"writes\": %.0f, \"reads\": %.0f}%n", writes, reads);
    group.shutdownNow();
  }
}
